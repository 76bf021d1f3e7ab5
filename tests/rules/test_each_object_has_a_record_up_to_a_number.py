"""AutopilotRuleObjects: each object has one from the first look on, up to 20,000; above it those that are not Normal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule
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
from pilothouse.rules import rule_watch
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels
from pilothouse.rules.object_types import ruled_kinds
from pilothouse.rules.rule_watch import MOST_RULE_OBJECTS, RuleWatch
from pilothouse.rules.samples import Answer, Sample
from pilothouse.runtime.snapshot import StaticView

MANY = 20_050
MET = 30
"""So many of the last ones are above the threshold."""


class FixedCache(StaticView):
    """Objects that do not change."""

    def subscribe(self, changed: Callable[[Object | None, Object | None], None]) -> Callable[[], None]:
        return lambda: None


class NearlyAllEmpty(msgspec.Struct):
    """A provider by which the last volumes are full."""

    claims: Sequence[Object]
    labels: JoinLabels = DEFAULT_LABELS

    @property
    def provider(self) -> NearlyAllEmpty:
        return self

    def get(self, name: str) -> NearlyAllEmpty:
        return self

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        samples = [
            Sample(
                {"namespace": "db", "persistentvolumeclaim": one.name},
                90.0 if number >= MANY - MET else 10.0,
                now,
            )
            for number, one in enumerate(self.claims)
        ]
        return dict.fromkeys(expressions, samples)


def bound(number: int) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"c{number}", "namespace": "db", "uid": f"u{number}"},
            "spec": {"volumeName": f"pv{number}", "resources": {"requests": {"storage": "8Gi"}}},
            "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
        }
    )


async def looked_at(claims: Sequence[Object], grow: Object) -> tuple[RuleWatch, set[str]]:
    """A watch after its first pass, and the names of the claims that it named."""
    caches = {
        kind: FixedCache(()) for kind in (*ruled_kinds(), AutopilotRuleObject, Namespace, PersistentVolume)
    }
    caches |= {PersistentVolumeClaim: FixedCache(claims), AutopilotRule: FixedCache((grow,))}
    called: set[str] = set()

    def enqueue(noun: KindName, namespace: str, name: str) -> None:
        if noun == PersistentVolumeClaim:
            called.add(name)

    watch = RuleWatch(NearlyAllEmpty(claims), SystemClock())
    running = asyncio.create_task(watch.run(caches, enqueue))
    await eventually(lambda: _is_idle(watch))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return watch, called


async def _is_idle(watch: RuleWatch) -> bool:
    return watch.idle


async def test_above_twenty_thousand_those_that_are_met_come_first() -> None:
    tree = rule("grow", "usage", "Gt", 50)
    tree["metadata"] |= {"uid": "rule-1", "generation": 1}
    tree["spec"]["selector"] = None
    grow = Object.of(tree)
    claims = [bound(number) for number in range(MANY)]
    watch, called = await looked_at(claims, grow)
    assert MOST_RULE_OBJECTS == 20_000
    assert len(called) == MOST_RULE_OBJECTS
    assert {f"c{number}" for number in range(MANY - MET, MANY)} <= called
    findings = watch.readings.findings(grow)
    assert findings is not None
    assert (findings.objects, findings.without_object) == (MANY, MANY - MOST_RULE_OBJECTS)


def test_the_rule_says_so_and_what_is_met_acts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_watch, "MOST_RULE_OBJECTS", 4)
    names = [f"v{number}" for number in range(8)]
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50))
        fleet.create(*(claim(name, "8Gi", case="grow") for name in names))
        fleet.wait(60)
        recorded = {one.partition("/")[2] for one in fleet.objects()}
        assert len(recorded) == 4
        assert fleet.ready("grow")[0] == "True"
        assert (
            "too many AutopilotRuleObjects to keep one of each object that is Normal"
            in fleet.ready("grow")[1]
        )

        left_out = sorted(set(names) - recorded)
        fleet.fill(**dict.fromkeys(left_out, 5))
        fleet.wait(300)
        assert [fleet.sizes(name) for name in left_out] == [["12Gi"]] * 4
        fleet.wait(600)
        assert len(fleet.objects()) <= 4, "those that are Normal again give way"
