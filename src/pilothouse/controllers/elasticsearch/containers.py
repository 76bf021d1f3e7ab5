"""Whether the database in a pod has run, as far as the pod's status tells.

    has_run(pod)               # it is seen to run, or to have run
    cannot_have_run(pod)       # it is certain that it never has: nothing of this pod has touched the data folder

Between the two is doubt: a container that is being made may run before anybody is told. Who acts on ``cannot_have_run`` has to do it to the very
version of the pod that was looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.base.times import parse_time

DATABASE: Final = "elasticsearch"
"""The container of a node's database."""
_STARTING: Final = ("", "ContainerCreating", "PodInitializing")


def has_run(pod: Object) -> bool:
    """Whether its database was started at least once."""
    found = _database(pod)
    if found is None:
        return pod.status.get("phase") in ("Running", "Succeeded")
    state = found.get("state") or {}
    return bool(
        "running" in state
        or "terminated" in state
        or found.get("lastState")
        or found.get("restartCount")
        or found.get("started")
    )


def cannot_have_run(pod: Object) -> bool:
    """Whether it is certain that its database was never started: it has no node, or waits for what it could not start without."""
    if pod.status.get("phase", "Pending") != "Pending" or has_run(pod):
        return False
    if not pod.spec.get("nodeName"):
        return True
    found = _database(pod)
    if found is None or found.get("containerID"):
        return False
    return any(map(_is_held, (found, *(pod.status.get("initContainerStatuses") or ()))))


def running_since(pod: Object) -> float | None:
    """When its database was last started; None if it does not run."""
    since = (((_database(pod) or {}).get("state") or {}).get("running") or {}).get("startedAt")
    return parse_time(since) if since else None


def _database(pod: Object) -> Mapping[str, Any] | None:
    statuses = pod.status.get("containerStatuses") or ()
    return next((status for status in statuses if status.get("name") == DATABASE), None)


def _is_held(status: Mapping[str, Any]) -> bool:
    """Whether a container can't be started: not one that is just being made, nor one that was and is tried again."""
    waiting = (status.get("state") or {}).get("waiting")
    if not waiting or status.get("lastState"):
        return False
    return waiting.get("reason", "") not in _STARTING
