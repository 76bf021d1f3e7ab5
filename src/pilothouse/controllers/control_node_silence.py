"""Sets ``Ready`` of a ControlNode by its heartbeat: ``Unknown`` if its machine is silent.

The controller-manager of a machine renews the Lease ``k0s-ctrl-NAME`` every ten seconds. What counts is when
a renewal *arrives* here, not the time in it; time in which none could have arrived does not count. The
condition names the last renewal, so that another leader knows whether there was one since. A silent
ControlNode is not removed: only people know whether its machine comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.k0s.heartbeats import LEASE_NAMESPACE, control_node_lease
from pilothouse.api.kind_names import ControlNode, Lease
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot

SILENCE_PERIOD: Final = 60.0
"""Seconds without a heartbeat after which a machine counts as silent."""
SILENT: Final = "HeartbeatMissed"
HEARD: Final = "HeartbeatRenewed"
_SOONEST: Final = 1.0
_RECHECK: Final = 10.0
"""Seconds after which a silent machine is looked at again."""


@controller(ControlNode, reads=Lease, name="control-node-silence")
def control_node_silence(control_node: Object, world: Snapshot) -> Iterator[Intent]:
    """A ControlNode without a heartbeat for a minute is not known to be ready."""
    if control_node.deleting:
        return
    name = control_node_lease(control_node.name)
    lease = world.find(Lease, LEASE_NAMESPACE, name)
    renewed = str(lease.spec.get("renewTime") or "") if lease is not None else ""
    silent = world.silence(Lease, LEASE_NAMESPACE, name, control_node.arrived)
    ready = control_node.condition("Ready") or {}
    if ready.get("reason") == SILENT and _silence_text(renewed) in str(ready.get("message")):
        yield RequeueAfter(_RECHECK, because="waiting for a heartbeat")
    elif silent >= SILENCE_PERIOD:
        yield from _conditioned(control_node, "Unknown", SILENT, _message(control_node, renewed), world.now)
        yield RequeueAfter(_RECHECK, because="waiting for a heartbeat")
    else:
        if lease is not None and ready.get("status") != "True":
            yield from _conditioned(control_node, "True", HEARD, "", world.now)
        yield RequeueAfter(max(_SOONEST, SILENCE_PERIOD - silent), because="waiting for the next heartbeat")


def silence_of(control_node: Object) -> str:
    """Since when a ControlNode is silent, for people; empty if it is not."""
    ready = control_node.condition("Ready") or {}
    return str(ready.get("message")).partition(";")[0] if ready.get("reason") == SILENT else ""


def _message(control_node: Object, renewed: str) -> str:
    return (
        f"{_silence_text(renewed)}; its machine or its controller-manager does not run, or does not reach "
        f"the API server. If it is gone for good, run: kubectl delete controlnode {control_node.name}"
    )


def _silence_text(renewed: str) -> str:
    return f"no heartbeat since {renewed}" if renewed else "no heartbeat was seen"


def _conditioned(
    control_node: Object, status: str, reason: str, message: str, now: float
) -> Iterator[Intent]:
    condition: Tree = {"type": "Ready", "status": status, "reason": reason, "message": message}
    conditions = with_condition(control_node.status.get("conditions"), condition, now=format_time(now))
    because = message.partition(";")[0] or f"ControlNode {control_node.name} has renewed its lease"
    yield SetStatus(control_node, {**control_node.status, "conditions": conditions}, because=because)
    if reason == SILENT or silence_of(control_node):
        # The first heartbeat of a new ControlNode is no news.
        yield RecordEvent(control_node, event=reason, because=because, warning=reason == SILENT)
