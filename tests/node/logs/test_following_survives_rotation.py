from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.node.logs.writing import Log, record, told

from pilothouse.api.kubernetes.pods.log_options import LogOptions
from pilothouse.node.logs.log_reader import read_log

PATIENCE = 20.0


class Follower:
    """Somebody who follows a log until its container has ended."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._options = LogOptions(follow=True, **options)
        self._path = path
        self._over = asyncio.Event()
        self._grown = asyncio.Event()
        self.text = b""
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        async with aclosing(read_log(self._path, self._options, self._over.wait)) as pieces:
            async for piece in pieces:
                self.text += piece
                self._grown.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.text.endswith(text):
                self._grown.clear()
                await self._grown.wait()

    async def to_the_end(self) -> bytes:
        self._over.set()
        await asyncio.wait_for(self._task, PATIENCE)
        return self.text


async def test_what_is_written_later_is_told_too(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.write(3)
    follower = Follower(log.path)
    await follower.until(told(0, 3))
    log.write(2)
    await follower.until(told(0, 5))
    assert await follower.to_the_end() == told(0, 5)


async def test_a_log_may_begin_after_its_follower(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    follower = Follower(log.path)
    log.write(2)
    await follower.until(told(0, 2))
    assert await follower.to_the_end() == told(0, 2)


@pytest.mark.parametrize("rotations", [1, 2, 3, 4])
async def test_no_line_is_lost_or_told_twice(tmp_path: Path, rotations: int) -> None:
    log = Log(tmp_path / "log")
    log.write(10)
    follower = Follower(log.path, tail=1)
    await follower.until(told(9, 10))
    for _ in range(rotations):
        log.write(3)
        log.rotate()
    log.write(1)
    assert await follower.to_the_end() == told(9, log.lines)


async def test_what_was_thrown_away_is_not_waited_for(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", files=2)
    log.write(1)
    follower = Follower(log.path)
    await follower.until(told(0, 1))
    for _ in range(5):
        log.rotate()
        log.write(1)
    assert await follower.to_the_end() == told(0, 1) + told(4, 6)


async def test_half_a_record_is_told_when_it_is_whole(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    whole = record("in two pieces")
    log.append(record("first") + whole[:20])
    follower = Follower(log.path)
    await follower.until(b"first\n")
    log.append(whole[20:])
    await follower.until(b"in two pieces\n")
    assert await follower.to_the_end() == b"first\nin two pieces\n"


async def test_a_limit_ends_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.write(1)
    follower = Follower(log.path, limit=9)
    await follower.until(told(0, 1))
    log.write(5)
    await asyncio.wait_for(follower._task, PATIENCE)
    assert follower.text == b"line 0\nli"


async def test_the_last_words_of_a_container_are_told(tmp_path: Path) -> None:
    """It writes and ends between two looks."""
    log = Log(tmp_path / "log")
    follower = Follower(log.path)
    log.write(1)
    await follower.until(told(0, 1))
    log.write(1000)
    assert await follower.to_the_end() == told(0, 1001)
