"""Limits of body size and request duration. (``flowcontrol`` limits how many run at once.)

    deadlines.arm(connection, 60.0)              # connection.expire() is called unless disarmed before

A timer per request would be expensive; one table is scanned every ``STEP`` instead while it is not empty.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from urllib.parse import parse_qs

import msgspec

from pilothouse.base.duration import DurationError, parse_duration
from pilothouse.meta.errors import bad_request

MAX_BODY = 3 * 1024 * 1024
READ_SECONDS = 60.0
MUTATION_SECONDS = 34.0
STEP = 0.25


class ClientTimeouts(msgspec.Struct, frozen=True):
    """Seconds that a client may take."""

    idle: float = 200.0
    """Between two requests. Longer than clients keep connections, so that they close first."""
    head: float = 30.0
    """For the head of a request, from its first byte to its last."""
    taking: float = 30.0
    """For each megabyte of a response, for any progress of a stream, or for the rest of an unwanted body."""


def allowance(query: str, mutating: bool) -> float:
    """The seconds that a request may take: ``?timeout=`` up to the server's limit. Not for watches, as in
    Kubernetes."""
    most = MUTATION_SECONDS if mutating else READ_SECONDS
    if "timeout=" not in query:
        return most
    params = parse_qs(query)
    if params.get("watch", [""])[0].lower() in ("1", "true"):
        return most
    timeout = params.get("timeout", ["0s"])[0]
    try:
        seconds = parse_duration(timeout)
    except DurationError as problem:
        raise bad_request(f"invalid timeout specified in the request URL - {problem}") from None
    if seconds < 0:
        raise bad_request(f"invalid timeout specified in the request URL - {timeout!r} is negative")
    return min(seconds, most) if seconds else most


class DeadlineTarget(Protocol):
    def expire(self) -> None:
        """The time is up. Must not raise."""


class Deadlines:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[DeadlineTarget, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, who: DeadlineTarget, seconds: float) -> None:
        """Call ``who.expire()`` in so many seconds; replaces an earlier deadline."""
        self._due[who] = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_later(STEP, self._look)

    def disarm(self, who: DeadlineTarget) -> None:
        self._due.pop(who, None)

    def close(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for who in [who for who, due in self._due.items() if due <= now]:
            del self._due[who]
            who.expire()
        if self._due and self._timer is None:
            self._timer = self._loop.call_later(STEP, self._look)
