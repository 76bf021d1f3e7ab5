"""One pass of the watch of rules over objects that do not change, without a server.

pass_ = await watched([rule], claims, usage)        # usage(claim) is the value of every expression
pass_.findings(rule), pass_.named
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import (
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
)
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels
from pilothouse.rules.object_types import ruled_kinds
from pilothouse.rules.readings import RuleFindings
from pilothouse.rules.rule_watch import RuleWatch
from pilothouse.rules.samples import Answer, Sample
from pilothouse.runtime.snapshot import StaticView


class FixedCache(StaticView):
    """Objects that do not change."""

    def subscribe(self, changed: Callable[[Object | None, Object | None], None]) -> Callable[[], None]:
        return lambda: None


class ValueOfEachClaim(msgspec.Struct):
    """A provider that has the same value of a claim for every expression."""

    claims: Sequence[Object]
    value: Callable[[Object], float]
    labels: JoinLabels = DEFAULT_LABELS

    @property
    def provider(self) -> ValueOfEachClaim:
        return self

    def get(self, name: str) -> ValueOfEachClaim:
        return self

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        samples = [
            Sample({"namespace": one.namespace, "persistentvolumeclaim": one.name}, self.value(one), now)
            for one in self.claims
        ]
        return dict.fromkeys(expressions, samples)


class WatchedPass(msgspec.Struct):
    watch: RuleWatch
    named: set[str]
    """The claims that call for a decision."""

    def findings(self, rule: Object) -> RuleFindings:
        found = self.watch.readings.findings(rule)
        assert found is not None
        return found


def bound_claim(name: str) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "db", "uid": f"uid-{name}"},
            "spec": {"volumeName": f"pv-{name}", "resources": {"requests": {"storage": "8Gi"}}},
            "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
        }
    )


async def watched(
    rules: Sequence[Object], claims: Sequence[Object], value: Callable[[Object], float]
) -> WatchedPass:
    """The watch after its first pass."""
    kinds = (*ruled_kinds(), AutopilotRuleObject, Namespace, PersistentVolume)
    caches = {kind: FixedCache(()) for kind in kinds}
    caches |= {PersistentVolumeClaim: FixedCache(claims), AutopilotRule: FixedCache(rules)}
    named: set[str] = set()

    def enqueue(noun: KindName, namespace: str, name: str) -> None:
        if noun == PersistentVolumeClaim:
            named.add(name)

    watch = RuleWatch(ValueOfEachClaim(claims, value), SystemClock())

    async def idle() -> bool:
        return watch.idle

    running = asyncio.create_task(watch.run(caches, enqueue))
    await eventually(idle)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return WatchedPass(watch, named)
