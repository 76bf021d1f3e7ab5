from __future__ import annotations

import asyncio

import pytest

from pilothouse.aio.race import unless

pytestmark = pytest.mark.looptime


class Diary:
    """What came of coroutines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def takes(self, seconds: float, name: str) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.lines.append(f"{name} is ended")
            raise
        self.lines.append(f"{name} is done")


async def fails(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise RuntimeError("out of paper")


async def fails_as_it_is_ended() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise RuntimeError("out of paper")


@pytest.mark.parametrize(
    ("work", "interruption", "done", "lines"),
    [
        (1, 2, True, ["work is done", "interruption is ended"]),
        (2, 1, False, ["interruption is done", "work is ended"]),
    ],
)
async def test_what_is_second_is_ended(
    work: float, interruption: float, done: bool, lines: list[str]
) -> None:
    diary = Diary()
    assert await unless(diary.takes(work, "work"), diary.takes(interruption, "interruption")) is done
    assert diary.lines == lines


async def test_neither_outlives_whoever_waits() -> None:
    diary = Diary()
    waiting = asyncio.create_task(unless(diary.takes(5, "work"), diary.takes(5, "interruption")))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert diary.lines == ["work is ended", "interruption is ended"]


async def test_no_failure_is_lost() -> None:
    for work, interruption in (
        (fails(1), asyncio.sleep(2)),
        (asyncio.sleep(2), fails(1)),
        (fails_as_it_is_ended(), asyncio.sleep(1)),
    ):
        with pytest.raises(RuntimeError, match="out of paper"):
            await unless(work, interruption)
