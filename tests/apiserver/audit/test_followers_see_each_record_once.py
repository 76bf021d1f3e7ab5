"""AuditFollow: the past, then everything that happens, each record once and in order, at any moment one joins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.audit.scenes import see, trail_at
from tests.kit.waiting import eventually

from pilothouse.apiserver.audit.follow import AuditFollow
from pilothouse.apiserver.audit.peers import NoPeers
from pilothouse.apiserver.audit.query import AuditQuery
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.server.messages import StreamChunk
from pilothouse.base.clock import SystemClock


class Pipe:
    """A sink that keeps what it gets, and takes it from there only if told to."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.closed = False
        self._stuck = stuck
        self._data = b""

    def write(self, chunk: StreamChunk) -> None:
        self._data += chunk.data

    def buffered(self) -> int:
        return 2**30 if self._stuck else 0

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._data.splitlines()]

    @property
    def names(self) -> list[str]:
        return [line["objectRef"]["name"] for line in self.lines if line["kind"] == "Event"]


@asynccontextmanager
async def followed(
    trail: AuditTrail, question: AuditQuery, pipe: Pipe, **limits: int
) -> AsyncIterator[asyncio.Task[None]]:
    running = asyncio.create_task(
        AuditFollow(trail, NoPeers(), question, {}, SystemClock(), **limits).run(pipe)
    )
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("head_start", range(0, 60, 3))
async def test_whoever_joins_while_records_are_made_misses_and_repeats_none(
    tmp_path: Path, head_start: int
) -> None:
    pipe = Pipe()
    async with trail_at(tmp_path / "audit.log") as trail:
        for number in range(head_start):
            see(trail, f"web-{number}")
            await asyncio.sleep(0)
        async with followed(trail, AuditQuery(limit=100_000, follow=True), pipe):
            for number in range(head_start, 300):
                see(trail, f"web-{number}")
                await asyncio.sleep(0 if number % 5 else 0.001)

            async def all_told() -> bool:
                return len(pipe.names) >= 300

            await eventually(all_told)

    assert pipe.names == [f"web-{number}" for number in range(300)]


async def test_the_past_ends_with_a_status(tmp_path: Path) -> None:
    pipe = Pipe()
    async with trail_at(tmp_path / "audit.log") as trail:
        for number in range(5):
            see(trail, f"web-{number}")
        async with followed(trail, AuditQuery(limit=2, follow=True), pipe):

            async def told() -> bool:
                return len(pipe.lines) == 3

            await eventually(told)

    assert pipe.names == ["web-3", "web-4"]
    assert (pipe.lines[-1]["kind"], pipe.lines[-1]["status"]) == ("Status", "Success")


async def test_only_what_is_asked_for_is_told(tmp_path: Path) -> None:
    pipe = Pipe()
    question = AuditQuery(name="mine", follow=True)
    async with trail_at(tmp_path / "audit.log") as trail, followed(trail, question, pipe):
        for name in ("mine", "yours", "mine"):
            see(trail, name)

        async def told() -> bool:
            return len(pipe.names) == 2

        await eventually(told)

    assert pipe.names == ["mine", "mine"]


async def test_one_that_takes_nothing_is_told_that_it_fell_behind(tmp_path: Path) -> None:
    pipe = Pipe(stuck=True)
    question = AuditQuery(follow=True)
    async with (
        trail_at(tmp_path / "audit.log") as trail,
        followed(trail, question, pipe, most_waiting=50) as running,
    ):

        async def ended() -> bool:
            see(trail)
            return running.done()

        await eventually(ended)

    assert pipe.lines[-1]["status"] == "Failure"
    assert "read too slowly" in pipe.lines[-1]["message"]
