"""Events: builds them, counts repetitions, and limits their rate.

    correlator = EventCorrelator(component="pilothouse-controller-manager", host="m1")
    correlator.correlate(about, "SuccessfulCreate", "created pod web-0", now=clock.now())  # or None

An event's name is derived from its object, reason and message, so that a repetition, also by another process,
increases the count of the existing event. Each object has a token bucket for each reason, so that endless
events of one object do not drown others, and repeated waits do not suppress events about what was done.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from pilothouse.api.kind_names import CoreEvent
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time

BURST = 25.0
REFILL = 1 / 300
"""The size of a token bucket, and the tokens that it gains per second."""
_REMEMBERED = 4096
_LONGEST_MESSAGE = 1024


class EventWrite(msgspec.Struct, frozen=True):
    """An event to write: created, or its count increased."""

    tree: Tree
    count: int


class EventSource(msgspec.Struct, frozen=True):
    """Who records an event, and what it is about besides its object."""

    component: str = ""
    """In place of the manager's name."""
    scope: str = ""
    """Events of one object and reason are limited by scope: what a rule does to one of its objects leaves
    room for what it does to others."""


MANAGER: Final = EventSource()


class _Bucket(msgspec.Struct):
    level: float
    at: float


class EventCorrelator:
    """Decides which events to write; remembers the last few thousand."""

    def __init__(self, *, component: str, host: str) -> None:
        self._component = component
        self._host = host
        self._counts: OrderedDict[tuple[str, str], tuple[int, str]] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str], _Bucket] = OrderedDict()
        self.dropped = 0
        """Events that were dropped by the rate limit."""

    def correlate(
        self,
        about: Object,
        reason: str,
        message: str,
        *,
        now: float,
        warning: bool = False,
        source: EventSource = MANAGER,
    ) -> EventWrite | None:
        component = source.component or self._component
        if not self._may(about, reason, source.scope, now):
            self.dropped += 1
            return None
        message = message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
        moment = format_time(now)
        name = f"{about.name}.{_digest(component, about.uid, reason, message)}"
        namespace = about.namespace or "default"
        count, first = self._counts.pop((namespace, name), (0, moment))
        self._counts[namespace, name] = (count + 1, first)
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        tree: Tree = {
            "apiVersion": CoreEvent.api_version,
            "kind": CoreEvent.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "uid": about.uid,
                "resourceVersion": about.resource_version,
                **({"namespace": about.namespace} if about.namespace else {}),
            },
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": component, "host": self._host},
            "reportingComponent": component,
            "reportingInstance": self._host,
            "firstTimestamp": first,
            "lastTimestamp": moment,
            "count": count + 1,
        }
        return EventWrite(tree, count + 1)

    def _may(self, about: Object, reason: str, scope: str, now: float) -> bool:
        key = (about.uid or f"{about.namespace}/{about.name}", reason, scope)
        bucket = self._buckets.pop(key, None) or _Bucket(BURST, now)
        bucket.level = min(BURST, bucket.level + max(0.0, now - bucket.at) * REFILL)
        bucket.at = now
        self._buckets[key] = bucket
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        if bucket.level < 1:
            return False
        bucket.level -= 1
        return True


def _digest(*parts: str) -> str:
    return hashlib.blake2s("\0".join(parts).encode(), digest_size=8).hexdigest()
