"""Ordered groups of parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pilothouse.aio.start_order import Ordered, StartGroup


class Diary:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def part(self, name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            self.lines.append(f"+{name}")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.lines.append(f"-{name}")

        return run


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_groups_start_when_those_before_are_ready_and_stop_in_reverse() -> None:
    diary, gate = Diary(), asyncio.Event()

    async def ready() -> None:
        await gate.wait()

    parts = Ordered(
        [StartGroup("a", [diary.part("a")], 1, ready), StartGroup("b", [diary.part("b"), diary.part("c")], 1)]
    )
    running = asyncio.create_task(parts.run())
    await turns()
    assert diary.lines == ["+a"]
    gate.set()
    await turns()
    assert diary.lines == ["+a", "+b", "+c"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert diary.lines[3:] == ["-b", "-c", "-a"]


async def test_a_part_that_fails_stops_the_others_and_is_told() -> None:
    diary = Diary()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await Ordered([StartGroup("a", [diary.part("a")], 1), StartGroup("b", [fails], 1)]).run()
    assert diary.lines == ["+a", "-a"]


async def test_a_part_that_fails_before_its_group_is_ready_is_told_too() -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    async def fails() -> None:
        raise OSError("no address")

    with pytest.raises(OSError, match="no address"):
        await Ordered([StartGroup("a", [fails], 1, never), StartGroup("b", [never], 1)]).run()


async def test_a_readiness_that_fails_is_told() -> None:
    diary = Diary()

    async def fails() -> None:
        raise OSError("no server")

    with pytest.raises(OSError, match="no server"):
        await Ordered([StartGroup("a", [diary.part("a")], 1, fails)]).run()
    assert diary.lines in (["+a", "-a"], [])


async def test_one_that_will_not_stop_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    running = asyncio.create_task(Ordered([StartGroup("stubborn", [stubborn], 0.01)]).run())
    await turns()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "stubborn" in caplog.text
    release.set()
    await turns()
