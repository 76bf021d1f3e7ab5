"""The kinds of the group ``pilothouse.io``.

Decisions have no category: there is one per object and controller, and ``kubectl get pilothouse`` is for what
people write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.pilothouse import v1alpha1
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Column, Kind, Resource
from pilothouse.meta.schema.struct_schemas import schema_of


def check_decision(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """A decision has ``waiting`` exactly if it waits, and never changes its controller or object."""
    waits = new["outcome"] == "Waiting"
    if waits and "waiting" not in new:
        yield FieldError.required("waiting", "what is waited for, since the outcome is Waiting")
    elif "waiting" in new and not waits:
        yield FieldError.forbidden("waiting", f"the outcome is {new['outcome']}, so nothing is waited for")
    if old is None:
        return
    if new["controller"] != old["controller"]:
        yield FieldError.forbidden("controller", f"is {old['controller']} and can't be changed")
    for name in ("apiVersion", "kind", "namespace", "name"):
        before = old["object"].get(name, "")
        if new["object"].get(name, "") != before:
            yield FieldError.forbidden(f"object.{name}", f"is {before!r} and can't be changed")


DECISION: Final = Kind(
    group=v1alpha1.GROUP,
    version=v1alpha1.VERSION,
    name="Decision",
    plural="decisions",
    schema=schema_of(v1alpha1.Decision, v1alpha1.PACKAGE),
    columns=(
        Column(name="Controller", path=".controller", description="Who decided."),
        Column(name="Kind", path=".object.kind", description="The kind of what it is about."),
        Column(name="Object", path=".object.name", description="What it is about."),
        Column(name="Outcome", path=".outcome", description="How it stands."),
        Column(name="Waiting For", path=".waiting.message", description="What is waited for."),
        Column(name="Changed", type="date", path=".time", description="When the decision last changed."),
        Column(name="Summary", path=".summary", description="All of it in a sentence.", priority=1),
    ),
    selectable={
        "controller": ".controller",
        "object.kind": ".object.kind",
        "object.name": ".object.name",
        "object.uid": ".object.uid",
        "outcome": ".outcome",
    },
    validate=check_decision,
)


def resources() -> tuple[Resource, ...]:
    return (Resource(kinds=(DECISION,), storage=v1alpha1.VERSION),)
