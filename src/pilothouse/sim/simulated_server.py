"""The simulated API server: the real request handler over a store in memory, without a network.

    server = SimulatedServer(clock, seed=7)
    await server.start()
    await server.api("tester").create(ConfigMap, {...})
    await server.stop()              # the store keeps its content, as a disk would

A request is executed in the server's own process: the client may crash or pause meanwhile. ``heard`` is
called with every write and its revision.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial

import msgspec

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.registry.node_status_reset import withdraw_reports
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.messages import Answer, Request, Response, User
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.base.clock import Clock
from pilothouse.base.uids import Uids
from pilothouse.client.api import Api
from pilothouse.client.in_process import InProcessTransport
from pilothouse.client.transport import NotSent, Transport
from pilothouse.meta.kind import Resource
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.sim.loop import process_of
from pilothouse.store.memory import MemoryStore

ADMIN = User("admin", groups=(MASTERS, "system:authenticated"))

_READS = frozenset({"GET", "HEAD"})


class ObservedWrite(msgspec.Struct, frozen=True):
    """A write that was accepted and changed an object."""

    agent: str
    method: str
    path: str
    revision: int


class _Metadata(msgspec.Struct):
    revision: str = msgspec.field(name="resourceVersion", default="")


class _Versioned(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_versioned = msgspec.json.Decoder(_Versioned)


class SimulatedServer:
    def __init__(
        self, clock: Clock, *, seed: int, heard: Callable[[ObservedWrite], None] = lambda _: None
    ) -> None:
        self._clock = clock
        self._seed = seed
        self._heard = heard
        self._starts = 0
        self._up: AsyncExitStack | None = None
        self._process = process_of("server")
        self._answering: set[asyncio.Task[Answer]] = set()
        self.store = MemoryStore(clock=clock.now)
        self.core: RequestHandler | None = None
        self.trace: list[str] = []
        """Every write, in order: time, client, request and status."""

    @property
    def revision(self) -> int:
        return self.store.current

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SimulatedServer]:
        await self.start()
        try:
            yield self
        finally:
            await self.stop()

    async def start(self, *, absent: Iterable[str] = ()) -> None:
        """Start on the content of the store. ``absent`` nodes are not ready from the first answer on."""
        if self._up is not None:
            return
        self._starts += 1
        core = RequestHandler(
            self.store,
            kinds(),
            authenticator=Authenticator(),
            clock=self._clock,
            random=random.Random(f"server {self._seed} {self._starts}"),
            uids=Uids(random.Random(f"uids {self._seed} {self._starts}").randbytes),
            refusals=refused_fields,
            signing_key=signing_key(),
            authority=lambda: authority(self._clock.now()),
            large_writes=LargeWrites(threads=False),
        )
        self._up = AsyncExitStack()
        await self._up.enter_async_context(core.running())
        for name in absent:
            await withdraw_reports(core, name, self._clock)
        self.core = core

    async def stop(self) -> None:
        """Stop. Watches end; requests get no answer."""
        up, self._up, self.core = self._up, None, None
        if up is not None:
            await up.aclose()

    async def answer(self, request: Request) -> Answer:
        """Raises ``NotSent`` while the server is down."""
        if self.core is None:
            raise NotSent("the server is down")
        if request.method in _READS:
            return await self.core.answer(request)
        task = asyncio.get_running_loop().create_task(self._write(self.core, request), context=self._process)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        # The client may be gone before the write is done.
        return await asyncio.shield(task)

    async def _write(self, core: RequestHandler, request: Request) -> Answer:
        before = self.store.current
        answer = await core.answer(request)
        agent = request.headers.get("User-Agent", "")
        line = f"{self._clock.now():.6f} {agent} {request.method} {request.path} {answer.status}"
        self.trace.append(line)
        if isinstance(answer, Response) and answer.status < 300:
            revision = int(_versioned.decode(bytes(answer.body)).metadata.revision or 0)
            if revision > before:
                self._heard(ObservedWrite(agent, request.method, request.path, revision))
        return answer

    def transport(self, name: str, user: User = ADMIN) -> Transport:
        """For a client of this name."""
        return InProcessTransport(partial(Request, user=user), self.answer, agent=name)

    def api(self, name: str, *, user: User = ADMIN) -> Api:
        return Api(self.transport(name, user), random.Random(f"{name} {self._seed}"), manager=name)


@lru_cache(maxsize=1)
def kinds() -> tuple[Resource, ...]:
    """Every kind; built once for all servers."""
    return resources()


@lru_cache(maxsize=1)
def signing_key() -> SigningKey:
    """Generated once: no decision depends on its content."""
    return SigningKey.generate()


@lru_cache(maxsize=1)
def authority(now: float) -> Authority:
    """Generated once, like the key."""
    return Authority.make("bottle", datetime.datetime.fromtimestamp(now, datetime.UTC))
