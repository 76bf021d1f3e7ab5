"""Requests as the trail sees them, and trails to see them with."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pilothouse.apiserver.audit.audit_policy import COMPLETE, DEFAULT, AuditLevel, AuditPolicy, AuditRule
from pilothouse.apiserver.audit.log_file import LogFile, Rotation
from pilothouse.apiserver.audit.records import AuditRecorder
from pilothouse.apiserver.audit.request_stage import Arrival, RequestStage
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.server.messages import Request, Response, User
from pilothouse.base.clock import Clock, SystemClock

ALICE = User("alice", "u-alice", ("dev", "system:authenticated"))
EVERYTHING = AuditPolicy((AuditRule(level=AuditLevel.REQUEST_RESPONSE),))
T0 = 1_700_000_000.0


def asked(
    method: str = "GET",
    target: str = "/api/v1/namespaces/t/pods/web-0",
    *,
    body: bytes = b"",
    user: User = ALICE,
    headers: dict[str, str] | None = None,
) -> Request:
    path, _, query = target.partition("?")
    return Request(
        method, path, query=query, headers=headers or {}, body=body, user=user, peer="10.0.0.9:40000"
    )


def sight(
    request: Request,
    answer: Response | None = None,
    *,
    status: int = 200,
    stage: str = COMPLETE,
    received: float = T0,
    moment: float = T0 + 0.25,
) -> RequestStage:
    target = f"{request.path}?{request.query}" if request.query else request.path
    code = answer.status if answer is not None else status
    return RequestStage(Arrival("id-1", target, received), request, stage, moment, code, answer=answer)


def record(policy: AuditPolicy, seen: RequestStage) -> dict[str, Any]:
    """The record of a sight that the policy wants recorded."""
    line = AuditRecorder(policy, "host-1").line(seen)
    assert line is not None
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    decoded: dict[str, Any] = json.loads(line)
    return decoded


def see(
    trail: AuditTrail, name: str = "web-0", *, status: int = 200, method: str = "GET", user: User = ALICE
) -> None:
    """One request, seen by the trail."""
    request = asked(method, f"/api/v1/namespaces/t/pods/{name}", user=user)
    trail.record(Arrival(f"id-{name}", request.path, trail.now()), request, status)


@asynccontextmanager
async def trail_at(
    path: Path,
    *,
    policy: AuditPolicy = DEFAULT,
    rotation: Rotation | None = None,
    clock: Clock | None = None,
    **limits: Any,
) -> AsyncIterator[AuditTrail]:
    """A running trail that writes there."""
    trail = AuditTrail(
        LogFile(path, rotation or Rotation()),
        AuditRecorder(policy, "host-1"),
        clock or SystemClock(),
        **limits,
    )
    async with trail.running():
        yield trail


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
