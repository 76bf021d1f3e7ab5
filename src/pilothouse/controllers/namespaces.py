"""Deletes everything in a namespace that is being deleted.

In the phase ``Terminating`` nothing new is let in. The content is deleted kind by kind; when the server has
nothing left of any kind, the finalizer ``kubernetes`` is removed, and with it the namespace. Until then its
conditions say what remains, and which finalizers hold it.

Objects may have become protected against deletion since the API server accepted the namespace's deletion. So
kinds that can be protected come first: while one of them refuses, nothing else is deleted, and
``NamespaceDeletionContentFailure`` says which object refuses and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pilothouse.api.applications.registry import BUILT_IN
from pilothouse.api.kind_names import CoreEvent, KindName, Namespace
from pilothouse.api.navigator.validation.clusters import protected
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import EVERY, Names, controller
from pilothouse.runtime.intents import DeleteAll, Intent, ObjectTarget, SetStatus, Update, Wait
from pilothouse.runtime.snapshot import Snapshot

FINALIZER: Final = "kubernetes"
REMAINING: Final = "NamespaceContentRemaining"
HELD: Final = "NamespaceFinalizersRemaining"
REFUSED: Final = "NamespaceDeletionContentFailure"
PROTECTABLE: Final = frozenset(
    (noun.group, noun.kind) for each in BUILT_IN if (noun := each.cluster) is not None
)
"""The kinds whose objects can be protected against deletion."""
_LATER: Final = 15.0


def its_namespace(changed: Object, world: Snapshot) -> Names:
    """The namespace of an object, if it is being deleted."""
    if changed.namespace:
        found = world.find(Namespace, "", changed.namespace)
        if found is not None and found.deleting:
            yield "", changed.namespace


@controller(Namespace, also={EVERY: its_namespace}, standalone=True)
def namespaces(namespace: Object, world: Snapshot) -> Iterator[Intent]:
    """Empty a namespace that is being deleted."""
    if not namespace.deleting or FINALIZER not in namespace.spec.get("finalizers", ()):
        return
    # A failure ends the round, so that nothing is deleted if a protected object was overlooked.
    nouns = sorted((noun for noun in world.nouns if noun.namespaced), key=lambda noun: not _protectable(noun))
    remaining = [one for noun in nouns for one in world.all(noun, namespace.name)]
    refusals = [
        refusal
        for noun in nouns
        if _protectable(noun)
        for one in world.all(noun, namespace.name)
        if (refusal := _refusal(noun, one))
    ]
    if refusals:
        told = "; ".join(refusals)
        conditions = _conditions(namespace, remaining, world.now, told)
        yield SetStatus(namespace, {**namespace.status, "conditions": conditions}, because=told)
        yield Wait("Protected", because=f"its deletion waits: {told}", seconds=_LATER)
        return
    begun = namespace.condition(REMAINING) is not None and not namespace.is_true(REFUSED)
    present = {(one.api_version, one.kind) for one in remaining if not one.deleting}
    for noun in nouns:
        # Nothing new is let in, so the first round covers objects that are not in the caches yet.
        if not begun or (noun.api_version, noun.kind) in present:
            yield DeleteAll(noun, namespace.name, because=f"the namespace {namespace.name} is being deleted")
    yield SetStatus(
        namespace,
        {**namespace.status, "conditions": _conditions(namespace, remaining, world.now, "")},
        because=_told(remaining),
    )
    if remaining:
        held = sorted({finalizer for one in remaining for finalizer in one.finalizers})
        yield Wait(
            "ContentRemains",
            because=_told(remaining),
            remedy=f"have their controllers remove the finalizers {', '.join(held)}" if held else "",
            seconds=_LATER,
        )
        return
    yield DeleteAll(CoreEvent, namespace.name, because=f"the namespace {namespace.name} is being deleted")
    kept = [other for other in namespace.spec["finalizers"] if other != FINALIZER]
    yield Update(
        namespace,
        {**namespace.tree, "spec": {**namespace.spec, "finalizers": kept}},
        subresource="finalize",
        unless=tuple(ObjectTarget(noun, namespace.name) for noun in nouns),
        because=f"nothing is left in the namespace {namespace.name}",
    )


def _protectable(noun: KindName) -> bool:
    return (noun.group, noun.kind) in PROTECTABLE


def _refusal(noun: KindName, one: Object) -> str:
    """What our API server would answer to its deletion, if it would refuse."""
    why = "" if one.deleting else protected(one.tree)
    return why and f'{noun.resource} "{one.name}" is forbidden: {why}'


def _conditions(namespace: Object, remaining: list[Object], now: float, refused: str) -> list[Tree]:
    kinds = Counter(one.kind for one in remaining)
    held = Counter(finalizer for one in remaining for finalizer in one.finalizers)
    failed = f"Nothing is deleted, since deletion is refused: {refused}"
    conditions: list[Tree] = list(namespace.status.get("conditions") or ())
    for kind, is_true, reason, message in (
        (
            "NamespaceDeletionDiscoveryFailure",
            False,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (REFUSED, True, "ContentDeletionFailed", failed)
        if refused
        else (REFUSED, False, "ContentDeleted", "All content is deleted or being deleted"),
        (REMAINING, True, "SomeResourcesRemain", f"Remaining: {_counted(kinds)}")
        if kinds
        else (REMAINING, False, "ContentRemoved", "All content is gone"),
        (HELD, True, "SomeFinalizersRemain", f"Held by finalizers: {_counted(held)}")
        if held
        else (HELD, False, "ContentHasNoFinalizers", "No finalizer holds any content"),
    ):
        condition = {"type": kind, "status": str(is_true), "reason": reason, "message": message}
        conditions = with_condition(conditions, condition, now=format_time(now))
    return conditions


def _told(remaining: list[Object]) -> str:
    if not remaining:
        return "nothing is left in it"
    return f"its deletion waits for {_counted(Counter(one.kind for one in remaining))}"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
