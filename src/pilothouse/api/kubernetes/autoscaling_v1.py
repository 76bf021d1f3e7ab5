"""``autoscaling/v1``: Scale, the body of ``/scale``."""

from __future__ import annotations

from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.shared_checks import Problems, not_negative
from pilothouse.meta.kind import Kind, Object


def scale() -> Kind:
    """The body of ``/scale``."""
    return native(
        "autoscaling/v1",
        "Scale",
        virtual=True,
        verbs=("get", "patch", "update"),
        validate=_validate,
    )


def _validate(new: Object, old: Object | None) -> Problems:
    yield from not_negative("spec.replicas", (new.get("spec") or {}).get("replicas"))
