"""What it costs to follow rules while nothing calls for a decision.

    python -m bench.rules [--rules 100] [--volumes 10000] [--expressions 10]

Each rule is on each volume. The watch polls a provider whose answers are at hand, joins them to the claims, compares them, and
names no object: no decision, and so no write. CPU seconds of one pass, the memory that the watch adds to a manager that follows the
same claims, and both for ten times the volumes and for ten times the rules. Then what it costs to look along the chain: the same
rules with candidates about devices, while one volume in a hundred meets the conditions.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pilothouse.api.kind_names import (
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
)
from pilothouse.api.objects import Object, Trees
from pilothouse.base.clock import SystemClock
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels
from pilothouse.rules.object_types import ruled_kinds
from pilothouse.rules.rule_object_status import new_rule_object
from pilothouse.rules.rule_queries import VOLUME_INFO
from pilothouse.rules.rule_watch import MOST_RULE_OBJECTS, RuleWatch
from pilothouse.rules.samples import Answer, Sample
from pilothouse.runtime.snapshot import StaticView

_PASSES = 3
_SPACES = 100
_NODES = 100
_FULL = 100
_BUSY = "busy"
_TREES = Trees()
"""As in a manager, which keeps few objects decoded."""


class PassCost(NamedTuple):
    rules: int
    volumes: int
    seconds: float
    """CPU of one pass."""
    megabytes: float
    """That the watch adds."""
    decisions: int
    """Objects that a pass called for; without a transition there is none."""


class FixedCache(StaticView):
    """Objects that do not change."""

    def subscribe(self, changed: Callable[[Object | None, Object | None], None]) -> Callable[[], None]:
        return lambda: None


class ReadyAnswers(msgspec.Struct):
    """A provider whose volumes are all a third full, but one in ``full``."""

    claims: Sequence[Object]
    full: int = 0
    answers: dict[str, list[Sample]] = {}
    queries: int = 0

    @property
    def provider(self) -> ReadyAnswers:
        return self

    @property
    def labels(self) -> JoinLabels:
        return DEFAULT_LABELS

    def get(self, name: str) -> ReadyAnswers:
        return self

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        self.queries += 1
        for text in expressions:
            if text not in self.answers:
                self.answers[text] = self._made(text, now)
        return {text: self.answers[text] for text in expressions}

    def _made(self, text: str, now: float) -> list[Sample]:
        if text == VOLUME_INFO:
            return [Sample(_info(number, one), 1.0, now) for number, one in enumerate(self.claims)]
        if text.startswith(_BUSY):
            return [Sample({"node": f"n{number}", "device": "sda"}, 0.1, now) for number in range(_NODES)]
        return [
            Sample(_labels(one), 99.0 if self.full and number % self.full == 0 else 30.0, now)
            for number, one in enumerate(self.claims)
        ]


def _info(number: int, claim: Object) -> dict[str, str]:
    devices = {
        "node": f"n{number % _NODES}",
        "device": f"loop{number // _NODES}",
        "disk": "sda",
        "tier": "fast",
    }
    return {**_labels(claim), "volumename": str(claim.spec["volumeName"]), **devices}


def _labels(claim: Object) -> dict[str, str]:
    return {"namespace": claim.namespace, "persistentvolumeclaim": claim.name, "node": "n1"}


def _claim(number: int) -> Object:
    tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-{number}",
            "namespace": f"ns-{number % _SPACES}",
            "uid": f"claim-{number}",
        },
        "spec": {"volumeName": f"pvc-{number}", "resources": {"requests": {"storage": "8Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
    }
    return Object(PersistentVolumeClaim, msgspec.json.encode(tree), _TREES)


def _rule(number: int, expressions: int, candidates: int = 0) -> Object:
    key = f"100 * used_bytes / capacity_bytes + {number % expressions}"
    spec: dict[str, Any] = {
        "object": "volume",
        "conditions": {"expressions": [{"key": key, "operator": "Gt", "values": [str(50 + number % 40)]}]},
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
        "pollInterval": 10**9,
    }
    if candidates:
        del spec["actions"]
        spec["candidates"] = [
            {
                "name": f"cause-{cause}",
                "when": [{"key": f"{_BUSY} + {cause}", "operator": "Gt", "values": ["0.9"], "on": "device"}],
                "actions": [{"name": "openstorage.io.action.volume/resize"}],
            }
            for cause in range(candidates)
        ]
    metadata = {"name": f"rule-{number}", "uid": f"rule-{number}", "generation": 1}
    return Object.of(
        {"apiVersion": AutopilotRule.api_version, "kind": "AutopilotRule", "metadata": metadata, "spec": spec}
    )


def _record(rule: Object, claim: Object, state: str) -> Object:
    tree: dict[str, Any] = new_rule_object(rule, claim)
    tree["status"] = {"state": state, "object": {"kind": claim.kind, "name": claim.name, "uid": claim.uid}}
    return Object(AutopilotRuleObject, msgspec.json.encode(tree), _TREES)


def _resident() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def measure(
    rules: int, volumes: int, expressions: int, *, full: int = 0, candidates: int = 0
) -> PassCost:
    claims = [_claim(number) for number in range(volumes)]
    present = [_rule(number, expressions, candidates) for number in range(rules)]
    # What is met calls for no decision during the cool-down.
    met = claims[::full] if full else []
    rest = [one for number, one in enumerate(claims) if not full or number % full]
    records = [
        *_records(present, met, MOST_RULE_OBJECTS, "ActiveActionsTaken"),
        *_records(present, rest, MOST_RULE_OBJECTS - rules * len(met)),
    ]
    spaces = [Object.of({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"ns-{number}"}})
              for number in range(_SPACES)]  # fmt: skip
    caches: dict[KindName, FixedCache] = {
        **{kind: FixedCache(()) for kind in ruled_kinds()},
        PersistentVolumeClaim: FixedCache(claims),
        AutopilotRule: FixedCache(present),
        AutopilotRuleObject: FixedCache(records),
        Namespace: FixedCache(spaces),
        PersistentVolume: FixedCache(()),
    }
    provider = ReadyAnswers(claims, full)
    await provider.query([one.spec["conditions"]["expressions"][0]["key"] for one in present], time.time())
    gc.collect()
    before = _resident()
    called: list[tuple[KindName, str, str]] = []
    watch = RuleWatch(provider, SystemClock())
    running = asyncio.create_task(watch.run(caches, lambda *key: called.append(key)))
    await _looked(watch)
    added = _resident() - before
    called.clear()
    asked, began = provider.queries, time.process_time()
    for _ in range(_PASSES):
        await watch.look_at_all()
    seconds = (time.process_time() - began) / _PASSES
    each = 2 if candidates else 1
    assert provider.queries - asked == each * _PASSES, "one query a pass, for all rules"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return PassCost(rules, volumes, seconds, added, len(called))


async def _looked(watch: RuleWatch) -> None:
    """Wait for the first pass."""
    while True:
        await asyncio.sleep(0.01)
        if watch.idle:
            return


def _records(
    rules: Iterable[Object], claims: Sequence[Object], most: int, state: str = "Normal"
) -> list[Object]:
    """AutopilotRuleObjects of these claims, as many as are kept."""
    each = (_record(rule, claim, state) for rule in rules for claim in claims)
    return list(islice(each, most))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rules", type=int, default=100)
    parser.add_argument("--volumes", type=int, default=10_000)
    parser.add_argument("--expressions", type=int, default=10)
    chosen = parser.parse_args()
    print(f"{'rules':>6} {'volumes':>8} {'CPU s a pass':>13} {'MB more':>8} {'decisions':>10}")
    for rules, volumes in (
        (chosen.rules, chosen.volumes),
        (chosen.rules, chosen.volumes * 10),
        (chosen.rules * 10, chosen.volumes),
    ):
        cost = asyncio.run(measure(rules, volumes, chosen.expressions))
        line = f"{cost.rules:>6} {cost.volumes:>8} {cost.seconds:>13.3f} {cost.megabytes:>8.0f}"
        print(f"{line} {cost.decisions:>10}", flush=True)
    plain, with_causes = (
        asyncio.run(
            measure(chosen.rules, chosen.volumes, chosen.expressions, full=_FULL, candidates=candidates)
        ).seconds
        for candidates in (0, 2)
    )
    print(f"one volume in {_FULL} meets the conditions: {plain:.3f} s a pass, {with_causes:.3f} s with two")
    print(f"candidates about its device: {100 * (with_causes / plain - 1):.0f} % more")


if __name__ == "__main__":
    main()
