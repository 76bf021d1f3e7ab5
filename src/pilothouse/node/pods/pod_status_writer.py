"""What the node writes to the API about a pod: its status, and in the end that it may go.

    publisher = PodStatusWriter(api, pod)
    publisher.put(status)                  # returns at once; only the latest is written
    await publisher.flush()                # until the API has it, or the pod is gone

A status is sent as what has changed, and merged by the server, so that conditions of others stay. An API that does not answer holds
nobody up: the pod goes on, and what there is to say is said when it answers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api, Patch
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

_AGAIN: Final = Backoff(first=0.5, factor=2.0, longest=15.0)
_FAILURES: Final = (StatusError, TransportError, AccessError)
_ABSENT: Final = ("reason", "message")
"""Fields that are taken away when there is nothing to say in them."""

log = logging.getLogger(__name__)


class PodStatusWriter:
    """Keeps the status of one pod."""

    def __init__(self, api: Api, pod: Object) -> None:
        self._api = api
        self._pod = pod
        self._known: Mapping[str, Any] = pod.status
        self._revision = pod.revision
        self._wanted: Tree | None = None
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.problem = ""
        """Why the API does not have it yet; empty if it has."""

    def saw(self, pod: Object) -> None:
        """A newer version of the pod has come."""
        self._pod = pod
        if self._idle.is_set() and pod.revision >= self._revision:
            self._known = pod.status

    @property
    def current(self) -> Mapping[str, Any]:
        """What the API says, or is about to."""
        return self._known if self._wanted is None else self._wanted

    def put(self, status: Tree) -> None:
        """Have the API say this."""
        if self._idle.is_set() and not status_patch(self._known, status):
            return
        self._wanted = status
        self._idle.clear()
        self._news.set()

    async def flush(self) -> None:
        """Wait until it does."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write until cancelled. May be begun again: what was not written is then."""
        failures = 0
        if self._wanted is not None:
            self._news.set()
        while True:
            await self._news.wait()
            self._news.clear()
            wanted = self._wanted
            if wanted is None:
                continue
            try:
                await self._write(wanted)
            except _FAILURES as problem:
                if not await self._is_gone(problem):
                    failures += 1
                    self.problem = str(problem)
                    log.warning("the status of pod %s/%s: %s", *self._pod.key, problem)
                    self._news.set()
                    await asyncio.sleep(_AGAIN.after(failures))
                    continue
            failures, self.problem = 0, ""
            if self._pod.revision > self._revision:
                # Somebody else wrote while we did, and nobody will tell us again: what he says of ours is put right.
                self._known, self._revision = self._pod.status, self._pod.revision
                if self._wanted is not None and status_patch(self._known, self._wanted):
                    self._news.set()
                    continue
            if self._wanted is wanted:
                self._wanted = None
                self._idle.set()

    async def _is_gone(self, problem: Exception) -> bool:
        """Whether a refusal means that there is nobody to tell it of: the pod is gone, or is another of the same name."""
        if not isinstance(problem, StatusError) or problem.code not in (404, 409):
            return False
        try:
            found = await self._api.find(Pod, self._pod.name, self._pod.namespace)
        except _FAILURES:
            return False
        return found is None or found.uid != self._pod.uid

    async def _write(self, wanted: Tree) -> None:
        changed = status_patch(self._known, wanted)
        if not changed:
            return
        body = {"metadata": {"uid": self._pod.uid}, "status": changed}
        written = await self._api.patch(
            Pod, self._pod.name, self._pod.namespace, body, kind=Patch.STRATEGIC, subresource="status"
        )
        self._known, self._revision = written.status, written.revision

    async def delete(self) -> None:
        """Nothing of the pod is left here: let the API forget it. Returns when it has."""
        failures = 0
        while True:
            try:
                await self._api.delete(Pod, self._pod.name, self._pod.namespace, uid=self._pod.uid, grace=0)
                return
            except _FAILURES as problem:
                if await self._is_gone(problem):
                    return
                failures += 1
                log.warning("pod %s/%s can't be deleted: %s", *self._pod.key, problem)
                await asyncio.sleep(_AGAIN.after(failures))


def status_patch(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> Tree:
    """What has to be sent so that the API's status says what is wanted."""
    changed: Tree = {name: value for name, value in wanted.items() if known.get(name) != value}
    for name in _ABSENT:
        if name in known and name not in wanted:
            changed[name] = None
    if "conditions" in changed:
        before = {one.get("type"): one for one in known.get("conditions") or ()}
        conditions = [_complete(one, before.get(one["type"])) for one in changed["conditions"]]
        changed["conditions"] = [one for one in conditions if one != before.get(one["type"])]
        if not changed["conditions"]:
            del changed["conditions"]
    return changed


def _complete(condition: Tree, before: Mapping[str, Any] | None) -> Tree:
    """A merge leaves alone what is not named: what a condition no longer says is named as nothing."""
    return {**{name: None for name in before or () if name not in condition}, **condition}
