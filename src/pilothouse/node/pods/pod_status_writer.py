"""The status writer of one pod: patches its status in the API, and finally deletes the pod.

    writer = PodStatusWriter(api, pod)
    writer.put(status)                  # returns at once; only the latest is written
    await writer.flush()                # until the API has it, or the pod is gone

It sends only changes, as a strategic merge patch, so conditions of others stay. Failed writes are retried,
and delay nothing.
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

_RETRY_BACKOFF: Final = Backoff(first=0.5, factor=2.0, longest=15.0)
_FAILURES: Final = (StatusError, TransportError, AccessError)
_ABSENT: Final = ("reason", "message")
"""Fields that are removed from the status when they are absent."""

log = logging.getLogger(__name__)


class PodStatusWriter:
    def __init__(self, api: Api, pod: Object) -> None:
        self._api = api
        self._pod = pod
        self._known: Mapping[str, Any] = pod.status
        self._revision = pod.revision
        self._wanted: Tree | None = None
        self._wakeup = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.problem = ""
        """Why the last write failed; empty if it succeeded."""

    def update(self, pod: Object) -> None:
        """Take another version of the pod from the API."""
        self._pod = pod
        if self._idle.is_set() and pod.revision >= self._revision:
            self._known = pod.status

    @property
    def current(self) -> Mapping[str, Any]:
        """The status in the API, or the one to be written."""
        return self._known if self._wanted is None else self._wanted

    def put(self, status: Tree) -> None:
        if self._idle.is_set() and not status_patch(self._known, status):
            return
        self._wanted = status
        self._idle.clear()
        self._wakeup.set()

    async def flush(self) -> None:
        await self._idle.wait()

    async def run(self) -> None:
        """Write until cancelled. Run again, it writes a status that is still to be written."""
        failures = 0
        if self._wanted is not None:
            self._wakeup.set()
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            wanted = self._wanted
            if wanted is None:
                continue
            try:
                await self._write(wanted)
            except _FAILURES as problem:
                if not await self._is_gone(problem):
                    failures += 1
                    self.problem = str(problem)
                    log.warning("failed to update status for pod %s/%s: %s", *self._pod.key, problem)
                    self._wakeup.set()
                    await asyncio.sleep(_RETRY_BACKOFF.after(failures))
                    continue
            failures, self.problem = 0, ""
            if self._pod.revision > self._revision:
                # Another client wrote meanwhile, and no further event will come: restore our fields.
                self._known, self._revision = self._pod.status, self._pod.revision
                if self._wanted is not None and status_patch(self._known, self._wanted):
                    self._wakeup.set()
                    continue
            if self._wanted is wanted:
                self._wanted = None
                self._idle.set()

    async def _is_gone(self, problem: Exception) -> bool:
        """Whether a write failed because the pod is gone, or is another one of the same name."""
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
        """Delete the cleaned-up pod from the API, with grace period 0. Returns when it is gone."""
        failures = 0
        while True:
            try:
                await self._api.delete(Pod, self._pod.name, self._pod.namespace, uid=self._pod.uid, grace=0)
                return
            except _FAILURES as problem:
                if await self._is_gone(problem):
                    return
                failures += 1
                log.warning("failed to delete pod %s/%s: %s", *self._pod.key, problem)
                await asyncio.sleep(_RETRY_BACKOFF.after(failures))


def status_patch(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> Tree:
    """The patch that turns the known status into the wanted one."""
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
    """The condition with a null for each field that it lost: a merge keeps absent fields."""
    return {**{name: None for name in before or () if name not in condition}, **condition}
