"""Whether the database in a pod has run, as far as the pod's status shows.

    has_run(pod)               # it runs, or has run
    cannot_have_run(pod)       # when the status was written it never had: the data folder is untouched

Between the two is doubt: a container that is being created may run before its status says so, and so may one
whose start is reported as failed. Only what comes before the container is created, such as a missing image,
is certain.

Even that holds only for the moment at which the status was written: the image may arrive, and the container
start, before its node reports it. Three safeguards make it safe to take back the version of such a pod; each
covers what the one before misses.

* The pod is deleted only if it is unchanged since it was read (``Delete(exact=True)``): once the start is
  reported, it stays.
* It is deleted with a grace period: a pod that runs stays visible, running or ended, until its node has
  finished with it. So the controller sees that it has run, and keeps the set at its version
  (``version_policy``).
* If it does not see that either, the node comes back with the earlier version, over a folder that the later
  one may have written to. The pilot records the version in that folder before it starts the database, and
  does not start an earlier one (the hook ``Preflight``); nor would Elasticsearch itself. Nothing is lost: the
  node stays down, ``Degraded`` names the version that wrote its data, and requesting that version brings the
  node back.
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
"""Why a container without an image waits."""
_IMPORTING: Final = re.compile(
    r"(pilothouse image import \S+ FILE\S*)((?: --data (?:'[^']*'|\S+))?)(?: \(with --[^)]*\))?"
)
"""The command that a node suggests."""
_NOT_CREATED: Final = frozenset(
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
"""Why a container waits that was not created. After ``RunContainerError`` it may have been."""


def with_flags(sentence: str) -> str:
    """A node's message about a missing image, with the flag that archives of Elasticsearch need."""
    return _IMPORTING.sub(r"\1 --strip-components 1\2", sentence)


def has_run(pod: Object) -> bool:
    """Whether its database has started at least once."""
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
    """Whether its database had certainly not started when the status was written: it has no node, or waits
    for something that it can't start without."""
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
    """Whether a container was never created because something is missing."""
    waiting: Mapping[str, Any] = (status.get("state") or {}).get("waiting") or {}
    return waiting.get("reason") in _NOT_CREATED and not status.get("lastState")
