"""Raw HTTP to an API server: every header, warning and chunk can be looked at.

    async with Http.to(target) as http:
        answer = await http.post(path, {"kind": …}, fieldValidation="Strict")
        answer.status, answer.reason, answer.warnings, answer.json
        created = (await http.post(path, body)).expect(201)
        async with http.watch(path, resourceVersion="5") as watch:
            event = await watch.next()

Keyword arguments are query parameters. `accept`, `headers` and `type` (the body's Content-Type) are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from tests.kit.servers import Target
from yarl import URL

Json = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"

# What a test may wait for a single thing: generous, since a slow machine is not a wrong answer.
PATIENCE = 30.0


class Cause(NamedTuple):
    reason: str
    field: str
    message: str


@dataclass(frozen=True)
class Answer:
    """A complete answer."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @cached_property
    def json(self) -> Json:
        found: Json = json.loads(self.body)
        return found

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def type(self) -> str:
        return self.headers.get("Content-Type", "")

    @property
    def reason(self) -> str:
        return str(self.json.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))

    @property
    def causes(self) -> list[Cause]:
        causes = self.json.get("details", {}).get("causes", [])
        return [Cause(c.get("reason", ""), c.get("field", ""), c.get("message", "")) for c in causes]

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers, unquoted."""
        return [_warning_text(value) for value in self.headers.getall("Warning", [])]

    def expect(self, *statuses: int) -> Json:
        """The decoded body, once the status is one of these."""
        if self.status not in statuses:
            raise AssertionError(f"expected {statuses}, got {self.status}: {self.body[:2000]!r}")
        return self.json


class Event(NamedTuple):
    """One line of a watch."""

    type: str
    object: Json

    @property
    def name(self) -> str:
        return str(self.object["metadata"].get("name", ""))

    @property
    def version(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


class WatchEnded(Exception):
    """The stream ended before the event that was asked for."""


class Watch:
    """An open watch; events come in the order of the stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers

    @property
    def warnings(self) -> list[str]:
        return [_warning_text(value) for value in self.headers.getall("Warning", [])]

    async def next(self, *, seconds: float = PATIENCE) -> Event:
        line = await asyncio.wait_for(self._response.content.readline(), seconds)
        if not line:
            raise WatchEnded
        decoded = json.loads(line)
        if "type" not in decoded:
            raise AssertionError(f"not a watch event, in an answer of status {self.status}: {line[:2000]!r}")
        return Event(decoded["type"], decoded["object"])

    async def whole(self) -> Answer:
        """What came instead of a stream, or all of one that has an end."""
        return Answer(self.status, self.headers, await self._response.read())

    async def take(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def rest(self, *, seconds: float = PATIENCE) -> list[Event]:
        """Everything until the server ends the stream."""
        events = []
        with contextlib.suppress(WatchEnded):
            while True:
                events.append(await self.next(seconds=seconds))
        return events

    async def until(self, type_: str, name: str = "") -> list[Event]:
        """Events up to and including the first of this type (and name)."""
        events = [await self.next()]
        while events[-1].type != type_ or (name and events[-1].name != name):
            events.append(await self.next())
        return events


class Http:
    """A client of one target with the administrator's credentials."""

    def __init__(self, target: Target, session: aiohttp.ClientSession) -> None:
        self.target = target
        self._session = session

    @classmethod
    @contextlib.asynccontextmanager
    async def to(cls, target: Target) -> AsyncIterator[Http]:
        headers = {"User-Agent": "conformance/1"}
        if target.access.token:
            headers["Authorization"] = f"Bearer {target.access.token}"
        connector = aiohttp.TCPConnector(ssl=target.trust(), limit=0)
        # A server must be able to send a long watch line and a large list.
        async with aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            read_bufsize=2**24,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session:
            yield cls(target, session)

    def url(self, path: str, query: Mapping[str, str | int]) -> URL:
        if query:
            path += ("&" if "?" in path else "?") + urlencode(query, quote_via=quote)
        return URL(self.target.url + path, encoded=True)

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type: str | None = None,
        accept: str | None = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """Any request; a body that is not bytes is sent as JSON."""
        sent = CIMultiDict(headers or {})  # of a multi-dict, every header
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = type or JSON
        if accept:
            sent["Accept"] = accept
        async with asyncio.timeout(2 * PATIENCE):
            async with self._session.request(
                method, self.url(path, query), data=data, headers=sent, allow_redirects=False
            ) as response:
                return Answer(response.status, response.headers, await response.read())

    async def get(
        self,
        path: str,
        *,
        accept: str | None = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        return await self.send("GET", path, accept=accept, headers=headers, **query)

    async def post(self, path: str, body: object, *, type: str = JSON, **query: Any) -> Answer:
        return await self.send("POST", path, body, type=type, **query)

    async def put(self, path: str, body: object, **query: Any) -> Answer:
        return await self.send("PUT", path, body, **query)

    async def patch(self, path: str, body: object, *, type: str = MERGE, **query: Any) -> Answer:
        return await self.send("PATCH", path, body, type=type, **query)

    async def delete(self, path: str, body: object = None, **query: Any) -> Answer:
        return await self.send("DELETE", path, body, **query)

    async def apply(self, path: str, body: Json, manager: str, **query: Any) -> Answer:
        """Server-side apply."""
        return await self.send("PATCH", path, body, type=APPLY, fieldManager=manager, **query)

    @contextlib.asynccontextmanager
    async def watch(
        self,
        path: str,
        *,
        accept: str = JSON,
        again: bool = True,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> AsyncIterator[Watch]:
        """An open watch. Unless told not to, asks a server that is still filling its cache (429) again, as every
        client does."""
        url = self.url(path, {"watch": "1", **query})
        async with contextlib.AsyncExitStack() as stack:
            for delay in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 0):
                response = await stack.enter_async_context(
                    self._session.get(url, headers={"Accept": accept, **(headers or {})})
                )
                if response.status != 429 or not again:
                    break
                await asyncio.sleep(delay)
            yield Watch(response)

    @contextlib.asynccontextmanager
    async def websocket(
        self, path: str, *, protocols: Sequence[str] = (), origin: str = "", **query: Any
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket. Kubernetes' own server wants an origin; it is the server itself unless told."""
        async with asyncio.timeout(2 * PATIENCE):
            socket = await self._session.ws_connect(
                self.url(path, query), protocols=protocols, origin=origin or self.target.url
            )
        async with socket:
            yield socket


def _warning_text(value: str) -> str:
    match = re.fullmatch(r'299 - "(.*)"', value, re.DOTALL)
    if not match:
        raise AssertionError(f"not a Kubernetes warning header: {value!r}")
    return re.sub(r"\\(.)", r"\1", match[1])
