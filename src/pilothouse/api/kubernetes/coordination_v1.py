"""``coordination.k8s.io/v1``: leases."""

from __future__ import annotations

from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.printer_cells import AGE, NAME, at, column
from pilothouse.api.kubernetes.shared_checks import Problems
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object, Resource, single


def resources() -> tuple[Resource, ...]:
    lease = native(
        "coordination.k8s.io/v1",
        "Lease",
        create_on_update=True,
        unconditional_update=False,
        columns=(NAME, column("Holder", "Who holds it.", at("spec", "holderIdentity")), AGE),
        validate=_validate,
    )
    return (single(lease),)


def _validate(new: Object, old: Object | None) -> Problems:
    spec = new.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield FieldError.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield FieldError.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
    if spec.get("preferredHolder") and not spec.get("strategy"):
        yield FieldError.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")
