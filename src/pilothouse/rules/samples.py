"""Samples of metrics, as a provider returns them.

Sample({"volumename": "pvc-1"}, 51.5, 1730000000.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class Sample(msgspec.Struct, frozen=True):
    """The value of a series at a time. ``labels`` has no ``__name__`` where PromQL drops it."""

    labels: Mapping[str, str]
    value: float
    time: float
    """When it was measured, in seconds since the epoch: of the raw sample, where that is known."""


class QueryFailure(msgspec.Struct, frozen=True):
    """Why an expression has no answer; nothing follows from it about any object."""

    reason: str
    """In one word: ProviderUnavailable, QueryRefused, NotSupported, TooManySamples, UnhealthyTargets."""
    message: str


Answer = Sequence[Sample] | QueryFailure


class MetricsProvider(Protocol):
    """Evaluates expressions at the present time."""

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        """An answer to each expression. Bounded in time and memory; raises nothing but ``CancelledError``."""
