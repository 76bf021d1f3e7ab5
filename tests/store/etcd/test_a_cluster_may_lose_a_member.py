"""Three members, one of them killed under load: no acknowledged write lost, the watch without gap or repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.etcd import EtcdCluster, EtcdServer
from tests.store.following import until

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import Change, Conflict, Unavailable

pytestmark = pytest.mark.etcd


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    made = EtcdCluster.start(tmp_path / "etcd")
    yield made
    made.stop()


class Load:
    """Writers that each count a key of their own up, and remember what was acknowledged."""

    def __init__(self, store: EtcdStore, writers: int) -> None:
        self.store = store
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.count = 0
        self.in_doubt = 0
        self.progress = asyncio.Condition()
        self._stop = False
        self._writers = [asyncio.create_task(self._write(f"/load/{n}")) for n in range(writers)]

    async def _write(self, key: str) -> None:
        value = revision = 0
        while not self._stop:
            try:
                if revision:
                    revision = await self.store.update(key, str(value + 1).encode(), revision=revision)
                else:
                    revision = await self.store.create(key, str(value + 1).encode())
                value += 1
            except Unavailable:
                # It may have been written or not: look.
                self.in_doubt += 1
                value, revision = await self._look(key)
                continue
            except Conflict as conflict:
                # A write in doubt that arrived after we looked.
                found = conflict.current
                value, revision = (int(found.value), found.revision) if found else (0, 0)
                continue
            self.acknowledged[key] = (value, revision)
            async with self.progress:
                self.count += 1
                self.progress.notify_all()

    async def _look(self, key: str) -> tuple[int, int]:
        while True:
            try:
                found = await self.store.get(key)
            except Unavailable:
                continue
            return (int(found.value), found.revision) if found else (0, 0)

    async def more(self, writes: int) -> None:
        """Wait until that many more writes have been acknowledged."""
        goal = self.count + writes
        async with asyncio.timeout(60), self.progress:
            await self.progress.wait_for(lambda: self.count >= goal)

    async def stop(self) -> None:
        self._stop = True
        await asyncio.gather(*self._writers)


def some_follower(cluster: EtcdCluster) -> EtcdServer:
    return cluster.followers()[0]


def the_leader(cluster: EtcdCluster) -> EtcdServer:
    return cluster.leader()


@pytest.mark.parametrize("victim", [some_follower, the_leader])
async def test_killing_a_member_under_load(
    cluster: EtcdCluster, victim: Callable[[EtcdCluster], EtcdServer]
) -> None:
    lost = victim(cluster)
    # The victim comes first, so that it is the one in use.
    endpoints = sorted(cluster.endpoints, key=lambda url: url != lost.endpoint)
    store = await EtcdStore.open(endpoints, prefix="/p", timeout=5, progress_every=0.5)
    start = await store.revision()
    async with store.watch("/load/", after=start) as batches:
        load = Load(store, writers=16)
        await load.more(200)
        lost.kill()
        await load.more(200)
        lost.begin()
        lost.wait_until_healthy()
        await load.more(200)
        await load.stop()
        final = await store.create("/load/end", b"0")
        seen = await until(batches, final)
    check(load, seen, {entry.key: entry.revision for entry in (await store.list("/load/")).entries})
    await store.close()


async def test_losing_one_member_after_the_other(cluster: EtcdCluster) -> None:
    store = await EtcdStore.open(cluster.endpoints, prefix="/p", timeout=5, progress_every=0.5)
    start = await store.revision()
    async with store.watch("/load/", after=start) as batches:
        load = Load(store, writers=8)
        for member in cluster.members:
            await load.more(60)
            member.kill()
            await load.more(60)
            member.begin()
            member.wait_until_healthy()
        await load.stop()
        seen = await until(batches, await store.create("/load/end", b"0"))
    check(load, seen, {entry.key: entry.revision for entry in (await store.list("/load/")).entries})
    await store.close()


async def test_without_a_majority_calls_end_and_the_watch_waits(cluster: EtcdCluster) -> None:
    store = await EtcdStore.open(cluster.endpoints, prefix="/p", timeout=2, progress_every=0.5)
    revision = await store.create("/a", b"1")
    async with store.watch("/a", after=revision) as batches:
        down = cluster.members[:2]
        for member in down:
            member.kill()
        with pytest.raises(Unavailable):
            await store.update("/a", b"2", revision=revision)
        with pytest.raises(Unavailable):
            await store.get("/a")
        for member in down:
            member.begin()
        for member in down:
            member.wait_until_healthy()
        entry = await store.get("/a")
        assert entry is not None
        updated = await store.update("/a", b"3", revision=entry.revision)
        seen = await until(batches, updated)
    assert seen[-1].value == b"3"
    assert [change.value for change in seen] in ([b"3"], [b"2", b"3"])
    await store.close()


def check(load: Load, seen: list[Change], standing: dict[str, int]) -> None:
    revisions = [change.revision for change in seen]
    assert revisions == sorted(set(revisions)), "the watch repeated or reordered changes"
    values: dict[str, int] = {}
    for change in seen:
        if change.key == "/load/end":
            continue
        assert change.value is not None
        assert int(change.value) == values.get(change.key, 0) + 1, f"the watch has a gap before {change}"
        values[change.key] = int(change.value)
    for key, (value, revision) in load.acknowledged.items():
        assert values[key] >= value, f"{key}: the acknowledged write of {value} is lost"
        assert standing[key] >= revision
    assert load.count >= 300, "too quiet to prove anything"
