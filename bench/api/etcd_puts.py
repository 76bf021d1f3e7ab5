"""The floor for writes: puts of one kilobyte straight into etcd, each awaited before the next of its client.

    python -m bench.api.etcd_puts 127.0.0.1:2379 CLIENTS SECONDS    # prints {"requests", "seconds"}

The message of a put is made by hand, so that nothing but gRPC itself stands between this process and etcd. The gRPC is
our own channel, the faster of the two clients there are.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count

import uvloop

from bench.api.objects import KINDS, numbered
from pilothouse.base.protobuf_wire import BYTES, delimited, tag
from pilothouse.store.etcd.channel import Channel
from pilothouse.store.etcd.hpack import request_block

PUT = "/etcdserverpb.KV/Put"
SLOTS = 1000


def put_request(key: bytes, value: bytes) -> bytes:
    """etcd's PutRequest: field 1 is the key, field 2 the value."""
    return tag(1, BYTES) + delimited(key) + tag(2, BYTES) + delimited(value)


async def pump(endpoint: str, clients: int, seconds: float) -> dict[str, float]:
    kind = KINDS["configmaps"]
    requests = [put_request(f"/bench/{n}".encode(), kind.manifest(numbered(n), seed=n)) for n in range(SLOTS)]
    serial = count()
    answered = 0
    host, _, port = endpoint.rpartition(":")
    channel = await Channel.connect(host, int(port), tls=None, patience=10)
    block = request_block(PUT, authority=endpoint, secure=False)
    deadline = asyncio.get_running_loop().time() + seconds + 30
    await channel.call(block, requests[0], deadline)
    began = time.monotonic()

    async def client() -> None:
        nonlocal answered
        while time.monotonic() - began < seconds:
            await channel.call(block, requests[next(serial) % SLOTS], deadline)
            answered += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    channel.close()
    return {"requests": answered, "seconds": time.monotonic() - began}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(pump(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))))
