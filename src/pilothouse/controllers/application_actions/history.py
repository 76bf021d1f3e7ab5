"""How long finished actions are kept: seven days, and the last ten of an object that exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.applications.registry import BUILT_IN
from pilothouse.api.kind_names import (
    ApplicationAction,
    Deployment,
    Node,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.objects import Object
from pilothouse.controllers.application_actions.action_status import SERVICE_ACCOUNT, is_finished
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Delete, Intent, RequeueAfter
from pilothouse.runtime.snapshot import Snapshot

KEPT_SECONDS: Final = 7 * 86400.0
KEPT_OF_OBJECT: Final = 10
_OPTIONAL: Final = (
    StoragePool,
    *dict.fromkeys(each.cluster for each in BUILT_IN if each.cluster is not None),
)
_KNOWN: Final = (PersistentVolumeClaim, Pod, StatefulSet, Deployment, Node, *_OPTIONAL)
"""The kinds of objects that rules are about."""


def older_ones(action: Object, world: Snapshot) -> Names:
    """An action that finishes may be the eleventh of its object."""
    if is_finished(action):
        for other in _of_same_object(action, world):
            yield other.key


@controller(
    ApplicationAction,
    also={ApplicationAction: older_ones},
    reads=_KNOWN,
    optional=frozenset(_OPTIONAL),
    impersonate=SERVICE_ACCOUNT,
)
def action_history(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Delete a finished action that is old, unless it is among the last of its object."""
    if action.deleting or not is_finished(action):
        return
    left = _end(action) + KEPT_SECONDS - world.now
    if left > 0:
        yield RequeueAfter(left, because="it is kept for 7 days")
        return
    if _object_is_gone(action, world):
        yield Delete(action, exact=True, because="it ended 7 days ago, and its object is gone")
        return
    later = [other for other in _of_same_object(action, world) if _order(other) > _order(action)]
    if len(later) >= KEPT_OF_OBJECT:
        because = f"it ended 7 days ago, and its object has {len(later)} later ones"
        yield Delete(action, exact=True, because=because)


def _of_same_object(action: Object, world: Snapshot) -> list[Object]:
    uid = str(action.at("spec", "object", "uid", default=""))
    found = world.where(ApplicationAction, "spec.object.uid", uid) if uid else []
    return [other for other in found if other.namespace == action.namespace and is_finished(other)]


def _object_is_gone(action: Object, world: Snapshot) -> bool:
    """Whether what it acted on is gone; of other kinds than those of rules this is not known."""
    reference = action.at("spec", "object", default={})
    kind = str(reference.get("kind", ""))
    noun = next((one for one in _KNOWN if one.kind == kind), None)
    # Of another group it is another kind; the versions of one are the same objects.
    group = str(reference.get("apiVersion") or (noun.api_version if noun is not None else "")).rpartition(
        "/"
    )[0]
    if noun is None or group != noun.group:
        return False
    one = world.find(noun, action.namespace if noun.namespaced else "", str(reference.get("name", "")))
    return one is None or one.uid != reference.get("uid", one.uid)


def _end(action: Object) -> float:
    return action.moment("status", "completionTime") or action.created


def _order(action: Object) -> tuple[float, str]:
    return _end(action), action.name
