"""The API server in the bottle: the real core, over a store in memory, asked without a network.

    async with Server(clock, seed=7).running() as server:
        api = server.api("tester")
        await api.create(ConfigMap, {...})

It can be stopped and started again: the store keeps what it has, as a disk would.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache, partial

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.authentication import Authenticator
from pilothouse.apiserver.authorization import MASTERS
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.exchange import Answer, Request, User
from pilothouse.base.clock import Clock
from pilothouse.base.ids import Uids
from pilothouse.client.loopback import Loopback
from pilothouse.client.rest import Api
from pilothouse.client.transport import Transport
from pilothouse.meta.kind import Resource
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.store.memory import MemoryStore

ADMIN = User("admin", groups=(MASTERS, "system:authenticated"))

_READS = frozenset({"GET", "HEAD"})


class Server:
    """A server and its store."""

    def __init__(self, clock: Clock, *, seed: int) -> None:
        self._clock = clock
        self._seed = seed
        self._starts = 0
        self.store = MemoryStore(clock=clock.now)
        self.core: Core | None = None
        self.trace: list[str] = []
        """Every write, in order: when, by whom, what, and what came of it."""

    @property
    def revision(self) -> int:
        """It moves with every write and nothing else."""
        return self.store.current

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """Up within the context."""
        self._starts += 1
        core = Core(
            self.store,
            kinds(),
            authenticator=Authenticator(),
            clock=self._clock,
            random=random.Random(f"server {self._seed} {self._starts}"),
            uids=Uids(random.Random(f"uids {self._seed} {self._starts}").randbytes),
            refusals=refused_fields,
            signing_key=signing_key(),
            authority=lambda: authority(self._clock.now()),
        )
        async with core.running():
            self.core = core
            try:
                yield self
            finally:
                self.core = None

    async def answer(self, request: Request) -> Answer:
        """What the server says. Raises ``ConnectionRefusedError`` while it is down."""
        if self.core is None:
            raise ConnectionRefusedError("the server is down")
        answer = await self.core.answer(request)
        if request.method not in _READS:
            who = request.headers.get("User-Agent", "")
            self.trace.append(
                f"{self._clock.now():.6f} {who} {request.method} {request.path} {answer.status}"
            )
        return answer

    def transport(self, name: str, user: User = ADMIN) -> Transport:
        """A way to it, for a client of this name."""
        return Loopback(partial(Request, user=user), self.answer, agent=name)

    def api(self, name: str, *, user: User = ADMIN) -> Api:
        """A client of it."""
        return Api(self.transport(name, user), random.Random(f"{name} {self._seed}"), manager=name)


@lru_cache(maxsize=1)
def kinds() -> tuple[Resource, ...]:
    """Every kind; parsed once, for as many servers as there are."""
    return resources()


@lru_cache(maxsize=1)
def signing_key() -> SigningKey:
    """Made once: nothing that is decided depends on what is in it."""
    return SigningKey.generate()


@lru_cache(maxsize=1)
def authority(now: float) -> Authority:
    """Made once, like the key."""
    return Authority.make("bottle", datetime.datetime.fromtimestamp(now, datetime.UTC))
