"""``GET /pilothouse/v1/audit``: the audit records of all instances as JSON lines, by time.

The instance merges its own records with those of its peers. An unreachable peer is named in a ``Warning``.
With ``follow`` later records are streamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pilothouse.apiserver.audit.follow import AuditFollow, in_order
from pilothouse.apiserver.audit.peers import PATH, PeerError, PeerTrails
from pilothouse.apiserver.audit.query import AuditQuery, Resolve
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.server.messages import Answer, Request, Response, StreamingResponse
from pilothouse.apiserver.server_instances import ServerInstance
from pilothouse.base.clock import Clock
from pilothouse.meta.errors import StatusError

LINES = "application/jsonl"
PATIENCE = 20.0
"""Seconds that a peer may take for a question that has an end."""


class AuditPage:
    def __init__(self, trail: AuditTrail | None, peers: PeerTrails, resolve: Resolve, clock: Clock) -> None:
        self._trail = trail
        self._peers = peers
        self._resolve = resolve
        self._clock = clock

    async def answer(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            raise StatusError(405, "MethodNotAllowed", f"{request.method} is not supported on {PATH}")
        params = request.params()
        question = AuditQuery.parse(params, self._resolve, self._clock.now())
        peers = [] if question.local else await self._others(request)
        if self._trail is None and not peers:
            raise StatusError(
                404,
                "NotFound",
                "no audit records are kept here: the server was started without --audit-log-path",
            )
        forwarded = _forwarded(params, question)
        if question.follow:
            following = AuditFollow(self._trail, self._peers, question, forwarded, self._clock)
            return StreamingResponse(following.run, LINES)
        parts = await asyncio.gather(
            self._own(question), *(self._of(peer, forwarded, request) for peer in peers)
        )
        return Response(200, b"".join(in_order(parts, question.limit)), LINES)

    async def _others(self, request: Request) -> list[ServerInstance]:
        try:
            for peer in await self._peers.absent():
                request.warnings.append(
                    f"the records of {peer.id}, last at {peer.url}, are missing: it is not running"
                )
            return await self._peers.others()
        except PeerError as problem:
            request.warnings.append(str(problem))
            return []

    async def _own(self, question: AuditQuery) -> list[bytes]:
        return [] if self._trail is None else await self._trail.search(question)

    async def _of(self, peer: ServerInstance, forwarded: Mapping[str, str], request: Request) -> list[bytes]:
        found: list[bytes] = []
        try:
            async with asyncio.timeout(PATIENCE), self._peers.lines(peer, forwarded) as lines:
                async for line in lines:
                    found.append(line)
        except (PeerError, TimeoutError) as problem:
            why = str(problem) or f"no answer within {PATIENCE:g} seconds"
            request.warnings.append(f"the records of {peer.id} at {peer.url} are missing: {why}")
            return []
        return found


def _forwarded(params: Mapping[str, str], question: AuditQuery) -> dict[str, str]:
    """The query for a peer, with the same point in time for all."""
    return {**params, "since": question.since} if question.since else dict(params)


def resolver(catalog: KindCatalog) -> Resolve:
    """Finds resources by plural, singular, kind or short name, with or without the group."""

    def resolve(text: str) -> frozenset[tuple[str, str]]:
        name, _, group = text.lower().partition(".")
        return frozenset(
            (resource.group, resource.plural)
            for resource in catalog
            if (not group or group == resource.group)
            and any(
                name in (kind.plural, kind.singular, kind.name.lower(), *kind.short_names)
                for kind in resource.kinds
            )
        )

    return resolve
