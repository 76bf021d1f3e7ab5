"""The floor for writes: puts of one kilobyte straight into etcd, each awaited before the next of its client.

    python -m bench.api.etcd_puts 127.0.0.1:2379 CLIENTS SECONDS    # prints {"requests", "seconds"}

The message of a put is made by hand, so that nothing but gRPC itself stands between this process and etcd.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count

import grpc.aio
import uvloop

from bench.api.objects import KINDS, numbered

PUT = "/etcdserverpb.KV/Put"
SLOTS = 1000


def put_request(key: bytes, value: bytes) -> bytes:
    """etcd's PutRequest: field 1 is the key, field 2 the value."""
    return b"\x0a" + _varint(len(key)) + key + b"\x12" + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


async def pump(endpoint: str, clients: int, seconds: float) -> dict[str, float]:
    kind = KINDS["configmaps"]
    requests = [put_request(f"/bench/{n}".encode(), kind.manifest(numbered(n), seed=n)) for n in range(SLOTS)]
    serial = count()
    answered = 0
    async with grpc.aio.insecure_channel(endpoint) as channel:
        put = channel.unary_unary(PUT)
        await put(requests[0])
        began = time.monotonic()

        async def client() -> None:
            nonlocal answered
            while time.monotonic() - began < seconds:
                await put(requests[next(serial) % SLOTS])
                answered += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
        return {"requests": answered, "seconds": time.monotonic() - began}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(pump(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
