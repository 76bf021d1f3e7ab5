"""Another program listens where a pilot's database should, and answers without end: little of it is kept, and the pilot says what is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pilothouse.pilot.driver import DesiredState, InstanceEnvironment
from pilothouse.pilot.drivers.elasticsearch.node_client import ElasticsearchClient, NodeRequestFailed
from pilothouse.pilot.drivers.redis import Redis

MUCH = 32 * 2**20


@asynccontextmanager
async def answering(first: bytes, then: bytes = b"") -> AsyncIterator[int]:
    """A server that says this to whoever asks, and then the same over and over; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(1)
            writer.write(first)
            piece = then * (65536 // max(1, len(then)))
            # Less than the machine has, more than may be kept.
            for _ in range(4 * MUCH // 65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MUCH
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"\0"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"8000\r\n" + b"x" * 0x8000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b"[" * 2_000_000, b""),
    ],
    ids=["by length", "in chunks", "until its end", "interim answers", "nested"],
)
async def test_elasticsearch(first: bytes, then: bytes) -> None:
    async with answering(first, then) as port:
        with little_memory(), pytest.raises(NodeRequestFailed) as told:
            await ElasticsearchClient("127.0.0.1", port, secrets=None).get("/")
        assert "no answer in time" not in str(told.value)


async def test_what_elasticsearch_complains_of_is_cut() -> None:
    body = b'{"error": "' + b"x" * 1_000_000 + b'"}'
    head = b"HTTP/1.1 500 Error\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    async with answering(head + body) as port:
        with pytest.raises(NodeRequestFailed) as told:
            await ElasticsearchClient("127.0.0.1", port, secrets=None).get("/")
        assert "xxx" in str(told.value)
        assert len(str(told.value)) < 5000


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"$99999999999\r\n", b"x"),
        (b"$", b"9"),
        (b"$-1\r\n", b""),
        (b"$5\r\n\xff\xff\xff\xff\xff", b""),
        (b"$20\r\ndb0:keys=many,expire", b""),
        (b"-ERR " + b"x" * 60_000 + b"\r\n", b""),
    ],
    ids=["a length", "a line", "nothing", "no text", "no number", "an error"],
)
async def test_redis(tmp_path: Path, first: bytes, then: bytes) -> None:
    async with answering(first, then) as port:
        instance = InstanceEnvironment(
            name="cache-0",
            namespace="default",
            address="127.0.0.1",
            folder=tmp_path,
            environ={"REDIS_PORT": str(port)},
        )
        with little_memory():
            seen = await Redis(instance).observe(DesiredState(1, "", {}))
        assert not seen.ready
        assert seen.message.startswith("Redis does not answer: ")
        assert "it takes too long" not in seen.message
        assert len(seen.message) < 1000
