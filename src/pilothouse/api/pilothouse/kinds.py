"""The kinds of the group ``pilothouse.io``.

Decisions have no category: there is one per object and controller, and ``kubectl get pilothouse`` is for what
people write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pilothouse.api.own_kinds import GroupVersion, path_column
from pilothouse.api.pilothouse import v1alpha1
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Resource, single


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


DECISION: Final = GroupVersion(v1alpha1.GROUP, v1alpha1.VERSION, v1alpha1.PACKAGE).kind(
    v1alpha1.Decision,
    categories=(),
    status=False,
    columns=(
        path_column("Controller", ".controller", "Who decided."),
        path_column("Kind", ".object.kind", "The kind of what it is about."),
        path_column("Object", ".object.name", "What it is about."),
        path_column("Outcome", ".outcome", "How it stands."),
        path_column("Waiting For", ".waiting.message", "What is waited for."),
        path_column("Changed", ".time", "When the decision last changed.", type="date"),
        path_column("Summary", ".summary", "All of it in a sentence.", wide=True),
    ),
    selectable={
        path: f".{path}" for path in ("controller", "object.kind", "object.name", "object.uid", "outcome")
    },
    validate=check_decision,
)


def resources() -> tuple[Resource, ...]:
    return (single(DECISION),)
