"""A core behind an edge, with all that is between them."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from multidict import CIMultiDict
from tests.apiserver.audit.scenes import trail_at
from tests.apiserver.server.wire import Place
from tests.kit.core import ADMIN

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.authentication.authenticator import Authenticator, read_tokens
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.https_server import HTTPSServer, tls_context
from pilothouse.apiserver.server.messages import Answer, Request
from pilothouse.base.clock import SystemClock
from pilothouse.base.uids import Uids
from pilothouse.pki.jwt import SigningKey
from pilothouse.pki.keyring import Keyring
from pilothouse.store.memory import MemoryStore

TOKENS = 't-admin,admin,1,"system:masters"\nt-alice,alice,2,\nt-bob,bob,3,\n'
MAPS = "/api/v1/namespaces/default/configmaps"
MAP = f"{MAPS}/a"


class Server:
    """A core behind an edge. ``asked`` is what came to the core itself."""

    def __init__(self, core: RequestHandler) -> None:
        self.core = core
        self.requests = RequestCounters(core.catalog)
        self.shares = FlowController()
        self.asked: list[str] = []
        self.place: Place
        self.trail: AuditTrail

    async def handle(self, request: Request) -> Answer:
        self.asked.append(request.path)
        return await self.core.answer(request)

    async def send(self, method: str, path: str, body: Any = None, type: str = "application/json") -> None:
        """A write by the administrator, past the edge."""
        headers = CIMultiDict({"Content-Type": type})
        data = b"" if body is None else json.dumps(body).encode()
        answer = await self.core.answer(Request(method, path, headers=headers, body=data, user=ADMIN))
        assert answer.status in (200, 201), answer


@asynccontextmanager
async def serving(keyring: Keyring, folder: Path) -> AsyncIterator[Server]:
    """Such a server, with one config map, until the context ends."""
    now = datetime.datetime.now(datetime.UTC)
    authority = keyring.authority(now)
    pair = keyring.serving(authority, ["localhost", "127.0.0.1"], now)
    authenticator = Authenticator(read_tokens(TOKENS, "tokens.csv"))
    store = MemoryStore()
    core = RequestHandler(
        store,
        resources(),
        authenticator=authenticator,
        clock=SystemClock(),
        random=random.Random(1),
        uids=Uids(),
        refusals=refused_fields,
        signing_key=SigningKey.generate(),
        authority=lambda: authority,
    )
    async with core.running(), trail_at(folder / "audit.log") as trail:
        made = Server(core)
        made.trail = trail
        health = Health()
        edge = HTTPSServer(
            made.handle,
            authenticator=authenticator,
            health=health,
            shares=made.shares,
            requests=made.requests,
            check_head=core.check_head,
            cached_reads=core.prompt(made.requests),
            trail=trail,
        )
        tls = tls_context(pair.certificate, pair.key, keyring.authority_file)
        made.place = Place(await edge.listen("127.0.0.1", 0, tls), keyring.authority_file, edge, health)
        await made.send("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "1"}})
        yield made
        await edge.stop(0.0)
    await store.close()
