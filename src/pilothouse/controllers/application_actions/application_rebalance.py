"""``openstorage.io.action.application/rebalance``: has an application spread its data evenly.

    spec:
      action: openstorage.io.action.application/rebalance
      object: {kind: …, name: demo, uid: …}

It writes a request into one of the cluster's Pilots (``spec.rebalance``), by which the leading pilot allows
rebalancing. It removes the request when the cluster reports that data lies evenly, when the rule's window
closes, or after six hours, and ends when the cluster reports that everything is put back as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import ApplicationAction, AutopilotRule, Pilot, StatefulSet
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.action_windows import seconds_until_closed
from pilothouse.api.openstorage.actions import REBALANCE
from pilothouse.api.openstorage.v1alpha1 import ActionWindow
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_actions.action_pauses import PAUSE_READS, pause_of, pause_under_way
from pilothouse.controllers.application_actions.action_status import (
    SERVICE_ACCOUNT,
    START_SECONDS,
    End,
    finished,
    is_finished,
    reason_of,
    running,
)
from pilothouse.controllers.application_actions.field_change import running_in_namespace
from pilothouse.controllers.application_actions.target_cluster import target_cluster
from pilothouse.controllers.application_actions.workload_scale import CLUSTERS
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, PatchObject, SetStatus, Wait
from pilothouse.runtime.snapshot import Snapshot

REBALANCE_SECONDS: Final = 6 * 3600.0
"""How long data may move."""
TAKE_UP_SECONDS: Final = 600.0
"""How long the leading pilot may take to begin, and to put everything back."""
_POLL: Final = 10.0
"""Changes of the cluster concern actions that run; one that has not begun looks for them."""
_REQUESTING, _REBALANCING, _PUTTING_BACK = "Requesting", "Rebalancing", "PuttingBack"
_ENDS: Final[dict[str, tuple[End, str]]] = {
    "Even": ("Succeeded", "Even"),
    "Unneeded": ("Declined", "Unneeded"),
    "Stopped": ("Failed", "Undone"),
    "Expired": ("Failed", "NotEven"),
    "Ignored": ("Failed", "NotTakenUp"),
}
"""By the state that the leading pilot reports: how the action ends, and why."""
_in_namespace = running_in_namespace(REBALANCE)


@controller(
    ApplicationAction,
    also=dict.fromkeys((Pilot, *CLUSTERS), _in_namespace),
    reads=(StatefulSet, *PAUSE_READS),
    impersonate=SERVICE_ACCOUNT,
)
def application_rebalance(action: Object, world: Snapshot) -> Iterator[Intent]:
    """Have an application spread its data evenly over its nodes."""
    if action.spec.get("action") != REBALANCE or action.deleting or is_finished(action):
        return
    found = target_cluster(action, world)
    if isinstance(found, SetStatus):
        yield found
        return
    cluster, application = found
    if not application.rebalances:
        message = f"{cluster.kind} {cluster.name} does not rebalance its data on request"
        yield finished(action, "Declined", "NotSupported", message, now=world.now)
    elif action.status.get("phase") != "Running":
        yield from _begin(action, cluster, world)
    elif reason_of(action) == _PUTTING_BACK:
        yield from _put_back(action, cluster, world)
    else:
        yield from _continue(action, cluster, world)


def _begin(action: Object, cluster: Object, world: Snapshot) -> Iterator[Intent]:
    report = cluster.status.get("rebalance")
    left = action.created + START_SECONDS - world.now
    # Nothing is reported either while no pilot leads.
    is_known = report is not None or cluster.is_true("Available")
    if is_known and (report is None or report.get("enabled")):
        message = f"{cluster.kind} {cluster.name} rebalances its data at any time"
        yield finished(action, "Declined", "Unneeded", message, now=world.now)
    elif (until := _until(action, world)) <= world.now:
        message = f"the window of rule {action.spec.get('rule')} is closed"
        yield finished(action, "Declined", "WindowClosed", message, now=world.now)
    elif pause := pause_of(action, cluster, world):
        yield pause
    elif (pilot := _pilot(cluster, world)) is None or report is None or report.get("request"):
        message = f"{cluster.kind} {cluster.name} {_why_not_asked(report)}"
        if left <= 0:
            yield finished(action, "Failed", "NotTakenUp", message, now=world.now, event="NotTakenUp")
        else:
            remedy = "kubectl get pilots -o yaml"
            yield Wait("NotTakenUp", because=message, remedy=remedy, seconds=min(left, _POLL))
    else:
        message = (
            f"asking the pilots of {cluster.kind} {cluster.name} to rebalance until {format_time(until)}"
        )
        before = {"until": format_time(until)}
        yield running(action, _REQUESTING, message, now=world.now, before=before, attempts=1)
        yield _request(action, pilot, format_time(until))
        yield running(action, _REBALANCING, message, now=world.now, before=before, attempts=1)


def _why_not_asked(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return "is not available"
    return "has another request to rebalance" if report.get("request") else "has no Pilot that is ready"


def _continue(action: Object, cluster: Object, world: Snapshot) -> Iterator[Intent]:
    now, until = world.now, action.moment("status", "before", "until") or world.now
    began = action.moment("status", "startTime") or now
    report = cluster.status.get("rebalance") or {}
    state = str(report.get("state") or "") if report.get("request") == action.uid else ""
    # While no pilot is ready the cluster reports nothing.
    taken_up = bool(action.at("status", "after", "state"))
    if state in _ENDS:
        yield from _end(action, cluster, state, str(report.get("message") or ""), world)
    elif until <= now:
        message = f"the time is over: {report.get('message') or 'data moved'}"
        yield from _end(action, cluster, "Expired", message, world)
    elif not _asked(action, cluster, world):
        if reason_of(action) == _REBALANCING:
            message = f"the request to rebalance was removed from the Pilots of {cluster.kind} {cluster.name}"
            yield finished(action, "Failed", "Undone", message, now=now, event="Undone")
        elif pause := pause_under_way(action, cluster, world):
            yield pause
        elif (pilot := _pilot(cluster, world)) is not None:
            yield _request(action, pilot, format_time(until))
            message = f"the pilots of {cluster.kind} {cluster.name} are asked to rebalance"
            yield running(action, _REBALANCING, message, now=now)
        else:
            yield from _end(action, cluster, "Ignored", "there is no Pilot that is ready", world)
    elif not (state or taken_up) and began + TAKE_UP_SECONDS <= now:
        yield from _end(action, cluster, "Ignored", "the leading pilot has not taken up the request", world)
    else:
        message = str(report.get("message") or "") if state else "the leading pilot has not answered yet"
        after = {"after": {"state": state}} if state else {}
        yield running(action, _REBALANCING, message, now=now, **after)
        left = until - now if state or taken_up else min(until, began + TAKE_UP_SECONDS) - now
        remedy = f"kubectl get {cluster.noun.resource} {cluster.name} -o jsonpath={{.status.rebalance}}"
        yield Wait(_REBALANCING, because=message, remedy=remedy, seconds=left)


def _end(action: Object, cluster: Object, state: str, message: str, world: Snapshot) -> Iterator[Intent]:
    """Record how it ends, and remove the request."""
    after = {"state": state, "message": message, "since": format_time(world.now)}
    yield running(action, _PUTTING_BACK, message, now=world.now, after=after)
    yield from _removed(action, cluster, world)


def _put_back(action: Object, cluster: Object, world: Snapshot) -> Iterator[Intent]:
    """Wait until the leading pilot has put everything back."""
    after: Any = action.at("status", "after", default={})
    phase, reason = _ENDS[str(after.get("state"))]
    message = str(after.get("message") or "")
    report = cluster.status.get("rebalance")
    has_request = report is not None and report.get("request") == action.uid
    left = (action.moment("status", "after", "since") or world.now) + TAKE_UP_SECONDS - world.now
    if asked := list(_removed(action, cluster, world)):
        yield from asked
    elif not has_request and (report is not None or left <= 0):
        yield finished(action, phase, reason, message, now=world.now, event=reason)
    elif left <= 0:
        message = f"the leading pilot has not put back what it changed to rebalance; {message}"
        yield finished(action, "Failed", "NotPutBack", message, now=world.now, event="NotPutBack")
    else:
        because = "the leading pilot has to put back what it changed to rebalance"
        yield Wait(_PUTTING_BACK, because=because, remedy="kubectl get pilots -o yaml", seconds=left)


def _request(action: Object, pilot: Object, until: str) -> PatchObject:
    because = f"rule {action.spec.get('rule')} asks for the data to be spread evenly"
    fields = {"spec": {"rebalance": {"request": action.uid, "until": until}}}
    return PatchObject(pilot, fields, because=because, event="RebalanceRequested")


def _removed(action: Object, cluster: Object, world: Snapshot) -> Iterator[Intent]:
    for pilot in _asked(action, cluster, world):
        yield PatchObject(pilot, {"spec": {"rebalance": None}}, because="the request to rebalance is over")


def _asked(action: Object, cluster: Object, world: Snapshot) -> list[Object]:
    """The Pilots with the request of this action."""
    return [
        each
        for each in world.owned(Pilot, cluster)
        if each.at("spec", "rebalance", "request") == action.uid and action.uid
    ]


def _pilot(cluster: Object, world: Snapshot) -> Object | None:
    """The Pilot to write a request into: any, since the leader reads all."""
    ready = [
        each
        for each in world.owned(Pilot, cluster)
        if each.is_true("Ready") and not each.spec.get("decommission") and not each.deleting
    ]
    return min(ready, key=lambda each: each.name, default=None)


def _until(action: Object, world: Snapshot) -> float:
    """When the window of the rule closes, or the time for it is over."""
    rule = world.find(AutopilotRule, "", str(action.spec.get("rule", "")))
    window = rule.at("spec", "actionWindow") if rule is not None else None
    left = seconds_until_closed(msgspec.convert(window, ActionWindow), world.now) if window else None
    return world.now + min(REBALANCE_SECONDS, REBALANCE_SECONDS if left is None else left)
