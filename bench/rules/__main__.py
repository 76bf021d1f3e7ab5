"""What it costs to follow rules while nothing calls for a decision.

    python -m bench.rules [--rules 100] [--volumes 10000] [--expressions 10]

Each rule is on each volume. The watch polls a provider whose answers are at hand, joins them to the claims, compares them, and
names no object: no decision, and so no write. CPU seconds of one pass, the memory that the watch adds to a manager that follows the
same claims, and both for ten times the volumes and for ten times the rules.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.rules.volumes import SPACES, FixedCache, ReadyAnswers, claim, looked, record
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
from pilothouse.rules.object_types import ruled_kinds
from pilothouse.rules.rule_watch import MOST_RULE_OBJECTS, RuleWatch

_PASSES = 3


class PassCost(NamedTuple):
    rules: int
    volumes: int
    seconds: float
    """CPU of one pass."""
    megabytes: float
    """That the watch adds."""
    decisions: int
    """Objects that a pass called for; without a transition there is none."""


def _rule(number: int, expressions: int) -> Object:
    key = f"100 * used_bytes / capacity_bytes + {number % expressions}"
    spec = {
        "conditions": {"expressions": [{"key": key, "operator": "Gt", "values": [str(50 + number % 40)]}]},
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
        "pollInterval": 10**9,
    }
    metadata = {"name": f"rule-{number}", "uid": f"rule-{number}", "generation": 1}
    return Object.of(
        {"apiVersion": AutopilotRule.api_version, "kind": "AutopilotRule", "metadata": metadata, "spec": spec}
    )


def _resident() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def measure(rules: int, volumes: int, expressions: int) -> PassCost:
    claims = [claim(number) for number in range(volumes)]
    present = [_rule(number, expressions) for number in range(rules)]
    records = _records(present, claims)
    spaces = [Object.of({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"ns-{number}"}})
              for number in range(SPACES)]  # fmt: skip
    caches: dict[KindName, FixedCache] = {
        **{kind: FixedCache(()) for kind in ruled_kinds()},
        PersistentVolumeClaim: FixedCache(claims),
        AutopilotRule: FixedCache(present),
        AutopilotRuleObject: FixedCache(records),
        Namespace: FixedCache(spaces),
        PersistentVolume: FixedCache(()),
    }
    provider = ReadyAnswers(claims)
    await provider.query([one.spec["conditions"]["expressions"][0]["key"] for one in present], time.time())
    gc.collect()
    before = _resident()
    called: list[tuple[KindName, str, str]] = []
    watch = RuleWatch(provider, SystemClock())
    running = asyncio.create_task(watch.run(caches, lambda *key: called.append(key)))
    await looked(watch)
    added = _resident() - before
    called.clear()
    asked, began = provider.queries, time.process_time()
    for _ in range(_PASSES):
        await watch.look_at_all()
    seconds = (time.process_time() - began) / _PASSES
    assert provider.queries - asked == _PASSES, "one query a pass, for all rules"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return PassCost(rules, volumes, seconds, added, len(called))


def _records(rules: Iterable[Object], claims: Sequence[Object]) -> list[Object]:
    """As many AutopilotRuleObjects as are kept."""
    found: list[Object] = []
    for rule in rules:
        for one in claims:
            if len(found) == MOST_RULE_OBJECTS:
                return found
            found.append(record(rule, one))
    return found


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


if __name__ == "__main__":
    main()
