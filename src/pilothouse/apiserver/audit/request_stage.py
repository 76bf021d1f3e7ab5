"""What is noted of a request while it is answered: references only, so that noting costs next to nothing."""

from __future__ import annotations

import msgspec

from pilothouse.apiserver.server.messages import Request, Response

GONE = 499
"""The status of a request whose client went away before there was an answer."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A request as it came in."""

    audit_id: str
    target: str
    """Path and query as they stood in the request line."""
    received: float


class RequestStage(msgspec.Struct, frozen=True, gc=False):
    arrival: Arrival
    request: Request
    stage: str
    moment: float
    status: int
    size: int = 0
    """Bytes that are kept alive by keeping this."""
    answer: Response | None = None
    """The whole answer, where its body is needed: refusals, writes, and where the policy wants bodies."""
