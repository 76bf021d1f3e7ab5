"""Group commit: who waits goes together, in order; failures and closing reach everyone who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest

from pilothouse.aio.group_commit import Closed, GroupCommit


class Disk:
    """Something to commit to, which can be made to stall or fail."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.events: list[str] = []
        self.failing = False
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def commit(self, items: Sequence[int]) -> None:
        self.entered.set()
        self.gate.wait()
        if self.failing:
            raise OSError("disk on fire")
        self.groups.append(list(items))

    def applied(self, items: Sequence[int]) -> None:
        self.events.append(f"applied {list(items)}")

    def failed(self, error: Exception) -> None:
        self.events.append(f"failed: {error}")


@pytest.fixture
async def disk() -> Disk:
    return Disk()


@pytest.fixture
async def commits(disk: Disk) -> AsyncIterator[GroupCommit[int]]:
    made = GroupCommit(disk.commit, disk.applied, disk.failed)
    yield made
    disk.gate.set()
    await made.close()


async def test_those_of_one_tick_go_together(commits: GroupCommit[int], disk: Disk) -> None:
    await asyncio.gather(*(commits.submit(n) for n in range(10)))
    assert disk.groups == [list(range(10))]


async def test_those_who_come_during_a_commit_form_the_next_group(
    commits: GroupCommit[int], disk: Disk
) -> None:
    disk.gate.clear()
    first = commits.submit(0)
    await asyncio.to_thread(disk.entered.wait)
    rest = [commits.submit(n) for n in range(1, 5)]
    assert not first.done()
    disk.gate.set()
    await asyncio.gather(first, *rest)
    assert disk.groups == [[0], [1, 2, 3, 4]]


async def test_a_group_has_a_largest_size(disk: Disk) -> None:
    commits = GroupCommit(disk.commit, disk.applied, disk.failed, largest=3)
    await asyncio.gather(*(commits.submit(n) for n in range(8)))
    assert disk.groups == [[0, 1, 2], [3, 4, 5], [6, 7]]
    await commits.close()


async def test_a_group_is_applied_before_its_writers_go_on(commits: GroupCommit[int], disk: Disk) -> None:
    async def write(n: int) -> None:
        await commits.submit(n)
        disk.events.append(f"writer {n}")

    await asyncio.gather(write(0), write(1))
    assert disk.events == ["applied [0, 1]", "writer 0", "writer 1"]


async def test_a_failure_reaches_the_group_and_the_one_that_is_forming(
    commits: GroupCommit[int], disk: Disk
) -> None:
    disk.gate.clear()
    disk.failing = True
    first = commits.submit(0)
    await asyncio.to_thread(disk.entered.wait)
    second = commits.submit(1)
    disk.gate.set()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [str(result) for result in results] == ["disk on fire", "disk on fire"]
    assert disk.events == ["failed: disk on fire"]
    disk.failing = False
    await commits.submit(2)
    assert disk.groups == [[2]]


async def test_a_writer_that_gives_up_does_not_take_its_item_back(
    commits: GroupCommit[int], disk: Disk
) -> None:
    given_up = commits.submit(0)
    given_up.cancel()
    await commits.submit(1)
    assert disk.groups == [[0, 1]]


async def test_chores_and_groups_take_turns(commits: GroupCommit[int], disk: Disk) -> None:
    done: list[str] = []
    disk.gate.clear()
    first = commits.submit(0)
    await asyncio.to_thread(disk.entered.wait)
    chores = [asyncio.ensure_future(commits.between(partial(done.append, f"chore {n}"))) for n in range(2)]
    await asyncio.sleep(0)
    second = commits.submit(1)
    second.add_done_callback(lambda _: done.append("group"))
    disk.gate.set()
    await asyncio.gather(first, second, *chores)
    assert done == ["chore 0", "group", "chore 1"]


async def test_a_chore_gives_its_result_or_its_error(commits: GroupCommit[int]) -> None:
    assert await commits.between(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        await commits.between(lambda: 1 // 0)
    assert await commits.between(threading.get_ident) != threading.get_ident()


async def test_closing_finishes_what_is_under_way_and_refuses_the_rest(disk: Disk) -> None:
    commits = GroupCommit(disk.commit, disk.applied, disk.failed)
    disk.gate.clear()
    under_way = commits.submit(0)
    await asyncio.to_thread(disk.entered.wait)
    waiting = commits.submit(1)
    closing = asyncio.ensure_future(commits.close())
    await asyncio.sleep(0)
    disk.gate.set()
    await closing
    await under_way
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        commits.submit(2)
    assert disk.groups == [[0]]
