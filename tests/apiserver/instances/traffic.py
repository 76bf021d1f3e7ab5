"""Clients of several servers at once, and the record of what they asked and saw.

    record = Record()
    async with asyncio.TaskGroup() as group:
        group.create_task(Writer("w0", one.target, record, seed=1).run(count=10_000))
        group.create_task(Reader("r0", two.target, record, seed=2).run(count=10_000))
        await record.reached(5_000)
    record.operations["r3"], record.lists

Every client has a connection of its own, sends a request once, and waits for its answer: a library that sends again by
itself would make an honest "not found" out of its own deletion. A request that could not be sent did not happen; one
whose answer did not come, or tells nothing, may have.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from tests.apiserver.instances.pairs import CONFIG_MAPS, config_map
from tests.apiserver.server.wire import Reply, Wire
from tests.kit.http import JSON, JSON_PATCH, MERGE
from tests.kit.linearizability import NEVER, Operation
from tests.kit.registers import (
    Answer,
    Create,
    Delete,
    Done,
    Exchange,
    Found,
    Missing,
    Read,
    Refused,
    Set,
    Swap,
    Unknown,
    What,
)
from tests.kit.servers import Target

REGISTERS = [f"r{n:02}" for n in range(24)]
PATIENCE = 90.0

# What writers do, as often as it stands here, with a register that they know nothing of, and with one that they know.
UNSEEN = ("create", "create", "create", "read", "set", "put")
SEEN = (
    "read",
    "create",
    "delete",
    "delete-any",
    *("set", "put") * 2,
    *("swap", "put-swap", "exchange", "exchange") * 2,
)

LOST = (OSError, EOFError, TimeoutError)


@dataclass(frozen=True)
class Listed:
    """A list as a client got it, between two moments."""

    call: float
    back: float
    revision: int
    content: dict[str, Found]


@dataclass
class Record:
    """What all clients saw."""

    operations: dict[str, list[Operation[What]]] = field(default_factory=lambda: defaultdict(list))
    lists: list[Listed] = field(default_factory=list)
    answered: int = 0
    by_server: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    _grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def reached(self, count: int) -> None:
        """Wait until so many requests were answered."""
        async with asyncio.timeout(PATIENCE), self._grown:
            await self._grown.wait_for(lambda: self.answered >= count)

    async def count(self, server: str) -> None:
        async with self._grown:
            self.answered += 1
            self.by_server[server] += 1
            self._grown.notify_all()


class NotSent(Exception):
    """Nobody was there: the request did not happen."""


class Client:
    """One connection at a time to one server."""

    def __init__(self, name: str, target: Target, record: Record, *, seed: int) -> None:
        self.name = name
        self.record = record
        self.choice = random.Random(seed)
        self._target = target
        self._trust = target.trust()
        self._wire: Wire | None = None

    async def run(self, *, count: int) -> None:
        """Ask until so many requests of all clients were answered."""
        try:
            while self.record.answered < count:
                try:
                    await self.once()
                except NotSent:
                    await asyncio.sleep(0.02)
        finally:
            await self._hang_up()

    async def once(self) -> None:
        """One request."""
        raise NotImplementedError

    async def ask(
        self, method: str, path: str, body: object = None, *, type: str = JSON
    ) -> tuple[float, float, Reply | None]:
        """When it was sent, when the answer came, and what it was; NEVER and None if none came."""
        wire = await self._connected()
        call = time.perf_counter()
        try:
            data = None if body is None else json.dumps(body).encode()
            reply = await wire.get(path, f"Content-Type: {type}", method=method, body=data)
        except LOST:
            await self._hang_up()
            return call, NEVER, None
        back = time.perf_counter()
        if reply.header("Connection") == "close":
            await self._hang_up()
        await self.record.count(self._target.url)
        return call, back, reply

    async def _connected(self) -> Wire:
        if self._wire is None:
            host, _, port = self._target.url.removeprefix("https://").partition(":")
            try:
                async with asyncio.timeout(10):
                    reader, writer = await asyncio.open_connection(
                        host, int(port), ssl=self._trust, limit=2**24
                    )
            except LOST:
                raise NotSent from None
            self._wire = Wire(reader, writer)
        return self._wire

    async def _hang_up(self) -> None:
        if self._wire is not None:
            await self._wire.close()
            self._wire = None

    async def read(self, name: str) -> None:
        call, back, reply = await self.ask("GET", f"{CONFIG_MAPS}/{name}")
        if reply is not None and reply.status in (200, 404):
            answer = found(reply.json()) if reply.status == 200 else Missing()
            self.record.operations[name].append(Operation(call, back, Read(answer)))
            self.saw(name, answer)

    def saw(self, name: str, answer: Answer) -> None:
        """A read told this."""


class Reader(Client):
    async def once(self) -> None:
        if self.choice.random() < 0.8:
            await self.read(self.choice.choice(REGISTERS))
            return
        call, back, reply = await self.ask("GET", CONFIG_MAPS)
        if reply is not None and reply.status == 200:
            listed = reply.json()
            content = {item["metadata"]["name"]: found(item) for item in listed["items"]}
            revision = int(listed["metadata"]["resourceVersion"])
            self.record.lists.append(Listed(call, back, revision, content))


class Writer(Client):
    """Writes in all the ways there are, against what it last saw, which may be old."""

    def __init__(self, name: str, target: Target, record: Record, *, seed: int) -> None:
        super().__init__(name, target, record, seed=seed)
        self._serial = 0
        self._last: dict[str, Found] = {}

    def saw(self, name: str, answer: Answer) -> None:
        if isinstance(answer, Found):
            self._last[name] = answer
        else:
            self._last.pop(name, None)

    async def once(self) -> None:
        name = self.choice.choice(REGISTERS)
        self._serial += 1
        value = f"{self.name}.{self._serial}"
        if self.choice.random() < 0.5:
            await self.read(name)
        last = self._last.get(name)
        kinds = UNSEEN if last is None else SEEN
        match self.choice.choice(kinds):
            case "read":
                await self.read(name)
            case "create":
                await self._write(name, Create(value, Unknown()), "POST", config_map(name, value))
            case "set":
                await self._write(name, Set(value, Unknown()), "PATCH", {"data": {"value": value}}, MERGE)
            case "put":
                await self._write(name, Set(value, Unknown()), "PUT", config_map(name, value))
            case "delete-any":
                await self._write(name, Delete(None, Unknown()), "DELETE", None)
            case kind if last is not None:
                await self._conditionally(kind, name, value, last)

    async def _conditionally(self, kind: str, name: str, value: str, last: Found) -> None:
        version = {"resourceVersion": str(last.revision)}
        swap = Swap(value, last.revision, Unknown())
        match kind:
            case "swap":
                await self._write(name, swap, "PATCH", {"metadata": version, "data": {"value": value}}, MERGE)
            case "put-swap":
                body = config_map(name, value)
                body["metadata"] |= version
                await self._write(name, swap, "PUT", body)
            case "exchange":
                patch = [
                    {"op": "test", "path": "/data/value", "value": last.value},
                    {"op": "replace", "path": "/data/value", "value": value},
                ]
                await self._write(name, Exchange(value, last.value, Unknown()), "PATCH", patch, JSON_PATCH)
            case "delete":
                await self._write(
                    name, Delete(last.revision, Unknown()), "DELETE", {"preconditions": version}
                )

    async def _write(self, name: str, what: What, method: str, body: object, type: str = JSON) -> None:
        path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/{name}"
        call, back, reply = await self.ask(method, path, body, type=type)
        if reply is not None and reply.status == 429:
            return  # Turned away before anything was done.
        answer = written(reply, method) if reply is not None else Unknown()
        if isinstance(answer, Unknown):
            self.record.unknown += 1
            back = NEVER
        if isinstance(answer, Done) and answer.revision is not None and not isinstance(what, Read | Delete):
            self._last[name] = Found(what.value, answer.revision)
        self.record.operations[name].append(Operation(call, back, replace(what, answer=answer)))


def found(body: dict[str, Any]) -> Found:
    return Found(body["data"]["value"], int(body["metadata"]["resourceVersion"]))


def written(reply: Reply, method: str) -> Answer:
    """What the answer to a write says became of it."""
    match reply.status:
        case 200 | 201 if method == "DELETE":
            return Done()
        case 200 | 201:
            return Done(found(reply.json()).revision)
        case 404:
            return Missing()
        case 409 | 422:
            return Refused()
        case 500 | 503 | 504:
            return Unknown()
    raise AssertionError(f"{method}: {reply.status} {reply.body[:500]!r}")
