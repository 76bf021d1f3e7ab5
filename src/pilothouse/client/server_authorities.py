"""The CAs of a server of ours, as it publishes them.

    trusted = await recognised(token.urls, token.pins, clock, agent="join")  # verified by hash
    latest = await published(api)                                            # from a trusted server

A client that asks regularly learns the next CA of a rotation before it signs anything.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from pilothouse.base.clock import Clock
from pilothouse.client.access import Access, AccessError
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import LONGEST_UNTRUSTED
from pilothouse.meta.errors import StatusError
from pilothouse.pki.authority import UnusableError
from pilothouse.pki.pinning import PAGE, fingerprints, pinned


async def recognised(urls: Sequence[str], pins: Collection[str], clock: Clock, *, agent: str) -> bytes:
    """The CAs, PEM, with one of these hashes, of the first server that answers. Raises ``AccessError`` if
    none has.

    No credentials are sent, as the server is not verified yet.
    """
    url, *others = urls
    access = Access(url, others=tuple(others), insecure=True)
    async with HttpTransport.open(access, clock, agent=agent) as transport:
        found = await published(Api(transport, random.Random(), manager=agent))
    if not found:
        raise AccessError(f"{url} does not publish its certificate authority; is it a pilothouse API server?")
    try:
        known = pinned(found, pins)
    except UnusableError as problem:
        raise AccessError(f"{url}{PAGE}: {problem}") from None
    if not known:
        raise AccessError(
            f"the server at {url} is not the one that the token is for: its authority's hash is "
            f"{' or '.join(fingerprints(found))}, the token's is {' or '.join(pins)}"
        )
    return known


async def published(api: Api) -> bytes:
    """The server's authorities, PEM, the signing one first; empty if it is not ours."""
    try:
        return await api.fetch(PAGE, accept="application/x-pem-file", longest=LONGEST_UNTRUSTED)
    except StatusError as refusal:
        if refusal.code in (403, 404):
            # A Kubernetes has no such page, and answers 404 only to users who may ask for any.
            return b""
        raise
