"""A watch that is far behind catches up by several watchers: in order, once each, whatever comes first."""

from __future__ import annotations

import asyncio
import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.etcd import EtcdServer
from tests.store.following import until

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.etcd.history_replay import MOST, STRETCH, HistoryReplay


@given(
    st.sets(st.integers(min_value=1, max_value=6 * STRETCH), max_size=60),
    st.integers(min_value=0, max_value=3 * STRETCH),
    st.randoms(use_true_random=False),
)
def test_whoever_is_quicker_every_event_counts_once(
    revisions: set[int], position: int, random: Random
) -> None:
    """Each watcher is announced and then brings every event from its start on, in bits; all of that in any order."""
    history = sorted(revisions)
    relay = HistoryReplay()
    starts = {0: position + 1} | dict(relay.set_out(position, 6 * STRETCH))
    running = {watcher: [r for r in history if r >= start] for watcher, start in starts.items()}
    seen: list[int] = []
    at = position
    while any(running.values()):
        watcher = random.choice([w for w, left in running.items() if left])
        relay.began(watcher)
        size = random.randint(1, 5)
        brought, running[watcher] = running[watcher][:size], running[watcher][size:]
        counted = [r for r in relay.take(watcher, brought) if r > at]
        while True:
            seen += counted
            at = max(at, *counted) if counted else at
            held, stopping = relay.pass_on(at)
            if not stopping:
                break
            for stopped in stopping:
                running[stopped] = []
            counted = [r for r in held if r > at]
    assert seen == [r for r in history if r > position]


def test_nobody_sets_out_for_a_short_way() -> None:
    assert HistoryReplay().set_out(position=100, current=100 + STRETCH) == []


def test_only_so_many_run_ahead_and_then_others_may() -> None:
    relay = HistoryReplay()
    first = relay.set_out(position=0, current=100 * STRETCH)
    assert len(first) == MOST
    assert relay.set_out(position=0, current=100 * STRETCH) == []
    last, start = first[-1]
    relay.began(last)
    relay.pass_on(start)
    assert relay.runner == last
    again = relay.set_out(position=start, current=100 * STRETCH)
    assert again[0] == (last + 1, start + 1 + STRETCH)


def test_one_that_has_ended_is_not_waited_for() -> None:
    relay = HistoryReplay()
    (first, start), (second, later), *_ = relay.set_out(position=0, current=4 * STRETCH)
    relay.began(first)
    relay.began(second)
    relay.drop(first)
    assert relay.pass_on(start) == ([], [])
    assert relay.runner == 0
    relay.take(second, ["kept"])
    assert relay.pass_on(later) == (["kept"], [0])


def test_one_that_was_not_announced_does_not_run() -> None:
    """It may have been refused; or what it has found is held back, and a mark for the whole stream overtakes it."""
    relay = HistoryReplay()
    (first, start), (second, later), *_ = relay.set_out(position=0, current=4 * STRETCH)
    assert relay.pass_on(start) == ([], [])
    assert relay.runner == 0
    relay.began(second)
    relay.take(second, ["kept"])
    assert relay.pass_on(later) == (["kept"], [0, first])
    assert relay.take(first, ["more"]) == ()


@pytest.mark.etcd
async def test_a_long_history_comes_whole_while_others_write(etcd_server: EtcdServer) -> None:
    store = await EtcdStore.open([etcd_server.endpoint], prefix=f"/{uuid.uuid4().hex}", progress_every=0.2)
    start = await store.revision()
    written: list[int] = []

    async def write(name: str, count: int) -> None:
        for n in range(count):
            # Every third revision is not for the watch.
            at = await store.create(f"/{'other' if n % 3 == 2 else 'a'}/{name}.{n}", b"x")
            if n % 3 != 2:
                written.append(at)

    await asyncio.gather(*(write(f"before-{k}", 75) for k in range(60)))
    async with store.watch("/a/", after=start) as batches:
        writing = asyncio.gather(*(write(f"during-{k}", 20) for k in range(20)))
        first = [change.revision for change in await until(batches, start + 4000)]
        await writing
        last = await store.create("/a/last", b"x")
        rest = [change.revision for change in await until(batches, last)]
    assert first + rest == [*sorted(written), last]
    await store.close()
