"""The transport to a server in the same process: no sockets, no threads.

    request = functools.partial(Request, user=admin)    # the server's own
    transport = InProcessTransport(request, core.answer)

The server is typed by shape only: a request factory, and a handler that returns a response or a stream that
writes into a sink. Virtual time works through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol, SupportsBytes, TypeGuard, TypeVar, cast
from urllib.parse import unquote, urlencode

from multidict import CIMultiDict

from pilothouse.client.transport import ClientRequest, ClientResponse, Interrupted, ResponseStreamReader


class InProcessRequest(Protocol):
    """A request as the server has it; it adds to the warnings."""

    warnings: list[str]


AskedT = TypeVar("AskedT", bound=InProcessRequest)
AskedCo = TypeVar("AskedCo", bound=InProcessRequest, covariant=True)


class MakeRequest(Protocol[AskedCo]):
    def __call__(
        self, *, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> AskedCo: ...


class WholeAnswer(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def body(self) -> SupportsBytes: ...
    @property
    def content_type(self) -> str: ...
    @property
    def headers(self) -> tuple[tuple[str, str], ...]: ...


class StreamedAnswer(Protocol):
    """An answer that ``run`` writes into a sink, until it returns or is cancelled."""

    @property
    def status(self) -> int: ...
    @property
    def run(self) -> Callable[[Any], Awaitable[None]]: ...
    @property
    def content_type(self) -> str: ...
    @property
    def headers(self) -> tuple[tuple[str, str], ...]: ...


class InProcessTransport(Generic[AskedT]):
    def __init__(
        self,
        request: MakeRequest[AskedT],
        answer: Callable[[AskedT], Awaitable[WholeAnswer | StreamedAnswer]],
        *,
        agent: str = "pilothouse-loopback",
    ) -> None:
        self._make = request
        self._answer = answer
        self._agent = agent

    async def request(self, call: ClientRequest) -> ClientResponse:
        request = self._request_of(call)
        answer = await self._answer(request)
        if not _is_whole(answer):
            raise TypeError(f"{call.method} {call.path} is answered by a stream")
        return ClientResponse(answer.status, _headers(answer), bytes(answer.body), tuple(request.warnings))

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        answer = await self._answer(self._request_of(call))
        if _is_whole(answer):
            yield ResponseStreamReader(answer.status, _headers(answer), _at_once(bytes(answer.body)))
            return
        pipe = Pipe()
        writing = asyncio.ensure_future(pipe.fill(cast("StreamedAnswer", answer)))
        try:
            yield ResponseStreamReader(answer.status, _headers(answer), pipe)
        finally:
            pipe.closed = True
            writing.cancel()
            # The reader has received its failure, if there still was one.
            await asyncio.gather(writing, return_exceptions=True)

    def _request_of(self, call: ClientRequest) -> AskedT:
        headers = CIMultiDict(call.headers)
        headers.setdefault("User-Agent", self._agent)
        return self._make(
            method=call.method,
            path=unquote(call.path),
            query=urlencode(call.query),
            headers=headers,
            body=call.body,
        )


class Pipe:
    """A sink at one end, chunks at the other. The server sees how much has not been taken, and holds back."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = asyncio.Event()
        self._ended = False
        self._problem: Exception | None = None

    def write(self, chunk: Any) -> None:
        self._waiting.append(chunk.data)
        self._size += len(chunk.data)
        self._news.set()

    def buffered(self) -> int:
        return self._size

    async def fill(self, answer: StreamedAnswer) -> None:
        """Have the server write."""
        try:
            await answer.run(self)
        except Exception as problem:  # noqa: BLE001 (handed on to the reader)
            self._problem = problem
        finally:
            self._ended = True
            self._news.set()

    # Its own iterator: an abandoned generator would have to be closed.

    def __aiter__(self) -> Pipe:
        return self

    async def __anext__(self) -> bytes:
        """What was written since the last time, until the server has ended."""
        while not self._waiting:
            if self._ended:
                if self._problem is not None:
                    raise Interrupted(f"the server's stream broke: {self._problem}") from self._problem
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        data, self._waiting, self._size = b"".join(self._waiting), [], 0
        return data


def _headers(answer: WholeAnswer | StreamedAnswer) -> Mapping[str, str]:
    headers = CIMultiDict(answer.headers)
    headers["Content-Type"] = answer.content_type
    return headers


def _is_whole(answer: WholeAnswer | StreamedAnswer) -> TypeGuard[WholeAnswer]:
    # By what sets it apart: to compare all of a protocol's parts takes longer than many an answer.
    return hasattr(answer, "body")


async def _at_once(body: bytes) -> AsyncIterator[bytes]:
    yield body
