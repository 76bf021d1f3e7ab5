"""Two servers on three etcd members, each of which is killed in turn: to clients they are one thing that loses nothing.

Ten thousand requests (create, replace, patch, delete, with and without conditions; get, list) from clients of both. What
they saw has to have an order in which each request took effect between its sending and its answer; watchers of both
have to have seen the same, in the order of revisions, nothing twice and nothing left out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from tests.apiserver.instances.pairs import Pair, create, pair, revision
from tests.apiserver.instances.traffic import REGISTERS, Reader, Record, Writer
from tests.apiserver.instances.watched import Seen, backward, disorder, follow, untold, wrong_lists
from tests.kit.etcd import EtcdCluster, EtcdServer
from tests.kit.http import PATIENCE, Http
from tests.kit.linearizability import stuck
from tests.kit.registers import ABSENT, Create, Delete, Done, Exchange, Read, Set, Swap, step
from tests.kit.waiting import eventually

REQUESTS = 10_000
END = "zz-end"


@pytest.mark.etcd
@pytest.mark.long
async def test_two_servers_are_one_register(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cluster = await asyncio.to_thread(EtcdCluster.start, tmp_path / "etcd")
    record = Record()
    accounts: list[list[Seen]] = [[], []]
    try:
        with pair(tmp_path, etcd=cluster) as two:
            async with Http.to(two.one.target) as one, Http.to(two.two.target) as other:
                start = int(await revision(one))
                async with asyncio.TaskGroup() as watchers:
                    for http, seen in zip((one, other), accounts, strict=True):
                        watchers.create_task(follow(http, start, END, seen))
                    async with asyncio.TaskGroup() as clients:
                        for client in crowd(two, record):
                            clients.create_task(client.run(count=REQUESTS))
                        await mishaps(two, cluster, record)
                    await create(other, END)
    finally:
        cluster.stop()

    assert len(record.by_server) == 2
    everything = list(chain.from_iterable(record.operations.values()))
    done = Counter(type(each.what).__name__ for each in everything if isinstance(each.what.answer, Done))
    for name, value in (*done.items(), ("lists", len(record.lists)), ("unknown", record.unknown)):
        record_property(name, value)
    print(
        f"{record.answered} answers, {dict(done)} done, {len(record.lists)} lists, {record.unknown} unknown"
    )
    assert all(done[kind.__name__] > 100 for kind in (Create, Set, Swap, Exchange, Delete))
    assert sum(isinstance(each.what, Read) for each in everything) > REQUESTS / 4

    assert accounts[0] == accounts[1]
    told = [event for event in accounts[0] if event.name != END]
    assert disorder(told) == []
    assert untold(told, record.operations) == []
    assert backward(everything) == []
    assert wrong_lists(told, record.lists, everything) == []
    for name in REGISTERS:
        assert stuck(record.operations[name], initial=ABSENT, step=step) is None, name


def crowd(two: Pair, record: Record) -> list[Writer | Reader]:
    """Most write to the one, all read from both."""
    targets = [two.one.target, two.two.target]
    homes = [0, 0, 1] * 6
    writers = [Writer(f"w{n}", targets[home], record, seed=n) for n, home in enumerate(homes)]
    readers = [Reader(f"q{n}", targets[n % 2], record, seed=100 + n) for n in range(4)]
    return [*writers, *readers]


async def mishaps(two: Pair, cluster: EtcdCluster, record: Record) -> None:
    """A follower, the leader, a server, the other server, and the leader again: each killed, missed, and brought back.
    At last a server is stopped as it should be."""
    steps = iter(range(REQUESTS // 14, REQUESTS, REQUESTS // 14))

    async def member(victim: EtcdServer) -> None:
        victim.kill()
        await record.reached(next(steps))
        victim.begin()
        await asyncio.to_thread(victim.wait_until_healthy)
        await record.reached(next(steps))

    await record.reached(next(steps))
    await member((await asyncio.to_thread(cluster.followers))[0])
    await member(await leader(cluster))
    for server in (two.two, two.one):
        server.process.kill()
        await record.reached(next(steps))
        await asyncio.to_thread(server.revive)
        await record.reached(next(steps))
    await member(await leader(cluster))
    assert await asyncio.to_thread(two.one.process.end, seconds=PATIENCE) == 0
    await record.reached(next(steps))
    await asyncio.to_thread(two.one.revive)
    await record.reached(next(steps))


async def leader(cluster: EtcdCluster) -> EtcdServer:
    async def found() -> EtcdServer | None:
        leading = [member for member in cluster.members if await asyncio.to_thread(member.is_leader)]
        return leading[0] if leading else None

    return await eventually(found)
