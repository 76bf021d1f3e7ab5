"""What a decision asks for, each with its reason.

    yield Create(pod, because="replica 2 of 3 is missing", event="SuccessfulCreate")
    yield SetStatus(pod_set, {**pod_set.status, "readyReplicas": 2}, because="2 of 3 pods are ready")
    yield Wait("NoNode", because="no node has 2 CPUs left", remedy="add a node, or lower spec.…requests.cpu")

Intents are data: carrying them out, in order, is the runtime's work (``acting``), which stops at the first that fails. An
intent that is already true is skipped. ``event`` names the reason of an Event that tells of the intent once it is done;
its message is ``because``.

What was seen is part of what was meant: an update, a status or a deletion goes through only if the object is still
the one that was seen (its version, or for a deletion its uid); otherwise the decision is taken again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that should be done, and why."""

    because: str
    """A sentence for people: it becomes the message of the event and stands in the decision's record."""
    event: str = ""
    """The reason of the event that tells of it, in one word; none if empty."""

    @property
    def verb(self) -> str:
        """What it is called in a decision's record."""
        return type(self).__name__

    def __repr__(self) -> str:
        """For logs: what is done to whom, and why. What is written stays out of it, since it may be a Secret's."""
        about = subject(self)
        whom = f" {about[1]} {about[2]}/{about[3]}" if about is not None else ""
        return f"<{self.verb}{whom}: {self.because}>"


class Create(Intent, frozen=True):
    """Make an object. If there is one of that name already, the decision is taken again with it in view."""

    object: Tree


class Apply(Intent, frozen=True):
    """Have these fields be so, by server-side apply, under the controller's name; fields left out are given up."""

    object: Tree
    subresource: str = ""


class Update(Intent, frozen=True):
    """Put this tree in the place of the object that was seen."""

    seen: Object
    object: Tree
    subresource: str = ""
    unless: tuple[ObjectTarget, ...] = ()
    """Leave it alone if any of these is there after all; asked of the server, not of a cache."""


class PatchObject(Intent, frozen=True):
    """Merge these fields into an object; null removes. ``exact`` refuses if it is not the version that was seen."""

    seen: Object
    fields: Tree
    subresource: str = ""
    exact: bool = False
    provided: ObjectTarget | None = None
    """Leave it alone unless this other object is there and stays; asked of the server, not of a cache."""
    unless: tuple[ObjectTarget, ...] = ()
    """As with an update."""


class SetStatus(Intent, frozen=True):
    """Have the object's status be this one."""

    seen: Object
    status: Tree


class Delete(Intent, frozen=True):
    """Have the very object that was seen deleted."""

    seen: Object
    propagation: Literal["", "Background", "Foreground", "Orphan"] = ""
    grace: int | None = None
    exact: bool = False
    """Only if it is still the version that was seen, not just the same object."""
    unless: tuple[ObjectTarget, ...] = ()
    """As with an update."""


class DeleteAll(Intent, frozen=True):
    """Have every object of a kind in a namespace deleted."""

    noun: KindName
    namespace: str


class Evict(Intent, frozen=True):
    """Have a pod evicted, if its disruption budget allows."""

    seen: Object
    grace: int | None = None


class Bind(Intent, frozen=True):
    """Assign a pod to a node."""

    seen: Object
    node: str


class RecordEvent(Intent, frozen=True):
    """Write an Event about an object: ``because`` is its message, ``event`` its reason."""

    about: Object
    warning: bool = False


class Wait(Intent, frozen=True):
    """Nothing more can be done before something changes. ``seconds`` is when to look again in any case."""

    reason: str
    """What is waited for, in one word."""
    remedy: str = ""
    """What a person could do about it."""
    seconds: float | None = None


class RequeueAfter(Intent, frozen=True):
    """Look again after a while, though nothing is amiss."""

    seconds: float


class ObjectTarget(msgspec.Struct, frozen=True):
    """Another object, by the name it had and the uid it was; without a uid, whoever has the name; without a name, any
    of its kind in the namespace."""

    noun: KindName
    namespace: str
    name: str = ""
    uid: str = ""


def subject(intent: Intent) -> tuple[str, str, str, str] | None:
    """apiVersion, kind, namespace and name of what an intent is done to, if it is an object."""
    tree: Any
    match intent:
        case Create() | Apply():
            tree = intent.object
            meta = tree.get("metadata") or {}
            name = meta.get("name") or meta.get("generateName", "")
            return tree.get("apiVersion", ""), tree.get("kind", ""), meta.get("namespace", ""), name
        case Update() | PatchObject() | SetStatus() | Delete() | Evict() | Bind():
            seen = intent.seen
            return seen.api_version, seen.kind, seen.namespace, seen.name
        case DeleteAll():
            return intent.noun.api_version, intent.noun.kind, intent.namespace, ""
        case _:
            return None
