"""Writers and watchers that carry on while their server is killed and started again.

    async with asyncio.TaskGroup() as group:
        group.create_task(Writer(http, ledger, "w0", seed=1).run(stop, progress))
        group.create_task(Watcher(http, ledger, History("watcher 0", revision=5)).run(progress))

A writer whose answer was lost asks the next server what became of its write before it goes on. A watcher resumes where
it was, as every client does; if the server says 410, it lists and goes on from there.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp
from tests.durability.ledger import Found, History, Ledger, Seen, Write
from tests.kit.http import Answer, Http, WatchEnded

COLLECTION = "/api/v1/namespaces/default/configmaps"
KEYS = 4
PATIENCE = 60.0

# A server that is starting or stopping may say these to anybody.
NOT_NOW = (429, 503)

# How a killed server looks from outside. An answer that just does not come is another matter, and fails the test.
LOST = (aiohttp.ClientError, ConnectionError)


def at(key: str) -> str:
    return f"{COLLECTION}/{key}"


def found(body: dict[str, Any]) -> Found:
    return Found(int(body["metadata"]["resourceVersion"]), body["data"]["value"])


async def ask(http: Http, path: str) -> Answer:
    """A GET that is repeated until a server is there to answer it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                answer = await http.get(path)
            except LOST:
                await asyncio.sleep(0.02)
                continue
            if answer.status not in NOT_NOW:
                return answer
            await asyncio.sleep(0.02)


class Writer:
    """Writes its own keys, one after the other, in all the ways there are."""

    def __init__(self, http: Http, ledger: Ledger, name: str, *, seed: int) -> None:
        self._http = http
        self._ledger = ledger
        self._name = name
        self._choice = random.Random(seed)
        self._serial = 0

    async def run(self, stop: asyncio.Event, progress: asyncio.Event) -> None:
        while not stop.is_set():
            await self._step()
            progress.set()

    async def _step(self) -> None:
        key = f"{self._name}-{self._choice.randrange(KEYS)}"
        before = self._ledger.now.get(key)
        self._serial += 1
        delete = before is not None and self._choice.random() < 0.2
        write = self._ledger.attempt(key, None if delete else f"{self._name}.{self._serial}")
        try:
            answer = await self._send(write)
        except LOST:
            await self._settle(write)
            return
        if answer.status in (200, 201):
            self._ledger.acknowledge(write, None if delete else found(answer.json).revision)
        elif answer.status in NOT_NOW or self._ledger.crashes > write.started:
            # aiohttp sends a PUT or DELETE again when its kept-alive connection breaks: the second may well be refused.
            await self._settle(write)
        else:
            raise AssertionError(f"{write}: {answer.status} {answer.text}")

    async def _send(self, write: Write) -> Answer:
        path, data = at(write.key), {"value": write.value}
        if write.value is None:
            return await self._http.delete(path)
        if write.before is None:
            return await self._http.post(COLLECTION, _config_map(write.key, data))
        if self._choice.random() < 0.5:
            return await self._http.patch(path, {"data": data})
        body = _config_map(write.key, data)
        body["metadata"]["resourceVersion"] = str(write.before.revision)
        return await self._http.put(path, body)

    async def _settle(self, write: Write) -> None:
        answer = await ask(self._http, at(write.key))
        self._ledger.settle(write, None if answer.status == 404 else found(answer.expect(200)))


class Watcher:
    """Keeps a history of the collection from a revision on."""

    def __init__(self, http: Http, ledger: Ledger, history: History) -> None:
        self.history = history
        self._http = http
        self._ledger = ledger

    async def run(self, progress: asyncio.Event) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._follow(progress)
            except (*LOST, WatchEnded):
                await asyncio.sleep(0.05)

    async def _follow(self, progress: asyncio.Event) -> None:
        query: dict[str, Any] = {"resourceVersion": str(self.history.revision), "allowWatchBookmarks": "true"}
        async with self._http.watch(COLLECTION, **query) as watch:
            if watch.status in NOT_NOW:
                raise WatchEnded
            if watch.status == 410:
                await self._relist()
                return
            assert watch.status == 200, f"a watch from {query} was answered with {watch.status}"
            self.history.opened += 1
            while True:
                event = await watch.next(seconds=PATIENCE)
                if event.type == "ERROR":
                    assert event.object["code"] == 410, event.object
                    await self._relist()
                    return
                if event.type == "BOOKMARK":
                    self.history.bookmark(event.version)
                else:
                    seen = Seen(event.type, event.name, event.version, event.object["data"]["value"])
                    self.history.add(seen)
                self._ledger.witness(event.version)
                progress.set()

    async def _relist(self) -> None:
        listed = (await ask(self._http, COLLECTION)).expect(200)
        revision = int(listed["metadata"]["resourceVersion"])
        self.history.relist(revision, {item["metadata"]["name"]: found(item) for item in listed["items"]})
        self._ledger.witness(revision)


def _config_map(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
