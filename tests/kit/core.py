"""The API server's core over a store in memory, asked without a network.

    with CoreServer() as server:
        created = server.send("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        created.status, created.json
        server.revision                                  # the store's: it moves with every write and nothing else
        server.watched("/api/v1/configmaps", "limit=5")  # what a watch sends of itself, without waiting for more

Calls block, which is what a hypothesis test needs: the event loop turns only while a request is being answered.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import random
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from multidict import CIMultiDict

from pilothouse.api.kubernetes.node_claims import Network
from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.admission.pod_security.configuration import (
    DEFAULT_CONFIGURATION,
    PodSecurityConfiguration,
)
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.registry.service_ranges import CLUSTER_RANGE
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.messages import Request, Response, StreamChunk, StreamingResponse, User
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.base.uids import Uids
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.store.memory import MemoryStore

T = TypeVar("T")

ADMIN = User("admin", groups=(MASTERS, "system:authenticated"))
OTHER = User("other", groups=(MASTERS, "system:authenticated"))
_PATIENCE = 20.0
_TURNS = 25
"""Turns of the loop after which a watch has sent what it has; nothing in it waits for a clock before that."""


@dataclass(frozen=True)
class Answered:
    """A complete answer."""

    status: int
    body: bytes
    content_type: str = ""
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    """For the audit record."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))

    def expect(self, *statuses: int) -> Any:
        """The decoded body, once the status is one of these."""
        assert self.status in statuses, f"expected {statuses}, got {self.status}: {self.body[:2000]!r}"
        return self.json


class CoreServer:
    """A core that runs for as long as the context is open."""

    def __init__(
        self,
        clock: Clock = SystemClock(),
        *,
        pod_security: PodSecurityConfiguration = DEFAULT_CONFIGURATION,
        cluster_ranges: Sequence[Network] = (CLUSTER_RANGE,),
        node_addresses: Sequence[Network] = (),
        server_names: Collection[str] = (),
    ) -> None:
        self.clock = clock
        self._pod_security = pod_security
        self._cluster_ranges = cluster_ranges
        self._node_addresses = node_addresses
        self._server_names = server_names
        self.authenticator = Authenticator()
        self.signing_key = SigningKey.generate()
        self.authority = Authority.make("kit", datetime.datetime.fromtimestamp(clock.now(), datetime.UTC))
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._store = MemoryStore()
        self.core = self._runner.run(self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._stop())
        self._runner.close()

    @property
    def revision(self) -> int:
        return self._store.current

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type: str = "application/json",
        accept: str = "",
        query: str = "",
        agent: str = "fuzz/1",
        user: User = ADMIN,
        headers: Mapping[str, str] | None = None,
        peer: str = "",
    ) -> Answered:
        """Any request; a body that is not bytes is sent as JSON. A stream is cut off after its first events. ``peer`` is where it
        comes from, as in ``10.0.0.7:40000``."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = CIMultiDict(headers or {})
        sent["User-Agent"] = agent
        if body is not None:
            sent["Content-Type"] = type
        if accept:
            sent["Accept"] = accept
        request = Request(method, path, query=query, headers=sent, body=data, user=user, peer=peer)
        return self._runner.run(self._answer(request))

    def beside(self, method: str, path: str, body: bytes, *, type: str, read: str) -> tuple[Answered, int]:
        """A write, and how often another user's read was answered while it was under way."""
        headers = CIMultiDict({"User-Agent": "kit/1", "Content-Type": type})
        query = "fieldManager=kit&force=true" if "apply" in type else ""
        write = Request(method, path, query=query, headers=headers, body=body, user=ADMIN)
        return self._runner.run(self._beside(write, Request("GET", read, user=OTHER)))

    async def _beside(self, write: Request, read: Request) -> tuple[Answered, int]:
        writing = asyncio.create_task(self._answer(write))
        count = 0
        while True:
            # Turns of the loop in which the write goes on, if it does so here.
            await asyncio.sleep(0)
            if writing.done():
                return writing.result(), count
            assert (await self._answer(read)).status == 200
            count += 1

    def send_together(self, requests: Sequence[Request]) -> list[tuple[int, int]]:
        """The status of each answer, and as the how many-th it came."""
        came: list[int] = []

        async def answered(number: int, request: Request) -> int:
            status = (await self._answer(request)).status
            came.append(number)
            return status

        async def together() -> list[int]:
            return await asyncio.gather(*(answered(number, each) for number, each in enumerate(requests)))

        statuses = self._runner.run(together())
        return [(status, came.index(number)) for number, status in enumerate(statuses)]

    def watched(self, path: str, query: str = "", *, accept: str = "") -> list[dict[str, Any]]:
        """The events that a watch begins with."""
        answer = self.send("GET", path, query=f"watch=1&{query}", accept=accept)
        assert answer.status == 200, answer.body
        return [json.loads(line) for line in answer.body.splitlines()]

    @contextmanager
    def watching(self, path: str, query: str, user: User) -> Iterator[OpenWatch]:
        """A watch that stays open, though it gets on only while something else is waited for."""
        request = Request("GET", path, query=f"watch=1&{query}", user=user)
        answer = self._runner.run(self.core.answer(request))
        assert isinstance(answer, StreamingResponse), answer
        watch = self._runner.run(self._open_watch(answer))
        try:
            yield watch
        finally:
            watch.task.cancel()
            self.settle()

    async def _open_watch(self, answer: StreamingResponse) -> OpenWatch:
        sink = _Kept()
        watch = OpenWatch(sink, asyncio.ensure_future(answer.run(sink)))
        await self._turn()
        return watch

    def wait(self, probe: Callable[[], bool]) -> None:
        """Let things happen until something is so."""

        async def waiting() -> None:
            async with asyncio.timeout(_PATIENCE):
                while not probe():  # noqa: ASYNC110
                    await asyncio.sleep(0.002)

        self._runner.run(waiting())

    def bearer(self, token: str) -> User:
        """Whose a token is; raises the 401 that its bearer would get."""
        return self._runner.run(self.authenticator.identify_surely(None, f"Bearer {token}"))

    def store(self, path: str, obj: dict[str, Any]) -> None:
        """Write an object past the server, as one of another version may have left it. ``path`` is as in ``namespaces/t``."""
        value = json.dumps(obj, separators=(",", ":"), sort_keys=True).encode()
        self._runner.run(self._store.create(f"/registry/{path}", value))
        self.settle()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done where the core runs."""
        return self._runner.run(work)

    def settle(self) -> None:
        """Let what follows from earlier requests happen."""
        self._runner.run(self._turn())

    async def _start(self) -> RequestHandler:
        core = RequestHandler(
            self._store,
            resources(),
            authenticator=self.authenticator,
            clock=self.clock,
            random=random.Random(1),
            uids=Uids(),
            refusals=refused_fields,
            signing_key=self.signing_key,
            authority=lambda: self.authority,
            pod_security=self._pod_security,
            cluster_ranges=self._cluster_ranges,
            node_addresses=self._node_addresses,
            server_names=self._server_names,
        )
        await self._stack.enter_async_context(core.running())
        return core

    async def _stop(self) -> None:
        await self._stack.aclose()
        await self._store.close()

    async def _answer(self, request: Request) -> Answered:
        async with asyncio.timeout(_PATIENCE):
            answer = await self.core.answer(request)
        if isinstance(answer, Response):
            body = bytes(answer.body)
        else:
            assert isinstance(answer, StreamingResponse)
            body = await self._beginning(answer)
        return Answered(answer.status, body, answer.content_type, request.warnings, request.annotations)

    async def _beginning(self, answer: StreamingResponse) -> bytes:
        sink = _Kept()
        stream = asyncio.ensure_future(answer.run(sink))
        await self._turn()
        stream.cancel()
        (ended,) = await asyncio.gather(stream, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended
        return b"".join(sink.chunks)

    async def _turn(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)


class _Kept:
    """A sink that keeps what it is given."""

    closed = False

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, chunk: StreamChunk) -> None:
        self.chunks.append(chunk.data)

    def buffered(self) -> int:
        return 0


@dataclass
class OpenWatch:
    """A watch that goes on."""

    sink: _Kept
    task: asyncio.Future[None]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(self.sink.chunks).splitlines()]
