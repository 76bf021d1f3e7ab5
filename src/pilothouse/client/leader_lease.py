"""Leader election by a Lease: one of many processes leads, the others stand by.

    leadership = Leadership(api, "kube-system", "controller-manager", identity, SystemClock(), Random())
    leadership.subscribe(gained=begin, lost=stop)
    running = group.create_task(leadership.run())
    …
    await api.update(Pod, pod, fence=leadership.fence)     # None: not, or no longer, leading
    …
    running.cancel(); await leadership.release()             # once nothing is decided any more

A process that loses the lease stands by and may lead again. ``fence`` checks the clock on each read, so a
process that was paused knows at once that its term is over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from random import Random

from pilothouse.api.kind_names import Lease
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.uids import new_uid
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.fence import LeadershipFence
from pilothouse.client.leader_election import (
    LeaderElector,
    LeaderTerm,
    LeaseTiming,
    ReadLease,
    WaitForLease,
    WriteLease,
)
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

Gained = Callable[[LeadershipFence], None]
Lost = Callable[[], None]

log = logging.getLogger(__name__)


class Leadership:
    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        rng: Random,
        timing: LeaseTiming = LeaseTiming(),
        *,
        owner: Tree | None = None,
    ) -> None:
        """``identity`` is unique to this process (``unique_identity``); ``owner`` is an owner reference for
        the Lease."""
        self._api = api
        self._namespace = namespace
        self._name = name
        self._owner = owner
        self._clock = clock
        self._election = LeaderElector(identity, timing, rng, clock.now)
        self._subscribers: list[tuple[Gained, Lost]] = []
        self._reported: LeadershipFence | None = None
        self._begun = asyncio.Event()
        self.problem = ""
        """Why the Lease can't be read or written; empty while it can."""

    @property
    def fence(self) -> LeadershipFence | None:
        """The leadership to act under, if it holds at this moment."""
        term = self._election.term(self._clock.monotonic())
        if term is None:
            return None
        begun = term
        return LeadershipFence(
            self._namespace, self._name, term.transitions, term.uid, left=lambda: self._left(begun)
        )

    def _left(self, begun: LeaderTerm) -> float:
        now = self._clock.monotonic()
        term = self._election.term(now)
        return term.until - now if term is not None and term.is_of(begun) else 0.0

    @property
    def holder(self) -> str:
        """The known holder, or empty."""
        return self._election.holder

    @property
    def leader(self) -> str:
        """The leader that was seen to renew; empty if none: a holder may have died before."""
        return self._election.leader

    def subscribe(self, gained: Gained, lost: Lost) -> None:
        """Call back when a term begins and when it has ended. Neither may take long."""
        self._subscribers.append((gained, lost))

    async def begun(self) -> None:
        """Wait until the Lease has been tried once."""
        await self._begun.wait()

    async def run(self) -> None:
        while True:
            act = self._election.next(self._clock.monotonic())
            self._notify()
            match act:
                case WaitForLease(seconds):
                    self._begun.set()
                    await asyncio.sleep(seconds)
                case _:
                    await self._carry_out(act)
            self._notify()

    async def release(self) -> None:
        """Let another candidate start at once. Call it when nothing is decided any more."""
        self._election.resign()
        self._notify()
        try:
            # Whether the last renewal came through is not known if it was cut off.
            act = self._election.vacated(await self._api.find(Lease, self._name, self._namespace))
            if act is not None:
                await self._write(act)
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("%s could not be released, it will run out: %s", self._described, problem)

    async def _carry_out(self, act: ReadLease | WriteLease) -> None:
        sent = self._clock.monotonic()
        try:
            if isinstance(act, ReadLease):
                lease = await self._api.find(Lease, self._name, self._namespace, deadline=act.within)
                self._election.looked(lease, self._clock.monotonic())
            else:
                written = await self._write(act)
                self._election.wrote(written, sent, self._clock.monotonic())
        except (StatusError, TransportError, AccessError) as problem:
            self._election.failed(self._clock.monotonic())
            # That another was faster is how elections go.
            beaten = isinstance(problem, StatusError) and problem.code == 409
            self.problem = "" if beaten else str(problem)
            if self.problem:
                log.warning("%s: %s", self._described, problem)
        else:
            self.problem = ""

    async def _write(self, act: WriteLease) -> Object:
        if act.over is None:
            metadata: Tree = {"name": self._name, "namespace": self._namespace}
            if self._owner is not None:
                metadata["ownerReferences"] = [self._owner]
            body = {"metadata": metadata, "spec": act.spec}
            return await self._api.create(Lease, body, deadline=act.within)
        body = {**act.over.tree, "spec": act.spec}
        return await self._api.update(Lease, body, deadline=act.within)

    def _notify(self) -> None:
        """Report a change since the last time."""
        fence = self.fence
        if fence == self._reported:
            return
        if self._reported is not None:
            log.info("no longer leading by %s", self._described)
            for _, lost in self._subscribers:
                lost()
        self._reported = fence
        if fence is not None:
            log.info("leading by %s, transition %d", self._described, fence.transitions)
            for gained, _ in self._subscribers:
                gained(fence)

    @property
    def _described(self) -> str:
        return f"the lease {self._namespace}/{self._name}"


def unique_identity() -> str:
    """A name for a candidate that no other process has or will have."""
    return f"{socket.gethostname()}_{os.getpid()}_{new_uid()}"
