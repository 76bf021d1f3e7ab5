"""Retries requests, where that is safe, until their deadline.

    retrying = RetryingTransport(transport, random.Random())
    answer = await retrying.send(ClientRequest("GET", "/version"), idempotent=True, deadline=30.0)

* 429 or 503 with ``Retry-After``: not carried out, so retried after that time. Except evictions that a
  disruption budget forbids.
* Not sent: retried, unless ``wait_for_server`` is False: a command at a terminal fails at once.
* Cut off, or a plain 503: retried only if idempotent, else ``OutcomeUnknown``: read before you write again.

A wait that would pass the deadline is not started. Writes under leadership also end with its term, which is
checked before each attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random

from pilothouse.client.fence import always
from pilothouse.client.status_errors import error_of
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    Interrupted,
    NotSent,
    Transport,
    TransportError,
)
from pilothouse.meta.errors import StatusError

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the first further attempt; each pause is twice the one before, half of it by chance."""
_REMEMBERED = 256

log = logging.getLogger(__name__)


class OutcomeUnknown(TransportError):
    """A write may have been carried out or not. Read before writing again."""


class DeadlineExceeded(TransportError):
    """No answer in time."""


class RetryingTransport:
    """Sends requests until they are answered for good."""

    def __init__(self, transport: Transport, rng: Random, *, wait_for_server: bool = True) -> None:
        self._transport = transport
        self._rng = rng
        self._wait_for_server = wait_for_server
        self._warned: dict[str, None] = {}

    async def send(
        self, call: ClientRequest, *, idempotent: bool, deadline: float, left: Callable[[], float] = always
    ) -> ClientResponse:
        """A successful response. Raises ``StatusError`` for any other, ``TransportError`` without one.

        ``left`` returns for how many seconds requests may still be sent.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        attempt = 0
        while True:
            lasting = left()
            if lasting <= 0:
                raise NotSent(f"{call.method} {call.path} is not sent: this process no longer leads")
            end = min(began + deadline, loop.time() + lasting)
            try:
                async with asyncio.timeout_at(end):
                    answer = await self._transport.request(call)
            except TimeoutError:
                what = f"{call.method} {call.path} was not answered in {end - began:.3g} s"
                if not idempotent:
                    raise OutcomeUnknown(f"{what}; it may have been carried out") from None
                raise DeadlineExceeded(what) from None
            except Interrupted as broken:
                if not idempotent:
                    raise OutcomeUnknown(
                        f"{call.method} {call.path} may have been carried out: {broken}"
                    ) from broken
                problem: Exception = broken
                pause = self._pause(attempt)
            except NotSent as unsent:
                problem, pause = unsent, self._pause(attempt) if self._wait_for_server else -1
            else:
                self._log_warnings(answer)
                if answer.status < 300:
                    return answer
                refusal = error_of(answer.status, answer.body, retry_after=answer.headers.get("Retry-After"))
                problem = refusal
                pause = self._pause_after(refusal, attempt, idempotent)
            if pause < 0 or loop.time() + pause >= end:
                raise problem
            await asyncio.sleep(pause)
            attempt += 1

    def _pause(self, attempt: int) -> float:
        longest: float = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
        return longest * self._rng.uniform(0.5, 1.0)

    def _pause_after(self, refusal: StatusError, attempt: int, idempotent: bool) -> float:
        """Seconds before the next attempt; negative for none."""
        if refusal.code not in (429, 503) or any(c.reason == "DisruptionBudget" for c in refusal.causes):
            return -1
        if refusal.retry_after:
            return max(float(refusal.retry_after), self._pause(attempt))
        return self._pause(attempt) if idempotent else -1

    def _log_warnings(self, answer: ClientResponse) -> None:
        """Log each warning once."""
        for text in answer.warnings:
            if text not in self._warned:
                while len(self._warned) >= _REMEMBERED:
                    del self._warned[next(iter(self._warned))]
                self._warned[text] = None
                log.warning("the API server warns: %s", text)
