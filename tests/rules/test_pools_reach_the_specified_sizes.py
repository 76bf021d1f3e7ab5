"""The specified cases of storage pools, on a modelled node whose tiers grow and whose volumes move: rules go through all
their states, and each pool comes to its size.

Where a case adds a disk, the tier is resized instead, since a tier is one folder: the size is the one of that column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from tests.kit.rule_fleet import RuleFleet, claim

from pilothouse.api.kind_names import ActionApproval, ApplicationAction, AutopilotRule, StoragePool
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import EXPAND_POOL, REBALANCE_POOL
from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.base.quantity import parse_quantity

Json = dict[str, Any]
GIB = 1024**3
RECORDS = "kube-system"
TOTAL, AVAILABLE = "pool_total_gib", "pool_available_percent"
PROVISIONED = "100 * px_pool_stats_provisioned_bytes / px_pool_stats_total_bytes"
DEVIATION = ALIASES["PoolProvDeviationPerc"]
USAGE = ALIASES["PoolUsageDeviationPerc"]


@pytest.fixture
def fleet() -> Iterator[RuleFleet]:
    with RuleFleet(tiers=True) as running:
        yield running


def pool(tier: str, gibibytes: float, *, expandable: bool = True) -> Json:
    return {
        "apiVersion": "pilothouse.io/v1alpha1",
        "kind": "StoragePool",
        "metadata": {"name": f"n1-{tier}", "labels": {"case": "pools"}},
        "status": {
            "node": "n1",
            "tier": tier,
            "capacity": f"{round(gibibytes * 1024)}Mi",
            "expandable": expandable,
        },
    }


def create(fleet: RuleFleet, *pools: Json) -> None:
    """Pools, as their node reports them."""
    for tree in pools:
        fleet.create(tree)
        name, status = tree["metadata"]["name"], {"status": tree["status"]}
        fleet.patch(StoragePool, name, status, subresource="status")


def rule(
    *expressions: Json, do: str = EXPAND_POOL, params: Mapping[str, str] | None = None, **spec: Any
) -> Json:
    return {
        "apiVersion": AutopilotRule.api_version,
        "kind": "AutopilotRule",
        "metadata": {"name": "pools"},
        "spec": {
            "object": "storagepool",
            "selector": {"matchLabels": {"case": "pools"}},
            "conditions": {"expressions": list(expressions), "for": 30},
            "pollInterval": 10,
            "actionsCoolDownPeriod": 60,
            "actions": [{"name": do, "params": dict(params or {})}],
            **spec,
        },
    }


def below(key: str, value: float) -> Json:
    return {"key": key, "operator": "Lt", "values": [str(value)]}


def outside(low: float, high: float, alias: str = "PoolProvDeviationPerc") -> Json:
    return {"keyAlias": alias, "operator": "NotInRange", "values": [str(low), str(high)]}


def wait(fleet: RuleFleet, seconds: float) -> None:
    """As the pools change, so do their metrics."""
    for _ in range(int(seconds / 5)):
        pools = fleet.list(StoragePool)
        sizes = {each.name: _bytes(each, "capacity") for each in pools}
        provisioned = {each.name: 100 * _bytes(each, "provisioned") / sizes[each.name] for each in pools}
        used = {each.name: 100 * _bytes(each, "used") / sizes[each.name] for each in pools}
        for text, values in (
            (TOTAL, {name: size / GIB for name, size in sizes.items()}),
            (AVAILABLE, {name: 100 - each for name, each in used.items()}),
            (PROVISIONED, provisioned),
            (DEVIATION, _from_mean(provisioned)),
            (USAGE, _from_mean(used)),
        ):
            fleet.volumes.series[text] = [({"pool": name}, value) for name, value in values.items()]
        fleet.wait(5)


def _from_mean(values: Mapping[str, float]) -> dict[str, float]:
    mean = sum(values.values()) / len(values)
    return {name: value - mean for name, value in values.items()}


def _bytes(one: Object, field: str) -> int:
    text = one.status.get(field)
    return parse_quantity(text).to_int() if text else 0


def size(fleet: RuleFleet, tier: str = "fast") -> float:
    """In GiB."""
    (found,) = (each for each in fleet.list(StoragePool) if each.name == f"n1-{tier}")
    return _bytes(found, "capacity") / GIB


def state(fleet: RuleFleet, tier: str = "fast") -> str:
    return str(fleet.objects()[f"pools/n1-{tier}"].status["state"])


def history(fleet: RuleFleet, tier: str = "fast") -> list[Json]:
    return list(fleet.objects()[f"pools/n1-{tier}"].status["items"])


def actions(fleet: RuleFleet) -> list[Object]:
    """In the order in which they began."""
    found = fleet.list(ApplicationAction)
    return sorted(found, key=lambda each: (str(each.status.get("startTime")), each.name))


def outcomes(fleet: RuleFleet) -> list[str]:
    return [str((each.condition("Complete") or {}).get("reason")) for each in actions(fleet)]


@pytest.mark.parametrize(
    ("before", "condition", "data", "params", "after"),
    [
        (10, below(TOTAL, 11), 0, {"scalepercentage": "10", "scaletype": "resize-disk"}, 11),
        (10, below(TOTAL, 11), 0, {"scalepercentage": "300", "scaletype": "resize-disk"}, 40),
        (10, below(TOTAL, 11), 0, {"scalesize": "5Gi", "scaletype": "resize-disk"}, 15),
        (10, below(TOTAL, 11), 0, {"scalesize": "25Gi", "scaletype": "resize-disk"}, 35),
        (10, below(AVAILABLE, 50), 9, {"scalepercentage": "50", "scaletype": "resize-disk"}, 22.5),
        (10, below(AVAILABLE, 50), 9, {"scalepercentage": "100", "scaletype": "resize-disk"}, 20),
        (10, below(AVAILABLE, 50), 19, {"scalepercentage": "50", "scaletype": "resize-disk"}, 50.625),
        (10, below(AVAILABLE, 50), 19, {"scalepercentage": "100", "scaletype": "resize-disk"}, 40),
    ],
)
def test_a_pool_comes_to_its_size_and_stays(
    fleet: RuleFleet, before: float, condition: Json, data: float, params: dict[str, str], after: float
) -> None:
    """px-T11. The data is with the 3 GiB that a pool of this size takes itself."""
    create(fleet, pool("fast", before))
    fleet.create(claim("data", "1Gi"), rule(condition, params=params))
    fleet.tiers.data = {"data": int(data * GIB)}
    fleet.wait(10)
    put(fleet, "data", "fast")
    wait(fleet, 1800)
    assert size(fleet) == pytest.approx(after, abs=1 / 1024)
    assert state(fleet) == "Normal"
    assert set(outcomes(fleet)) == {"Expanded"}
    began = len(actions(fleet))
    wait(fleet, 600)
    assert len(actions(fleet)) == began


def put(fleet: RuleFleet, name: str, tier: str) -> None:
    """The volume of a claim is in this tier from the start."""
    fleet.tiers.place(fleet.claim(name).uid, tier)


def test_a_pool_grows_while_too_little_is_available_and_it_is_not_too_large(fleet: RuleFleet) -> None:
    """px-D5: 250 GiB, of which less than half is available, grow by half; with a further disk, by a whole one."""
    both = (below(AVAILABLE, 50), below(TOTAL, 2000))
    added = rule(*both, params={"scalepercentage": "50", "scaletype": "add-disk"})
    create(fleet, pool("fast", 250))
    fleet.create(claim("data", "1Gi"), added)
    fleet.tiers.data = {"data": 150 * GIB}
    fleet.wait(10)
    put(fleet, "data", "fast")
    wait(fleet, 120)
    assert any("no disk can be added" in each["message"] for each in history(fleet))
    assert not actions(fleet)
    resized = rule(*both, params={"scalepercentage": "50", "scaletype": "resize-disk"})
    fleet.edit("pools", actions=resized["spec"]["actions"])
    wait(fleet, 600)
    assert size(fleet) == 375
    assert state(fleet) == "Normal"


def test_two_pools_grow_strictly_one_after_the_other(fleet: RuleFleet) -> None:
    """px-D6: each goes 100, 200, 400 GiB, and no two actions overlap."""
    create(fleet, pool("fast", 100), pool("slow", 100))
    fleet.create(rule(below(TOTAL, 400), params={"scalepercentage": "100"}))
    wait(fleet, 1800)
    assert (size(fleet), size(fleet, "slow")) == (400, 400)
    done = actions(fleet)
    assert [
        each.at("spec", "target", "to") for each in done if each.at("spec", "object", "name") == "n1-fast"
    ] == [
        "200Gi",
        "400Gi",
    ]
    assert len(done) == 4
    ends = [(each.moment("status", "startTime"), each.moment("status", "completionTime")) for each in done]
    for (_, end), (start, _) in pairwise(ends):
        assert end is not None
        assert start is not None
        assert end <= start


def test_far_too_much_fails_and_an_edit_of_the_rule_succeeds(fleet: RuleFleet) -> None:
    """px-T12: 1600 % is more than the disk has; edited to 50 %, the next attempt succeeds."""
    fleet.tiers.room = 40 * GIB
    wanted = rule(below(TOTAL, 11), params={"scalepercentage": "1600"})
    create(fleet, pool("fast", 10))
    fleet.create(wanted)
    wait(fleet, 900)
    assert outcomes(fleet)[0] == "NotExpanded"
    assert size(fleet) == 10
    assert fleet.events("FailedAction")
    fleet.edit("pools", actions=[{"name": EXPAND_POOL, "params": {"scalepercentage": "50"}}])
    wait(fleet, 900)
    assert size(fleet) == 15
    assert state(fleet) == "Normal"
    seen = fleet.transitions("pools")
    assert seen["ActiveActionsInProgress => ActiveActionsPending"] >= 1
    assert seen["ActiveActionsInProgress => ActiveActionsTaken"] == 1


def test_a_manager_that_dies_as_it_begins_expands_once(fleet: RuleFleet) -> None:
    """px-T14."""
    create(fleet, pool("fast", 10))
    fleet.create(rule(below(TOTAL, 11), params={"scalepercentage": "50"}))
    for _ in range(60):
        if actions(fleet):
            break
        wait(fleet, 5)
    assert actions(fleet)
    fleet.manager.crash()
    wait(fleet, 60)
    fleet.manager.start()
    wait(fleet, 900)
    assert size(fleet) == 15
    assert outcomes(fleet) == ["Expanded"]


def test_a_node_that_is_away_while_a_pool_expands_ends_it_later(fleet: RuleFleet) -> None:
    """px-T15."""
    create(fleet, pool("fast", 10))
    fleet.create(rule(below(TOTAL, 11), params={"scalepercentage": "50"}))
    wait(fleet, 20)
    fleet.tiers.away = True
    wait(fleet, 900)
    assert size(fleet) == 10
    assert state(fleet) == "ActiveActionsInProgress"
    fleet.tiers.away = False
    wait(fleet, 300)
    assert size(fleet) == 15
    assert outcomes(fleet) == ["Expanded"]


def three_volumes(fleet: RuleFleet, *conditions: Json, **spec: Any) -> None:
    """Three claims of 30 GiB in one of two pools of 100 GiB."""
    claims = [claim(name, "30Gi") for name in ("a", "b", "c")]
    create(fleet, pool("default", 100), pool("fast", 100))
    fleet.create(*claims)
    fleet.tiers.data = dict.fromkeys(("a", "b", "c"), 20 * GIB)
    wait(fleet, 20)
    fleet.create(rule(*conditions, do=REBALANCE_POOL, **spec))


def provisioned(fleet: RuleFleet) -> list[int]:
    return [fleet.tiers.provisioned(tier) // GIB for tier in ("default", "fast")]


def test_volumes_that_lie_in_one_pool_are_spread(fleet: RuleFleet) -> None:
    """px-D7: deviations beyond 20 points of either kind."""
    either = (outside(-20, 20), outside(-20, 20, "PoolUsageDeviationPerc"))
    three_volumes(fleet, *either)
    fleet.edit("pools", conditions={"expressions": list(either), "requiredMatches": 1, "for": 30})
    wait(fleet, 900)
    assert provisioned(fleet) == [60, 30]
    (action,) = actions(fleet)
    assert action.at("spec", "target", "summary").startswith("Rebalance summary:")
    assert fleet.tiers.moves == [("a", "fast")]
    assert {state(fleet, "default"), state(fleet)} == {"Normal"}
    assert size(fleet) == size(fleet, "default") == 100


def test_a_pool_that_is_provisioned_beyond_its_size_is_relieved(fleet: RuleFleet) -> None:
    """px-D8: two claims of 30 GiB in a pool of 30 GiB, 200 %."""
    create(fleet, pool("default", 30), pool("fast", 100))
    fleet.create(claim("a", "30Gi"), claim("b", "30Gi"))
    wait(fleet, 20)
    beyond = {"key": PROVISIONED, "operator": "Gt", "values": ["120"]}
    fleet.create(rule(beyond, do=REBALANCE_POOL))
    wait(fleet, 900)
    assert provisioned(fleet) == [30, 30]
    assert state(fleet, "default") == "Normal"


def test_a_rebalance_that_is_declined_is_asked_for_again_and_done_once_approved(fleet: RuleFleet) -> None:
    """px-T16."""
    three_volumes(fleet, outside(-20, 20), enforcement="approvalRequired")
    wait(fleet, 60)
    asked = fleet.list(ActionApproval)
    assert len(asked) == 2
    assert {state(fleet, "default"), state(fleet)} == {"ActionAwaitingApproval"}
    assert all(each.namespace == RECORDS for each in asked)
    for each in asked:
        fleet.patch(ActionApproval, each.name, {"spec": {"approvalState": "declined"}}, RECORDS)
    wait(fleet, 60)
    assert {state(fleet, "default"), state(fleet)} == {"ActionsDeclined"}
    assert not actions(fleet)
    for each in asked:
        fleet.delete(ActionApproval, each.name, RECORDS)
    wait(fleet, 90)
    assert {state(fleet, "default"), state(fleet)} == {"ActionAwaitingApproval"}
    for each in fleet.list(ActionApproval):
        fleet.patch(ActionApproval, each.name, {"spec": {"approvalState": "approved"}}, RECORDS)
    wait(fleet, 900)
    assert provisioned(fleet) == [60, 30]
    assert "Rebalanced" in outcomes(fleet)
    assert {state(fleet, "default"), state(fleet)} == {"Normal"}
    seen = fleet.transitions("pools")
    assert seen["ActionsDeclined => Triggered"] >= 2
    assert seen["ActiveActionsTaken => Normal"] >= 1


def test_a_range_that_is_narrowed_counts_at_once_and_a_deleted_rule_does_no_more(fleet: RuleFleet) -> None:
    """px-T17: beyond 50 points nothing lies, beyond 20 something does."""
    three_volumes(fleet, outside(-50, 50))
    wait(fleet, 600)
    assert provisioned(fleet) == [90, 0]
    assert not fleet.transitions("pools")["Normal => Triggered"]
    fleet.edit("pools", conditions={"expressions": [outside(-20, 20)], "for": 30})
    wait(fleet, 900)
    assert fleet.transitions("pools")["Normal => Triggered"] >= 1
    assert provisioned(fleet) == [60, 30]
    done = len(actions(fleet))
    fleet.delete(AutopilotRule, "pools")
    fleet.create(claim("d", "50Gi"))
    wait(fleet, 600)
    assert not fleet.list(AutopilotRule)
    assert len(actions(fleet)) == done
