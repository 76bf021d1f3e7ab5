"""The targets of storagepool/expand and storagepool/rebalance: sizes, and a trial of the moves."""

from __future__ import annotations

import pytest
from tests.kit.rule_lookup import Lookup

from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import EXPAND_POOL, REBALANCE_POOL
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import (
    ActionTarget,
    NoObjects,
    TargetDeclined,
    TargetNotReady,
    TargetResult,
)
from pilothouse.rules.targets.pool_balance import BalanceRange, MovableVolume, PoolLoad, balanced
from pilothouse.rules.targets.pool_capacity import expanded
from pilothouse.rules.targets.target_table import target_of

GIB = 1024**3
LOOP = "pilothouse.io/loop"


def until(pool: float, disks: int, stop: str, data: float = 0, **params: str) -> float:
    """The size that expansions come to, while the total is below a limit or less than half is free."""
    size, count, disk = int(pool * GIB), disks, int(pool * GIB) // disks
    used = (data + (3 if pool < 32 else pool / 10)) * GIB
    for _ in range(10):
        total, free = size / GIB, 100 * (size - used) / size
        if (float(stop) if stop != "half" else 0) <= total and not (stop == "half" and free < 50):
            break
        size = expanded(size, count, params)
        if params["scaletype"].startswith("add"):
            count = size // disk
    return size / GIB


@pytest.mark.parametrize(
    ("pool", "disks", "stop", "data", "params", "result"),
    [
        # px-T11: the table; px-D5 and px-D6 as far as they are arithmetic.
        (10, 1, "11", 0, {"scalepercentage": "50", "scaletype": "add-disk"}, 20),
        (10, 1, "11", 0, {"scalepercentage": "300", "scaletype": "add-disk"}, 40),
        (20, 2, "21", 0, {"scalepercentage": "10", "scaletype": "add-disk"}, 30),
        (10, 1, "11", 0, {"scalepercentage": "10", "scaletype": "resize-disk"}, 11),
        (10, 1, "11", 0, {"scalepercentage": "300", "scaletype": "resize-disk"}, 40),
        (10, 1, "41", 0, {"scalesize": "10Gi", "scaletype": "add-disk"}, 50),
        (30, 3, "31", 0, {"scalesize": "1Gi", "scaletype": "resize-disk"}, 33),
        (640, 5, "650", 0, {"scalesize": "23Gi", "scaletype": "resize-disk"}, 755),
        (10, 1, "11", 0, {"scalesize": "5Gi", "scaletype": "add-disk"}, 20),
        (10, 1, "11", 0, {"scalesize": "25Gi", "scaletype": "add-disk"}, 40),
        (10, 1, "11", 0, {"scalesize": "5Gi", "scaletype": "resize-disk"}, 15),
        (10, 1, "11", 0, {"scalesize": "25Gi", "scaletype": "resize-disk"}, 35),
        (10, 1, "half", 6, {"scalepercentage": "10", "scaletype": "add-disk"}, 20),
        (10, 1, "half", 6, {"scalepercentage": "50", "scaletype": "resize-disk"}, 22.5),
        (10, 1, "half", 6, {"scalepercentage": "100", "scaletype": "resize-disk"}, 20),
        (10, 1, "half", 16, {"scalepercentage": "50", "scaletype": "add-disk"}, 50),
        (10, 1, "half", 16, {"scalepercentage": "50", "scaletype": "resize-disk"}, 50.625),
        (10, 1, "half", 16, {"scalepercentage": "100", "scaletype": "resize-disk"}, 40),
        (250, 1, "251", 0, {"scalepercentage": "50", "scaletype": "add-disk"}, 500),
        (100, 1, "400", 0, {"scalepercentage": "100", "scaletype": "add-disk"}, 400),
    ],
)
def test_arithmetic(
    pool: float, disks: int, stop: str, data: float, params: dict[str, str], result: float
) -> None:
    assert until(pool, disks, stop, data, **params) == result


def pool(
    tier: str = "fast",
    *,
    node: str = "w1",
    capacity: str = "2Gi",
    provisioned: str = "0",
    used: str = "0",
    expandable: bool = True,
    asks: str = "",
) -> Tree:
    status = {"node": node, "tier": tier, "capacity": capacity, "provisioned": provisioned, "used": used}
    return {
        "apiVersion": "pilothouse.io/v1alpha1",
        "kind": "StoragePool",
        "metadata": {"name": f"{node}-{tier}", "labels": {"disk": "ssd"}},
        "spec": {"capacity": asks},
        "status": {**status, "expandable": expandable},
    }


def expand(about: Tree, **params: str) -> TargetResult:
    return target_of(RuleAction(name=EXPAND_POOL, params=params), Object.of(about), NoObjects())


def test_a_tier_of_files_grows() -> None:
    assert expand(pool()) == ActionTarget({"from": "2Gi", "to": "3Gi"})
    assert expand(pool(), scalesize="512Mi", scaletype="resize-disk") == ActionTarget(
        {"from": "2Gi", "to": "2560Mi"}
    )


def test_other_tiers_and_further_disks_are_declined() -> None:
    """px-T19."""
    fixed = expand(pool(expandable=False))
    assert isinstance(fixed, TargetDeclined)
    assert "not a cloud drive" in fixed.because
    added = expand(pool(), scaletype="add-disk")
    assert isinstance(added, TargetDeclined)
    assert "no disk can be added" in added.because


def test_an_expansion_under_way_is_not_built_upon() -> None:
    waits = expand(pool(asks="3Gi"))
    assert waits == TargetNotReady("3Gi is requested and the pool has 2Gi: an expansion is under way")
    assert isinstance(expand(pool(capacity="")), TargetNotReady)


def load(tier: str, provisioned: int, used: int = 0, *, capacity: int = 100, node: str = "w1") -> PoolLoad:
    return PoolLoad(f"{node}-{tier}", node, tier, capacity * GIB, provisioned * GIB, used * GIB)


def volumes(tier: str, *sizes: int, node: str = "w1") -> list[MovableVolume]:
    return [
        MovableVolume(f"db/{tier}-{number}", f"{node}-{tier}", size * GIB)
        for number, size in enumerate(sizes)
    ]


def test_a_trial_moves_what_helps_most_and_no_more() -> None:
    pools = [load("default", 90, 90), load("fast", 0)]
    trial = balanced(pools, volumes("default", 30, 30, 30), BalanceRange((-20.0, 20.0)), node="w1")
    assert [(move.claim, move.to) for move in trial.moves] == [("db/default-0", "fast")]
    assert trial.within
    assert [each.provisioned_percent for each in trial.after] == [60.0, 30.0]


def test_volumes_never_leave_their_node() -> None:
    pools = [load("default", 90, 90), load("fast", 80, 80), load("default", 0, node="w2")]
    trial = balanced(pools, volumes("default", 30), BalanceRange((-10.0, 10.0)), node="w1")
    assert not trial.moves
    assert not trial.within


def test_a_move_needs_room() -> None:
    pools = [load("default", 90, 90), load("fast", 10, 80)]
    trial = balanced(pools, volumes("default", 30, 20), BalanceRange(provisioned=70.0), node="w1")
    assert [move.claim for move in trial.moves] == ["db/default-1"]


def test_a_trial_has_an_end() -> None:
    pools = [load("default", 1000, 1000, capacity=1000), load("fast", 0, capacity=1000)]
    trial = balanced(pools, volumes("default", *[1] * 400), BalanceRange((-1.0, 1.0)), node="w1")
    assert len(trial.moves) == 20
    assert not trial.within


def rule(*expressions: Tree) -> Tree:
    return {
        "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
        "kind": "AutopilotRule",
        "metadata": {"name": "balance"},
        "spec": {
            "selector": {"matchLabels": {"disk": "ssd"}},
            "conditions": {"expressions": list(expressions), "requiredMatches": 1},
            "actions": [{"name": REBALANCE_POOL}],
        },
    }


def deviation(low: str, high: str) -> Tree:
    return {"keyAlias": "PoolProvDeviationPerc", "operator": "NotInRange", "values": [low, high]}


def local(name: str, *, size: str = "30Gi", node: str = "w1", paused: bool = False) -> list[Tree]:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}", "annotations": {"pilothouse.io/node": node}},
        "spec": {},
    }
    marks = {"autopilot.libopenstorage.org/paused": "true"} if paused else {}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "db", "annotations": marks},
        "spec": {"volumeName": f"pv-{name}", "resources": {"requests": {"storage": size}}},
        "status": {"phase": "Bound", "capacity": {"storage": size}},
    }
    return [volume, claim]


def rebalance(about: Tree, *others: Tree) -> TargetResult:
    world = Lookup([about, *others])
    return target_of(RuleAction(name=REBALANCE_POOL), Object.of(about), world)


def test_the_range_of_the_rule_decides_what_moves() -> None:
    """px-D7 on the tiers of a node: three volumes in one pool, deviations beyond 20 points."""
    full = pool("default", capacity="100Gi", provisioned="90Gi", used="90Gi")
    empty = pool("fast", capacity="100Gi")
    claims = [*local("a"), *local("b"), *local("c")]
    found = rebalance(full, empty, *claims, rule(deviation("-20", "20")))
    assert isinstance(found, ActionTarget)
    assert found.fields["moves"] == "db/a=fast"
    assert (found.fields["from"], found.fields["to"]) == ("90 % provisioned", "60 % provisioned")
    assert found.fields["summary"] == (
        "Rebalance summary: on node w1 db/a (30Gi) default -> fast; tier default 90 -> 60 % provisioned, "
        "90 -> 60 % used; tier fast 0 -> 30 % provisioned, 0 -> 30 % used"
    )
    assert "Rebalance summary:" in found.summary
    within = rebalance(full, empty, *claims, rule(deviation("-50", "50")))
    assert isinstance(within, TargetDeclined)
    assert within.because.startswith(
        "Rebalance summary: nothing moves on node w1: all its pools are within the range; tier default 90"
    )


def test_absolute_limits_count_too() -> None:
    """px-D8: two volumes of 30 GiB in a pool of 30 GiB."""
    key = "100 * px_pool_stats_provisioned_bytes / px_pool_stats_total_bytes"
    full = pool("default", capacity="30Gi", provisioned="60Gi", used="10Gi")
    empty = pool("fast", capacity="100Gi")
    wanted = rule({"key": key, "operator": "Gt", "values": ["120"]})
    found = rebalance(full, empty, *local("a"), *local("b"), wanted)
    assert isinstance(found, ActionTarget)
    assert found.fields["moves"] == "db/a=fast"


def test_paused_claims_stay_and_one_pool_is_not_enough() -> None:
    full = pool("default", capacity="100Gi", provisioned="90Gi", used="90Gi")
    empty = pool("fast", capacity="100Gi")
    found = rebalance(full, empty, *local("a", paused=True), *local("b"), rule(deviation("-20", "20")))
    assert isinstance(found, ActionTarget)
    assert found.fields["moves"] == "db/b=fast"
    alone = rebalance(full, *local("a"), rule(deviation("-20", "20")))
    assert isinstance(alone, TargetDeclined)
    assert "can't leave its machine" in alone.because
