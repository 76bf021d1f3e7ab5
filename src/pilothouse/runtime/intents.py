"""Intents: the writes, events and waits that a controller asks for, each with its reason.

    yield Create(pod, because="replica 2 of 3 is missing", event="SuccessfulCreate")
    yield SetStatus(pod_set, {**pod_set.status, "readyReplicas": 2}, because="2 of 3 pods are ready")
    yield Wait("NoNode", because="no node has 2 CPUs left", remedy="add a node, or lower requests.cpu")

``intent_executor`` executes them in order and stops at the first that fails; one that is already true is
skipped, and neighbours that are ``independent`` are executed at the same time. ``seen`` is a precondition: an
update, a status or a deletion is made only if the object is still the one that was seen (its version, or for
a deletion its uid). Otherwise the controller decides again.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.runtime.event_recorder import MANAGER, EventSource

_API_VERBS: Final = {"PatchObject": "Patch", "RecordEvent": "Event", "RequeueAfter": "After"}
"""Where a Decision calls an intent otherwise than its class."""


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do, and why."""

    because: str
    """A sentence for people: the message of the event and of the Decision."""
    event: str = ""
    """The reason of the event to record once it is done, in one word; no event if empty."""

    @property
    def verb(self) -> str:
        """Its name in Decision objects and metrics, which is part of the API."""
        name = type(self).__name__
        return _API_VERBS.get(name, name)

    def __repr__(self) -> str:
        """For logs: verb, object and reason. The content stays out, since it may be a Secret's."""
        about = subject(self)
        whom = f" {about[1]} {about[2]}/{about[3]}" if about is not None else ""
        return f"<{self.verb}{whom}: {self.because}>"


class Create(Intent, frozen=True):
    """Create an object. Refused if the name is taken: the controller then decides again."""

    object: Tree


class Apply(Intent, frozen=True):
    """Server-side apply, with the controller as field manager; fields that are left out are given up."""

    object: Tree
    subresource: str = ""


class Update(Intent, frozen=True):
    """Replace the object that was seen by this tree."""

    seen: Object
    object: Tree
    subresource: str = ""
    unless: tuple[ObjectTarget, ...] = ()
    """Refused if any of these objects exists; asked of the server, not of a cache."""


class PatchObject(Intent, frozen=True):
    """Merge-patch an object; null removes a field. ``exact``: refused if it is not the version seen."""

    seen: Object
    fields: Tree
    subresource: str = ""
    exact: bool = False
    provided: ObjectTarget | None = None
    """Refused unless this object exists and is not being deleted; asked of the server, not of a cache."""
    unless: tuple[ObjectTarget, ...] = ()
    """As in ``Update``."""
    independent: bool = False
    """May be executed at the same time as its neighbours that are independent, each of another object. If one
    is refused, the others are made all the same."""
    raises: str = ""
    """The path of a quantity in ``fields``. The object, of any kind that is served, is read from the server
    first: skipped if it has as much already, and refused if it has no such field or another uid."""


class SetStatus(Intent, frozen=True):
    """Replace the object's status."""

    seen: Object
    status: Tree


class Delete(Intent, frozen=True):
    """Delete the object that was seen, by its uid."""

    seen: Object
    propagation: Literal["", "Background", "Foreground", "Orphan"] = ""
    grace: int | None = None
    exact: bool = False
    """Refused if it is not the version that was seen."""
    unless: tuple[ObjectTarget, ...] = ()
    """As in ``Update``."""


class DeleteAll(Intent, frozen=True):
    """Delete every object of a kind in a namespace."""

    noun: KindName
    namespace: str


class SeenCondition(msgspec.Struct, frozen=True):
    """A condition of another object, as it was seen."""

    seen: Object
    kind: str


class Evict(Intent, frozen=True):
    """Evict a pod, if its disruption budget allows. Refused if the budget does not: decide again."""

    seen: Object
    grace: int | None = None
    by: str = ""
    """Who evicts it: with ``because`` in the pod's condition ``DisruptionTarget``."""
    premise: SeenCondition | None = None
    """Refused unless the condition still has this status and reason in the server. The cache of its kind may
    be older than that of pods: a decision could see a condition of the time of an earlier pod."""


class Bind(Intent, frozen=True):
    """Assign a pod to a node."""

    seen: Object
    node: str


class RecordEvent(Intent, frozen=True):
    """Write an Event about an object: ``because`` is its message, ``event`` its reason."""

    about: Object
    warning: bool = False
    source: EventSource = MANAGER


class Wait(Intent, frozen=True):
    """Wait for a change. ``seconds``: reconcile again after that time in any case."""

    reason: str
    """What the controller waits for, in one word."""
    remedy: str = ""
    """What a person could do about it."""
    seconds: float | None = None


class RequeueAfter(Intent, frozen=True):
    """Reconcile again after a while, though nothing is wrong."""

    seconds: float


class ObjectTarget(msgspec.Struct, frozen=True):
    """Another object; without a uid, any of the name; without a name, any of the kind in the namespace."""

    noun: KindName
    namespace: str
    name: str = ""
    uid: str = ""


def subject(intent: Intent) -> tuple[str, str, str, str] | None:
    """apiVersion, kind, namespace and name of the object that an intent changes; None if it changes none."""
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
