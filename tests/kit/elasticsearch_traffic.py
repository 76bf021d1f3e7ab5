"""Documents that are written and looked for while a cluster of Elasticsearch is changed, and the ledger of what it acknowledged.

    async with Traffic.through("127.96.1.2:9200", "books") as traffic:
        await traffic.load(200_000)
        async with traffic.going_on():             # writers and searchers, until the end of the block
            ...
        await traffic.lost()                       # what was acknowledged and is not there any more
        traffic.longest_gap                        # seconds without a search that found everything

Each document has a number that grows with every write of it, and Elasticsearch is told that number (``version_type=external``): a write that is sent again, or
that arrives late, changes nothing. A write counts from the moment that it is acknowledged; one that is not is sent again until it is. A search succeeds if every shard
has answered and all that was loaded is found. Every request has a connection of its own, so that the service chooses anew.

Elasticsearch 6.8, 7 and 8 all understand what is said here, except for ``load``, which 6.8 does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterable
from itertools import count
from typing import Any

import aiohttp

BATCH = 5000
PATIENCE = 10.0
"""Seconds for an answer, before it is asked again."""
WRITERS = 3
SEARCHERS = 2
PAUSE = 0.2
"""Seconds between two requests of one of them: the load is the same on every machine."""
AGAIN = 7
"""Every seventh write is of a document that is there already."""


class Refused(Exception):
    """No answer, or not the one that was hoped for."""


class Traffic:
    """On one index, through one address."""

    def __init__(self, session: aiohttp.ClientSession, address: str, index: str) -> None:
        self._session = session
        self._address = address
        self._index = index
        self._numbers = count(1)
        self._ids = count()
        self._written: list[str] = []
        self._found = 0.0
        self.acknowledged: dict[str, int] = {}
        """The number of the last acknowledged write, by the document's id."""
        self.loaded = 0
        self.searches = 0
        self.writes = 0
        self.longest_gap = 0.0
        self.gap_after = 0.0
        """When the longest gap began, in seconds of the monotonic clock."""
        self.last_refusal = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def through(cls, address: str, index: str) -> AsyncIterator[Traffic]:
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield cls(session, address, index)

    async def ask(self, method: str, path: str, body: Any = None, *, seconds: float = PATIENCE) -> Any:
        """One request. Raises ``Refused``."""
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            async with self._session.request(
                method,
                f"http://{self._address}{path}",
                data=data,
                headers={"Content-Type": kind} if data is not None else {},
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as answer:
                text = await answer.read()
                if answer.status >= 300:
                    raise Refused(f"{method} {path}: {answer.status}: {text[:300]!r}")
                return json.loads(text)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as problem:
            raise Refused(f"{method} {path}: {type(problem).__name__}: {problem}") from None

    async def persistently(self, method: str, path: str, body: Any = None, *, seconds: float = 300.0) -> Any:
        """The same, until it is answered. Raises ``Refused`` when that takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return await self.ask(method, path, body, seconds=60.0)
            except Refused as problem:
                if time.monotonic() > deadline or "already_exists" in str(problem):
                    raise
                await asyncio.sleep(0.5)

    async def make_index(self, *, shards: int = 3, replicas: int = 1) -> None:
        settings = {"number_of_shards": shards, "number_of_replicas": replicas}
        try:
            await self.persistently("PUT", f"/{self._index}", {"settings": {"index": settings}})
        except Refused as problem:
            # An earlier attempt, whose answer did not come in time, made it.
            if "resource_already_exists" not in str(problem):
                raise

    async def load(self, documents: int) -> None:
        """So many, by bulk, before anything begins."""
        for first in range(0, documents, BATCH):
            ids = [f"loaded-{each}" for each in range(first, min(first + BATCH, documents))]
            await self._bulk(ids)
        self.loaded += documents
        await self.persistently("POST", f"/{self._index}/_refresh")

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Writers and searchers work as long as the block; the gap up to its end counts."""
        self._found = time.monotonic()
        tasks = [asyncio.create_task(self._write()) for _ in range(WRITERS)]
        tasks += [asyncio.create_task(self._search()) for _ in range(SEARCHERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, Exception):
                raise each
        self._measure()

    @property
    def story(self) -> str:
        """What was measured, for people."""
        return (
            f"{len(self.acknowledged)} documents in {self.writes} writes and {self.loaded} loaded, {self.searches} searches; "
            f"none succeeded for {self.longest_gap:.1f} s at most; last refusal: {self.last_refusal or 'none'}"
        )

    async def lost(self) -> dict[str, tuple[int, int | None]]:
        """What was acknowledged and is not there: its last acknowledged number, and the one that is there."""
        await self.persistently("POST", f"/{self._index}/_refresh")
        there = {id: number async for id, number in self._all()}
        return {
            id: (number, there.get(id))
            for id, number in self.acknowledged.items()
            if there.get(id, 0) < number
        }

    async def _bulk(self, ids: Iterable[str]) -> None:
        wanted = {id: next(self._numbers) for id in ids}
        while wanted:
            lines: list[Any] = []
            for id, number in wanted.items():
                lines += [
                    {"index": {"_id": id, "version": number, "version_type": "external"}},
                    {"number": number, "kind": "loaded"},
                ]
            body = "".join(json.dumps(line) + "\n" for line in lines).encode()
            answer = await self.persistently("POST", f"/{self._index}/_bulk", body)
            for item in answer["items"]:
                result = item["index"]
                if result["status"] in (200, 201, 409):
                    self.acknowledged[result["_id"]] = wanted.pop(result["_id"])

    async def _write(self) -> None:
        while True:
            number = next(self._numbers)
            id = (
                self._written.pop(0)
                if number % AGAIN == 0 and self._written
                else f"written-{next(self._ids)}"
            )
            path = f"/{self._index}/_doc/{id}?version={number}&version_type=external&timeout=5s"
            while True:
                try:
                    await self.ask("PUT", path, {"number": number, "kind": "written"})
                    break
                except Refused as problem:
                    if "version_conflict" in str(problem):
                        # An earlier attempt arrived after all.
                        break
                    self.last_refusal = str(problem)
                    await asyncio.sleep(PAUSE)
            self.acknowledged[id] = number
            self.writes += 1
            self._written.append(id)
            await asyncio.sleep(PAUSE)

    async def _search(self) -> None:
        query = "q=kind:loaded&size=1&track_total_hits=true&rest_total_hits_as_int=true"
        path = f"/{self._index}/_search?{query}&allow_partial_search_results=false"
        while True:
            try:
                answer = await self.ask("GET", path, seconds=PATIENCE / 2)
                shards, found = answer["_shards"], answer["hits"]["total"]
                if shards["successful"] != shards["total"] or found < self.loaded:
                    raise Refused(f"{found} found by {shards}")
                self.searches += 1
                self._measure()
            except Refused as problem:
                self.last_refusal = str(problem)
            await asyncio.sleep(PAUSE)

    def _measure(self) -> None:
        now = time.monotonic()
        if now - self._found > self.longest_gap:
            self.longest_gap, self.gap_after = now - self._found, self._found
        self._found = now

    async def _all(self) -> AsyncIterator[tuple[str, int]]:
        """Every document, by what a search finds."""
        body = {"size": BATCH, "sort": ["_doc"], "_source": ["number"]}
        page = await self.persistently("POST", f"/{self._index}/_search?scroll=2m", body)
        while page["hits"]["hits"]:
            for hit in page["hits"]["hits"]:
                yield hit["_id"], hit["_source"]["number"]
            following = {"scroll": "2m", "scroll_id": page["_scroll_id"]}
            page = await self.persistently("POST", "/_search/scroll", following)
