"""What candidates and chains add to a pass over all rules.

    python -m bench.rules.candidates [--rules 100] [--volumes 10000] [--expressions 10] [--rounds 9]

Each rule is on each volume, and one volume in a hundred meets its conditions and waits, so that there are causes to look for
and no decision. The contenders take turns: rules with actions of their own; the same with a second condition on each volume;
with that condition along the chain, on the volume's device; and with three candidates, on devices, pods and volumes. CPU
seconds of one pass, by medians, and how much that is beside the first, and beside the second for the chain.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from bench.rules.volumes import FixedCache, claim, looked, record
from pilothouse.api.kind_names import (
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from pilothouse.api.objects import Object, Tree, Trees
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels
from pilothouse.rules.object_types import ruled_kinds
from pilothouse.rules.rule_queries import VOLUME_INFO
from pilothouse.rules.rule_watch import MOST_RULE_OBJECTS, RuleWatch
from pilothouse.rules.samples import Answer, Sample

_HELD: Final = 10**8
"""Seconds for which conditions have to hold, so that nothing is decided."""
_MET: Final = 100
"""One volume of so many meets the conditions."""
_NODES: Final = 100
_SNAPSHOT: Final = "example.com.action.volume/snapshot"
_TREES: Final = Trees()


class Contender:
    """Rules of one shape, and the watch that follows them."""

    def __init__(self, name: str, rules: Sequence[Object], claims: Sequence[Object]) -> None:
        self.name = name
        self._rules = rules
        self._provider = ChainAnswers(claims)
        self._watch = RuleWatch(self._provider, SystemClock())
        self.called = 0
        self.seconds: list[float] = []

    async def start(self, caches: Mapping[KindName, FixedCache]) -> asyncio.Task[None]:
        texts = {
            one["key"]
            for rule in self._rules
            for part in (rule.spec["conditions"]["expressions"], *_whens(rule))
            for one in part
        }
        await self._provider.query(sorted({*texts, VOLUME_INFO}), time.time())
        mine = {
            AutopilotRule: FixedCache(self._rules),
            AutopilotRuleObject: FixedCache(_records(self._rules, caches)),
        }
        task = asyncio.create_task(self._watch.run({**caches, **mine}, self._call))
        await looked(self._watch)
        # A verdict that has changed calls for a decision once.
        await self._watch.look_at_all()
        self.called = 0
        return task

    def _call(self, *_: object) -> None:
        self.called += 1

    async def take_turn(self) -> None:
        began = time.process_time()
        await self._watch.look_at_all()
        self.seconds.append(time.process_time() - began)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class ChainAnswers(msgspec.Struct):
    """A provider of values of volumes, of their pods and of their devices."""

    claims: Sequence[Object]
    answers: dict[str, list[Sample]] = {}

    @property
    def provider(self) -> ChainAnswers:
        return self

    @property
    def labels(self) -> JoinLabels:
        return DEFAULT_LABELS

    def get(self, name: str) -> ChainAnswers:
        return self

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        for text in expressions:
            if text not in self.answers:
                labels = next((find for what, find in _LABELS.items() if what in text), _of_claim)
                self.answers[text] = [
                    Sample(labels(number), 95.0 if number % _MET == 0 else 30.0, now)
                    for number in range(len(self.claims))
                ]
        return {text: self.answers[text] for text in expressions}


def _of_claim(number: int) -> dict[str, str]:
    one = claim(number)
    return {"namespace": one.namespace, "persistentvolumeclaim": one.name, "node": _node(number)}


def _of_pod(number: int) -> dict[str, str]:
    return {"namespace": claim(number).namespace, "pod": f"pod-{number}"}


def _of_device(number: int) -> dict[str, str]:
    return {"node": _node(number), "device": f"loop{number // _NODES}"}


def _info(number: int) -> dict[str, str]:
    return {
        **_of_claim(number),
        **_of_device(number),
        "volumename": f"pvc-{number}",
        "disk": "sda",
        "tier": "fast",
    }


_LABELS: Final = {VOLUME_INFO: _info, "pod_": _of_pod, "device_": _of_device}


def _node(number: int) -> str:
    return f"n{number % _NODES}"


def _pod(number: int) -> Object:
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": claim(number).name}}
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": claim(number).namespace, "uid": f"pod-{number}"},
        "spec": {"nodeName": _node(number), "volumes": [mounted]},
        "status": {"phase": "Running"},
    }
    return Object(Pod, msgspec.json.encode(tree), _TREES)


def _expression(key: str, above: int, on: str = "") -> Tree:
    found: Tree = {"key": key, "operator": "Gt", "values": [str(above)]}
    return {**found, "on": on} if on else found


def _rule(number: int, expressions: int, second: Sequence[Tree], candidates: Sequence[Tree]) -> Object:
    key = f"100 * used_bytes / capacity_bytes + {number % expressions}"
    first = _expression(key, 50 + number % 40)
    what: dict[str, Any] = {"candidates": list(candidates)} if candidates else {"actions": [{"name": RESIZE}]}
    tree = {
        "apiVersion": AutopilotRule.api_version,
        "kind": AutopilotRule.kind,
        "metadata": {"name": f"rule-{number}", "uid": f"rule-{number}", "generation": 1},
        "spec": {
            "object": "volume",
            "conditions": {"expressions": [first, *second], "for": _HELD},
            "pollInterval": 10**9,
            **what,
        },
    }
    return Object.of(tree)


_CANDIDATES: Final = (
    {
        "name": "disk-busy",
        "when": [_expression("device_busy", 96, "device")],
        "actions": [{"name": _SNAPSHOT}],
    },
    {"name": "pod-hungry", "when": [_expression("pod_hungry", 96, "pod")], "actions": [{"name": _SNAPSHOT}]},
    {"name": "full", "when": [_expression("inodes", 10)], "actions": [{"name": RESIZE}]},
)
SHAPES: Final[Mapping[str, tuple[Sequence[Tree], Sequence[Tree]]]] = {
    "plain": ((), ()),
    "candidates": ((), _CANDIDATES),
    "two conditions": ((_expression("volume_busy", 50),), ()),
    "a chain to devices": ((_expression("device_busy", 50, "device"),), ()),
}


def _whens(rule: Object) -> list[list[Tree]]:
    return [list(one["when"]) for one in rule.spec.get("candidates") or ()]


def _records(rules: Sequence[Object], caches: Mapping[KindName, FixedCache]) -> list[Object]:
    """Those that are met are Triggered; of the others as many as are kept."""
    claims = list(caches[PersistentVolumeClaim].list())
    until = format_time(time.time() + _HELD)
    found = [record(rule, one, state="Triggered", until=until) for rule in rules for one in claims[::_MET]]
    normal = (record(rule, one) for rule in rules for number, one in enumerate(claims) if number % _MET)
    found.extend(one for one, _ in zip(normal, range(MOST_RULE_OBJECTS - len(found)), strict=False))
    return found


async def measure(rules: int, volumes: int, expressions: int, rounds: int) -> list[Contender]:
    claims = [claim(number) for number in range(volumes)]
    caches: dict[KindName, FixedCache] = {
        **{kind: FixedCache(()) for kind in ruled_kinds()},
        PersistentVolumeClaim: FixedCache(claims),
        Pod: FixedCache([_pod(number) for number in range(volumes)]),
        Namespace: FixedCache(()),
        PersistentVolume: FixedCache(()),
    }
    contenders = [
        Contender(name, [_rule(number, expressions, second, candidates) for number in range(rules)], claims)
        for name, (second, candidates) in SHAPES.items()
    ]
    running = [await one.start(caches) for one in contenders]
    for _ in range(rounds):
        for one in contenders:
            await one.take_turn()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return contenders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rules", type=int, default=100)
    parser.add_argument("--volumes", type=int, default=10_000)
    parser.add_argument("--expressions", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    found = asyncio.run(measure(chosen.rules, chosen.volumes, chosen.expressions, chosen.rounds))
    beside = {"candidates": found[0], "two conditions": found[0], "a chain to devices": found[2]}
    for one in found:
        other = beside.get(one.name)
        ratio = f"{one.median / other.median:6.2f} x {other.name}" if other is not None else ""
        print(f"{one.name:>20} {one.median:8.3f} CPU s {one.called:6} decisions {ratio}", flush=True)


if __name__ == "__main__":
    main()
