"""`kill -9` of the API server under load, again and again.

What was acknowledged is there afterwards, no revision is used twice, and watchers resume without gap or repeat: see
`ledger` for how that is held to account. A killed process leaves its written pages to the kernel, so this shows that
nothing is acknowledged before it is written, and that what is found after a crash is whole; that it is also on disk by
then is the business of the store's own tests.

Eight kills in each long run, two hundred when PILOTHOUSE_SOAK=1.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.durability.ledger import History, Ledger
from tests.durability.load import COLLECTION, PATIENCE, Watcher, Writer, ask, found
from tests.durability.victim import Victim
from tests.kit.http import Http
from tests.kit.run_report import Tell

WRITERS = 8
WATCHERS = 3
KILLS = 200 if os.environ.get("PILOTHOUSE_SOAK") == "1" else 8


class Siege:
    """One server, its load, and the account of what it promised."""

    def __init__(self, victim: Victim, http: Http, revision: int) -> None:
        self.ledger = Ledger()
        self.histories = [History(f"watcher {n}", revision) for n in range(WATCHERS)]
        self._victim = victim
        self._http = http
        self._progress = asyncio.Event()

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Writers and watchers run inside; at the end the watchers have seen the last write."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as watching:
            watchers = [
                watching.create_task(Watcher(self._http, self.ledger, history).run(self._progress))
                for history in self.histories
            ]
            async with asyncio.TaskGroup() as writing:
                for n in range(WRITERS):
                    writer = Writer(self._http, self.ledger, f"w{n}", seed=n)
                    writing.create_task(writer.run(stop, self._progress))
                yield
                stop.set()
            last = await self._write_last()
            await self._until(lambda: all(history.revision >= last for history in self.histories))
            for watcher in watchers:
                watcher.cancel()

    async def kill(self, after: int) -> None:
        """Kill the server once it has acknowledged so many more writes, and start it again."""
        goal = self.ledger.acknowledged + after
        await self._until(lambda: self.ledger.acknowledged >= goal)
        self._victim.kill()
        self.ledger.crash()
        await asyncio.to_thread(self._victim.revive)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not reached():
                self._progress.clear()
                await self._progress.wait()

    async def _write_last(self) -> int:
        write = self.ledger.attempt("last", "last")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "last"},
            "data": {"value": "last"},
        }
        revision = found((await self._http.post(COLLECTION, body)).expect(201)).revision
        self.ledger.acknowledge(write, revision)
        return revision

    async def check(self) -> None:
        """The account and the server agree, and so does every watcher."""
        listed = (await ask(self._http, COLLECTION)).expect(200)
        assert {item["metadata"]["name"]: found(item) for item in listed["items"]} == self.ledger.now
        for history in self.histories:
            self.ledger.check(history)


@contextlib.asynccontextmanager
async def besiege(folder: Path, store: str, *options: str) -> AsyncIterator[Siege]:
    victim = Victim(folder, store, options=options)
    try:
        async with Http.to(victim.target) as http:
            listed = (await ask(http, COLLECTION)).expect(200)
            yield Siege(victim, http, int(listed["metadata"]["resourceVersion"]))
    finally:
        victim.close()


async def endure(siege: Siege, kills: int, *, seed: int) -> None:
    """Kill a server soon after it started, or when it is well under way."""
    moments = random.Random(seed)
    async with siege.load():
        for _ in range(kills):
            await siege.kill(after=moments.choice([1, moments.randrange(2, 40), moments.randrange(40, 200)]))
    await siege.check()
    # All of it once more, as the next server reads it from disk.
    await siege.kill(after=0)
    await siege.check()
    assert siege.ledger.acknowledged > kills
    # A server may be killed before a watcher has come back to it.
    assert all(history.opened > kills // 2 for history in siege.histories)


@pytest.mark.parametrize("store", ["sqlite", pytest.param("etcd", marks=pytest.mark.etcd)])
async def test_nothing_is_lost_repeated_or_used_again(tmp_path: Path, store: str) -> None:
    async with besiege(tmp_path, store) as siege:
        await endure(siege, 2, seed=1)
        assert not any(history.relisted for history in siege.histories)


@pytest.mark.long
@pytest.mark.timeout(14400)
async def test_nothing_is_lost_repeated_or_used_again_for_long(tmp_path: Path, tell: Tell) -> None:
    async with besiege(tmp_path, "sqlite") as siege:
        await endure(siege, KILLS, seed=2)
        assert not any(history.relisted for history in siege.histories)
    tell(f"killed {KILLS} times, {siege.ledger.acknowledged} writes acknowledged and found again")


@pytest.mark.long
@pytest.mark.timeout(14400)
async def test_a_server_that_forgets_its_history_at_once_is_killed_too(tmp_path: Path) -> None:
    """Compaction runs all the time: watchers resume, or are told honestly (410) and list again."""
    async with besiege(tmp_path, "sqlite", "--compaction-interval", "1s") as siege:
        await endure(siege, KILLS, seed=3)
