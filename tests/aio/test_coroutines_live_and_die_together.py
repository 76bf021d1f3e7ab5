from __future__ import annotations

import asyncio

import pytest

from pilothouse.aio.task_group import together

pytestmark = pytest.mark.looptime


async def fails(after: float, why: str) -> None:
    await asyncio.sleep(after)
    raise RuntimeError(why)


async def test_the_first_failure_ends_the_others_and_is_raised_as_it_is() -> None:
    ended = asyncio.Event()

    async def lives() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(RuntimeError, match="disk full"):
        await together({"journal": fails(1, "disk full"), "engine": lives()})
    assert ended.is_set()


async def test_what_fails_on_the_way_out_is_noted() -> None:
    async def clings() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("disk on fire")

    with pytest.raises(RuntimeError, match="disk full") as failed:
        await together({"journal": fails(1, "disk full"), "engine": clings()})
    assert failed.value.__notes__ == ["meanwhile another failed: OSError: disk on fire"]


async def test_who_is_cancelled_cancels_them_all() -> None:
    ended: set[str] = set()

    async def lives(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.add(name)

    both = asyncio.create_task(together({"one": lives("one"), "two": lives("two")}))
    await asyncio.sleep(1)
    both.cancel()
    with pytest.raises(asyncio.CancelledError):
        await both
    assert ended == {"one", "two"}
