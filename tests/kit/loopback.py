"""The API server's core in this process, and a client's way to it without a network.

async with loopback() as transport:
    api = Api(transport, Random(1), manager="test")
"""

from __future__ import annotations

import datetime
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from tests.kit.core import ADMIN

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.messages import Request
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.base.uids import Uids
from pilothouse.client.in_process import InProcessTransport
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.store.memory import MemoryStore


@asynccontextmanager
async def loopback(clock: Clock | None = None) -> AsyncIterator[InProcessTransport[Request]]:
    """A transport to a core of its own, over a store in memory; its user may do everything."""
    store = MemoryStore()
    clock = clock or SystemClock()
    authority = Authority.make("kit", datetime.datetime.fromtimestamp(clock.now(), datetime.UTC))
    core = RequestHandler(
        store,
        resources(),
        authenticator=Authenticator(),
        clock=clock,
        random=random.Random(1),
        uids=Uids(),
        refusals=refused_fields,
        signing_key=SigningKey.generate(),
        authority=lambda: authority,
    )
    try:
        async with core.running():
            yield InProcessTransport(partial(Request, user=ADMIN), core.answer)
    finally:
        await store.close()
