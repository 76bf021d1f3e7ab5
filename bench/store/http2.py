"""Our HTTP/2 beside the library `h2` (with `hpack`), on the path of an etcd store's calls.

    python -m bench.store.http2 [--rounds 5] [--calls 3000] [--clients 64]

Both do the same: puts of one kilobyte and reads of one key on one connection to a real etcd, so many at once; what is sent in
one turn of the loop goes out in one write. The figure is the CPU time of this process a call, by turns, as a median.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Protocol, cast

import h2.config
import h2.connection
import h2.events
import uvloop
from tests.kit.etcd import EtcdServer

from bench.api.etcd_puts import PUT, put_request
from bench.api.objects import KINDS, numbered
from pilothouse.base.protobuf_wire import BYTES, delimited, tag
from pilothouse.store.etcd.channel import Channel
from pilothouse.store.etcd.grpc_messages import enveloped, opened
from pilothouse.store.etcd.hpack import request_block

RANGE = "/etcdserverpb.KV/Range"
KEYS = 200


class Caller(Protocol):
    async def call(self, method: str, message: bytes) -> bytes: ...

    def close(self) -> None: ...


class Ours:
    """The store's own channel."""

    def __init__(self, channel: Channel, authority: str) -> None:
        self._channel = channel
        self._blocks = {
            method: request_block(method, authority=authority, secure=False) for method in (PUT, RANGE)
        }

    async def call(self, method: str, message: bytes) -> bytes:
        deadline = asyncio.get_running_loop().time() + 30
        return await self._channel.call(self._blocks[method], message, deadline)

    def close(self) -> None:
        self._channel.close()


class ByLibrary(asyncio.Protocol):
    """The same calls by `h2`: no deadlines, no retries, one future each."""

    def __init__(self, authority: str) -> None:
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._connection = h2.connection.H2Connection(config)
        self._waiting: dict[int, tuple[asyncio.Future[bytes], list[bytes]]] = {}
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._flushing = False
        self._loop = asyncio.get_running_loop()
        self._headers = {
            method: [
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", method.encode()),
                (b":authority", authority.encode()),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            ]
            for method in (PUT, RANGE)
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.initiate_connection()
        self._connection.increment_flow_control_window(1 << 30)
        self._flush()

    async def call(self, method: str, message: bytes) -> bytes:
        connection = self._connection
        stream = connection.get_next_available_stream_id()
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting[stream] = (future, [])
        connection.send_headers(stream, self._headers[method])
        self._unsent.append((stream, enveloped(message)))
        self._send()
        return await future

    def data_received(self, data: bytes) -> None:
        for event in self._connection.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self._waiting[event.stream_id][1].append(event.data)
            elif isinstance(event, h2.events.TrailersReceived):
                future, parts = self._waiting.pop(event.stream_id)
                if (b"grpc-status", b"0") in event.headers:
                    future.set_result(opened(parts))
                else:
                    future.set_exception(ValueError(str(event.headers)))
        self._send()

    def close(self) -> None:
        self._transport.abort()

    def _send(self) -> None:
        """Send what the server's windows allow."""
        connection = self._connection
        while self._unsent:
            stream, data = self._unsent[0]
            if connection.local_flow_control_window(stream) < len(data):
                break
            connection.send_data(stream, data, end_stream=True)
            self._unsent.popleft()
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._transport.write(self._connection.data_to_send())


async def cost(caller: Caller, method: str, messages: list[bytes], calls: int, clients: int) -> float:
    """Microseconds of CPU a call."""
    numbers = iter(range(calls))

    async def client() -> None:
        for number in numbers:
            await caller.call(method, messages[number % len(messages)])

    before = time.process_time()
    await asyncio.gather(*(client() for _ in range(clients)))
    return (time.process_time() - before) / calls * 1e6


async def measure(endpoint: str, rounds: int, calls: int, clients: int) -> None:
    authority = endpoint.removeprefix("http://")
    host, _, port = authority.rpartition(":")
    channel = await Channel.connect(host, int(port), tls=None, patience=10)
    _, library = await asyncio.get_running_loop().create_connection(
        lambda: ByLibrary(authority), host, int(port)
    )
    callers: dict[str, Caller] = {"ours": Ours(channel, authority), "h2": library}
    keys = [f"/bench/{number}".encode() for number in range(KEYS)]
    values = [KINDS["configmaps"].manifest(numbered(number), seed=number) for number in range(KEYS)]
    loads = {
        "put": (PUT, [put_request(key, value) for key, value in zip(keys, values, strict=True)]),
        "range": (RANGE, [tag(1, BYTES) + delimited(key) for key in keys]),
    }
    for load, (method, messages) in loads.items():
        found: dict[str, list[float]] = {name: [] for name in callers}
        for number in range(rounds + 1):
            for name in sorted(callers, reverse=number % 2 == 0):
                figure = await cost(callers[name], method, messages, calls, clients)
                if number:
                    found[name].append(figure)
        base = statistics.median(found["ours"])
        for name, figures in found.items():
            middle = statistics.median(figures)
            each = " ".join(f"{figure:.0f}" for figure in figures)
            print(f"{load:6} {name:5} {middle:6.1f} µs  {middle / base:4.1f}   ({each})", flush=True)
    for caller in callers.values():
        caller.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store.http2", description="Our HTTP/2 beside h2.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--clients", type=int, default=64)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        etcd = EtcdServer.start(Path(folder) / "etcd")
        try:
            uvloop.run(measure(etcd.endpoint, chosen.rounds, chosen.calls, chosen.clients))
        finally:
            etcd.stop()


if __name__ == "__main__":
    main()
