"""Objects put into a server before it is measured.

    asyncio.run(fill(access, kind, "bench-list", count=1000))

Makes the kind known and the namespace present first; creating what is there already is no error.
"""

from __future__ import annotations

import asyncio
import json
import time
from itertools import count as counting

import aiohttp

from bench.api.access import AGENT, TOKEN, Access, unverified
from bench.api.objects import Kind, numbered

AT_ONCE = 32
SERVED_WITHIN = 30.0


class Refused(Exception):
    """A server did not take what it was given."""


async def fill(access: Access, kind: Kind, namespace: str, *, count: int) -> None:
    """Make objects 0 to count-1 of the namespace."""
    headers = {"Authorization": f"Bearer {TOKEN}", "User-Agent": AGENT, "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(ssl=unverified(), limit=AT_ONCE)
    async with aiohttp.ClientSession(access.url, connector=connector, headers=headers) as session:
        if kind.definition:
            await _post(
                session, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _json(kind.definition)
            )
        meta = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await _post(session, "/api/v1/namespaces", _json(meta))
        await _until_served(session, kind.collection(namespace))
        numbers = counting()

        async def work() -> None:
            while (number := next(numbers)) < count:
                body = kind.manifest(numbered(number), seed=number)
                await _post(session, kind.collection(namespace), body)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


async def _post(session: aiohttp.ClientSession, path: str, body: bytes) -> None:
    async with session.post(path, data=body) as answer:
        text = await answer.text()
        if answer.status not in (200, 201, 409):
            raise Refused(f"POST {path}: {answer.status} {text[:500]}")


async def _until_served(session: aiohttp.ClientSession, path: str) -> None:
    """A definition takes a moment to be served."""
    deadline = time.monotonic() + SERVED_WITHIN
    while True:
        async with session.get(path, params={"limit": "1"}) as answer:
            if answer.status == 200:
                return
            if time.monotonic() > deadline:
                raise Refused(f"GET {path}: still {answer.status} after {SERVED_WITHIN} s")
        await asyncio.sleep(0.1)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
