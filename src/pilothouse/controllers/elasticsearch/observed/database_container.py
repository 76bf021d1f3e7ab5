"""Whether the database in a pod has run, as far as the pod's status tells.

    has_run(pod)               # it is seen to run, or to have run
    cannot_have_run(pod)       # when this was written it never had: nothing of this pod had touched the data folder

Between the two is doubt: a container that is being made may run before anybody is told, and so may one whose start is said to have failed. Only what
comes before there is a container at all, such as an image that is nowhere, is certain.

Even that is of the moment at which it was written: the image may come, and the container be started, before its node tells anybody. Who takes a pod's version
back by it is safe by three things, of which each has the hole that the next one closes.

* The pod is deleted only if it is the very version that was looked at (``Delete(exact=True)``): once the start was told, it stays.
* It is deleted with grace: one that runs is told to be there, running or ended, until its node is done with it. Whoever sees it so, sees that it has run, and keeps the set
  at its version (``refusing``).
* If nobody sees that either, the node comes back with the earlier version, over a folder in which the later one may have begun. Its pilot has written the version into that
  folder before it started the database, and does not start an earlier one (the hook ``Preflight``), nor would Elasticsearch itself. Nothing is lost: the node stays down, ``Degraded`` says
  by which version its data was written, and asking for that one brings it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import DATABASE

IMAGE_REASONS: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
)
"""Why a container waits that has no image."""
_IMPORTING: Final = re.compile(
    r"(pilothouse image import \S+ FILE\S*)((?: --data (?:'[^']*'|\S+))?)(?: \(with --[^)]*\))?"
)
"""The command that a node says."""
_NOT_MADE: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "InvalidImageName",
        "RegistryUnavailable",
        "CreateContainerConfigError",
    }
)
"""What a container waits for that does not exist yet. Not ``CreateContainerError`` or ``RunContainerError``: what was tried may have come about."""


def with_flags(sentence: str) -> str:
    """What a node says of a missing image, with the flag that an archive of Elasticsearch needs, which has all in one folder."""
    return _IMPORTING.sub(r"\1 --strip-components 1\2", sentence)


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
    """Whether its database had certainly not been started when this was written: it has no node, or waits for what it could not start without."""
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
    """Whether a container does not exist yet for want of something: not one that was there, and is tried again."""
    waiting: Mapping[str, Any] = (status.get("state") or {}).get("waiting") or {}
    return waiting.get("reason") in _NOT_MADE and not status.get("lastState")
