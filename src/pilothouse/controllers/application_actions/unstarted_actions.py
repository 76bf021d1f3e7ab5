"""Actions that nothing carries out.

Any program that watches ApplicationActions may carry out those that have no executor here: it writes the
phase Running. Such an action that has no phase after ten minutes has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import ACTIONS, HA
from pilothouse.controllers.application_actions.action_status import SERVICE_ACCOUNT, finished
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, RequeueAfter
from pilothouse.runtime.snapshot import Snapshot

UNSTARTED_SECONDS: Final = 600.0
_OWN: Final = frozenset(ACTIONS) - {HA}
"""The actions that have an executor here, which says itself what it waits for."""


@controller(ApplicationAction, impersonate=SERVICE_ACCOUNT)
def unstarted_actions(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Fail an action that nothing has begun for ten minutes."""
    name = str(action.spec.get("action", ""))
    if action.deleting or name in _OWN or action.status.get("phase", "Pending") != "Pending":
        return
    left = action.created + UNSTARTED_SECONDS - world.now
    if left > 0:
        yield RequeueAfter(left, because=f"it fails if nothing carries out {name} within 10 minutes")
        return
    message = f"nothing has begun {name} for 10 minutes; run an executor that watches ApplicationActions"
    yield finished(action, "Failed", "NoExecutor", message, now=world.now, event="NoExecutor")
