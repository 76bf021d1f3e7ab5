"""Acceptance cases of Autopilot about storage pools, as rules that take pools through their states in virtual time.

A tier of a node is a pool of one disk, which is a file that can grow: so ``resize-disk`` does what the originals say, and
``add-disk`` is declined. What the originals add with whole disks is in ``test_pools_are_expanded_and_rebalanced``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.kit.pool_fleet import AVAILABLE, PROVISIONED, TOTAL, USED, PoolFleet, pool, pool_rule
from tests.kit.rule_fleet import rule

from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.actions import EXPAND_POOL, REBALANCE_POOL
from pilothouse.node.volumes.throttles import throttle
from pilothouse.rules.object_states import MOST_ITEMS

PENDING, PROGRESS, TAKEN = "ActiveActionsPending", "ActiveActionsInProgress", "ActiveActionsTaken"
ONE_ACTION = ["Triggered", PENDING, PROGRESS, TAKEN, "Normal"]


def when(key: str, operator: str, *values: float) -> Tree:
    name = "keyAlias" if key.isalpha() else "key"
    return {name: key, "operator": operator, "values": [f"{value:g}" for value in values]}


def below(size: float) -> Tree:
    return when(TOTAL, "Lt", size)


HALF = when(AVAILABLE, "Lt", 50)

TABLE = {
    # name: GiB of the pool, expression, GiB of data, parameters, result
    "px-t11-10-percent": (10, below(11), 0, {"scalepercentage": "10"}, 11),
    "px-t11-300-percent": (10, below(11), 0, {"scalepercentage": "300"}, 40),
    "px-t11-10gi-steps": (10, below(41), 0, {"scalesize": "10Gi"}, 50),
    "px-t11-5gi": (10, below(11), 0, {"scalesize": "5Gi"}, 15),
    "px-t11-25gi": (10, below(11), 0, {"scalesize": "25Gi"}, 35),
    "px-t11-6-50-percent": (10, HALF, 6, {"scalepercentage": "50"}, 22.5),
    "px-t11-6-100-percent": (10, HALF, 6, {"scalepercentage": "100"}, 20),
    "px-t11-16-50-percent": (10, HALF, 16, {"scalepercentage": "50"}, 50.625),
    "px-t11-16-100-percent": (10, HALF, 16, {"scalepercentage": "100"}, 40),
}


@pytest.fixture(scope="module")
def table() -> Iterator[PoolFleet]:
    """The table of px-T11, as far as it is of pools of one disk, with 3 GiB used from the beginning."""
    with PoolFleet() as fleet:
        for name, (size, expression, data, params, _) in TABLE.items():
            fleet.pools.data[name] = 3 + data
            fleet.create(pool(name, size))
            fleet.create(pool_rule(name, expression, scaletype="resize-disk", **params))
        fleet.wait(1800)
        yield fleet


@pytest.mark.parametrize("name", TABLE)
def test_a_pool_comes_to_its_size(table: PoolFleet, name: str) -> None:
    """px-T11."""
    assert table.capacity(name) == TABLE[name][4]
    assert table.state_of(name, name) == "Normal"
    steps = len(table.steps(name))
    assert steps > 0
    assert table.states_of(name, name) == ["Initializing", *ONE_ACTION * steps][-MOST_ITEMS:]


def test_pools_of_a_fleet_grow_one_at_a_time(table: PoolFleet) -> None:
    assert {len(each) for each in table.pools.changing} == {0, 1}


@pytest.mark.parametrize(
    ("params", "steps"),
    [
        ({"scaletype": "resize-disk"}, ["375Gi"]),
        ({}, ["375Gi"]),
        ({"scaletype": "add-disk"}, []),
    ],
)
def test_two_conditions_call_for_a_larger_pool(params: dict[str, str], steps: list[str]) -> None:
    """px-D5: half as much again. The original adds a whole disk, which no tier can: declined, and why."""
    with PoolFleet() as fleet:
        fleet.pools.data["w1-fast"] = 150
        fleet.create(pool("w1-fast", 250, case="grow"), pool("w2-fast", 250, case="grow"))
        fleet.create(pool_rule("grow", HALF, below(2000), scalepercentage="50", **params))
        fleet.wait(600)
        assert fleet.steps("w1-fast") == steps
        # Both conditions have to hold.
        assert fleet.steps("w2-fast") == []
        assert fleet.states_of("grow", "w2-fast") == ["Initializing", "Normal"]
        declined = [text for text in fleet.events("ActionDeclined") if "no disk can be added" in text]
        assert bool(declined) == (not steps)
        assert ("ActionsDeclined" in fleet.states_of("grow", "w1-fast")) == (not steps)


def test_two_pools_grow_strictly_one_after_the_other() -> None:
    """px-D6: each 100, 200, 400, and then no more."""
    with PoolFleet() as fleet:
        fleet.create(pool_rule("grow", below(400), scalepercentage="100"))
        fleet.create(pool("w1-fast", 100, case="grow"), pool("w2-fast", 100, case="grow"))
        fleet.wait(1200)
        assert [fleet.steps(name) for name in ("w1-fast", "w2-fast")] == [["200Gi", "400Gi"]] * 2
        assert fleet.pools.changing == {(), ("w1-fast",), ("w2-fast",)}
        times = sorted(
            (one.moment("status", "startTime") or 0.0, one.moment("status", "completionTime") or 0.0)
            for one in fleet.actions()
        )
        assert all(ended <= began for (_, ended), (began, _) in pairwise(times))
        before = len(fleet.actions())
        fleet.wait(600)
        assert len(fleet.actions()) == before


def test_a_pool_that_asks_too_much_of_its_disk_grows_once_its_rule_is_edited() -> None:
    """px-T12: sixteen times as much fails, is said, and is tried again; half as much succeeds."""
    with PoolFleet() as fleet:
        fleet.pools.room["w1-fast"] = 20
        fleet.create(pool("w1-fast", 10, case="grow"))
        fleet.create(pool_rule("grow", below(11), scalepercentage="1600"))
        fleet.wait(670)
        (failed,) = fleet.events("FailedAction")
        assert failed.startswith(
            "failed to execute Action for rule grow:w1-fast-grow in ActiveActionsInProgress"
        )
        assert "there is no room for 170Gi: 150Gi are missing" in failed
        # What has failed is withdrawn, so that it does not happen later, when it has room.
        assert fleet.pool("w1-fast").spec["capacity"] == "10Gi"
        fleet.edit("grow", actions=[{"name": EXPAND_POOL, "params": {"scalepercentage": "50"}}])
        fleet.wait(300)
        assert fleet.capacity("w1-fast") == 15
        assert fleet.steps("w1-fast") == ["170Gi", "15Gi"]
        states = [PENDING, PROGRESS, PENDING, PROGRESS, TAKEN, "Normal"]
        assert fleet.states_of("grow", "w1-fast")[-6:] == states


def test_a_manager_killed_after_any_write_expands_a_pool_once() -> None:
    """px-T14: at each write from the first trigger on, until the pool is Normal again."""
    kills = 0
    while True:
        with PoolFleet() as fleet:
            fleet.create(pool("w1-fast", 10, case="grow"))
            fleet.create(pool_rule("grow", below(11), scalepercentage="50"))
            fleet.wait(25)
            fleet.kill_after_write(kills)
            fleet.wait(300)
            assert fleet.steps("w1-fast") == ["15Gi"]
            assert fleet.capacity("w1-fast") == 15
            assert fleet.state_of("grow", "w1-fast") == "Normal"
            counts = fleet.transitions("grow")
            assert counts[f"{PROGRESS} => {TAKEN}"] <= 1
            if not fleet.killed:
                break
        kills += 1
    assert kills > 5, kills


@pytest.mark.parametrize("times", [1, 2])
def test_a_node_that_goes_away_while_its_pool_grows_converges(times: int) -> None:
    """px-T15: its storage restarts, or the machine crashes twice, in the middle of an expansion."""
    with PoolFleet() as fleet:
        fleet.create(pool("w1-fast", 10, case="grow"))
        fleet.create(pool_rule("grow", below(11), scalepercentage="50"))
        for _ in range(times):
            while fleet.pool("w1-fast").spec.get("capacity") != "15Gi":
                fleet.wait(1)
            fleet.pools.away = True
            fleet.wait(120)
            assert fleet.capacity("w1-fast") == 10
            assert fleet.state_of("grow", "w1-fast") == PROGRESS
            fleet.pools.away = False
            fleet.wait(1)
        fleet.wait(300)
        assert fleet.steps("w1-fast") == ["15Gi"]
        assert fleet.capacity("w1-fast") == 15
        assert fleet.state_of("grow", "w1-fast") == "Normal"


def test_a_pool_that_is_no_cloud_drive_is_declined() -> None:
    """px-T19: it is considered, and what can't be is said."""
    with PoolFleet() as fleet:
        fleet.create(pool("w1-fast", 10, case="grow", expandable=False))
        fleet.create(pool_rule("grow", below(11), scalepercentage="50"))
        fleet.wait(90)
        assert fleet.states_of("grow", "w1-fast")[-2:] == [PROGRESS, "ActionsDeclined"]
        assert fleet.transitions("grow")[f"{PROGRESS} => ActionsDeclined"] == 1
        (declined,) = fleet.events("ActionDeclined")
        assert "not a cloud drive" in declined
        assert fleet.actions() == []


def test_limits_of_a_volume_follow_its_growth() -> None:
    """px-D10: a rule doubles 5 GiB with factors for each GiB; 10 GiB may do 4000 reads and 3000 writes a second."""
    factors = {
        "io_throttle_iops_scale_factor": "400",
        "io_throttle_min_iops": "1500",
        "io_throttle_rd_iops": "6000",
        "io_throttle_wr_iops": "3000",
        "io_throttle_bw_scale_factor": "0.1",
        "io_throttle_min_bw": "1000",
        "io_throttle_rd_bw": "1500",
        "io_throttle_wr_bw": "1500",
    }
    with PoolFleet() as fleet:
        fleet.create(pool("w1-default", 100))
        gold = fleet.attributes("gold", **factors)
        fleet.volume("data", 5, attributes="gold")
        fleet.create(rule("data", "usage", "Gt", 50, scalepercentage="100"))
        fleet.wait(60)
        assert fleet.state("data") == "Normal"
        before = throttle(gold, "7:0", fleet.size("data"))
        assert (before.read_operations, before.write_operations) == (2000, 2000)
        fleet.fill(data=4)
        fleet.wait(240)
        assert fleet.sizes("data") == ["10Gi"]
        after = throttle(gold, "7:0", fleet.size("data"))
        assert (after.read_operations, after.write_operations) == (4000, 3000)
        assert after.read_bytes == after.write_bytes == 1024 << 20
        assert fleet.provisioned("w1-default") == [10]


DEVIATIONS = ("PoolProvDeviationPerc", "PoolUsageDeviationPerc")


def balance(*expressions: Tree, **spec: object) -> Tree:
    found = pool_rule("balance", *expressions, action=REBALANCE_POOL)
    found["spec"]["conditions"]["requiredMatches"] = 1
    found["spec"] |= spec
    return found


def beyond(percent: float) -> list[Tree]:
    return [when(alias, "NotInRange", -percent, percent) for alias in DEVIATIONS]


def three_pools(fleet: PoolFleet, *sizes: int, capacity: int = 100) -> list[str]:
    """The pools of a node, with volumes of these sizes in the first of them."""
    names = ["w1-default", "w1-fast", "w1-slow"]
    fleet.create(*(pool(name, capacity, case="balance") for name in names))
    for number, size in enumerate(sizes):
        fleet.volume(f"data-{number}", size)
    fleet.wait(10)
    return names


def test_volumes_of_one_pool_spread_over_its_node() -> None:
    """px-D7: three volumes of 30 GiB in one pool; some 30 seconds later they begin to move, until all three are even."""
    with PoolFleet() as fleet:
        names = three_pools(fleet, 30, 30, 30)
        assert fleet.provisioned(*names) == [90, 0, 0]
        fleet.create(balance(*beyond(20)))
        fleet.wait(20)
        assert fleet.state_of("balance", "w1-default") == "Triggered"
        fleet.wait(30)
        # All three are out of range, the full one and the empty ones; whichever goes first evens them.
        (first,) = (one.at("spec", "object", "name") for one in fleet.actions())
        assert first in names
        fleet.wait(1200)
        assert fleet.provisioned(*names) == [30, 30, 30]
        assert {fleet.state_of("balance", name) for name in names} == {"Normal"}
        assert {len(each) for each in fleet.pools.changing} == {0, 1}
        (action,) = fleet.actions()
        assert action.at("spec", "target", "summary").startswith("Rebalance summary: on node w1")
        assert action.status["phase"] == "Succeeded"
        said = [str(each.get("message")) for each in fleet.objects()[f"balance/{first}"].status["items"]]
        assert any("2 volumes of node w1 were moved" in text for text in said)
        assert any(text.startswith("the action is started: Rebalance summary: on node w1") for text in said)


def test_a_pool_that_promises_more_than_it_has_is_relieved() -> None:
    """px-D8: two volumes of 30 GiB in a pool of 30 GiB are 200 %, and at most 120 % may be."""
    with PoolFleet() as fleet:
        names = three_pools(fleet, 30, 30, capacity=30)
        fleet.pools.written.clear()
        fleet.create(balance(when(PROVISIONED, "Gt", 120), when(USED, "Gt", 70)))
        assert fleet.provisioned(*names) == [200, 0, 0]
        fleet.wait(600)
        assert sorted(fleet.provisioned(*names)) == [0, 100, 100]
        assert fleet.phases() == ["Succeeded"]
        assert fleet.state_of("balance", "w1-default") == "Normal"


def test_a_rebalance_is_declined_asked_again_and_approved() -> None:
    """px-T16."""
    with PoolFleet() as fleet:
        names = three_pools(fleet, 30, 30, 30)
        fleet.create(balance(*beyond(50), enforcement="approvalRequired"))
        fleet.wait(120)
        assert fleet.state_of("balance", "w1-default") == "ActionAwaitingApproval"
        said = [str(each.get("message")) for each in fleet.objects()["balance/w1-default"].status["items"]]
        assert any("requires an approval: Rebalance summary: on node w1" in text for text in said)
        (asked,) = fleet.approvals()
        assert (
            asked.at("status", "actionPreviews")[0]["expectedResult"]["Message"].count("Rebalance summary:")
            == 1
        )
        fleet.answer("declined")
        fleet.wait(600)
        assert fleet.state_of("balance", "w1-default") == "ActionsDeclined"
        assert fleet.actions() == []
        fleet.delete_approval()
        fleet.wait(120)
        assert fleet.states_of("balance", "w1-default")[-3:] == [
            "ActionsDeclined",
            "Triggered",
            "ActionAwaitingApproval",
        ]
        assert fleet.transitions("balance")["ActionsDeclined => Triggered"] == 1
        assert fleet.provisioned(*names) == [90, 0, 0]
        fleet.answer("approved")
        fleet.wait(600)
        assert fleet.phases() == ["Succeeded"]
        assert fleet.states_of("balance", "w1-default")[-4:] == [PENDING, PROGRESS, TAKEN, "Normal"]
        assert fleet.transitions("balance")[f"{TAKEN} => Normal"] == 1
        assert max(fleet.provisioned(*names)) <= 60


def test_a_narrower_range_triggers_and_a_deleted_rule_does_nothing() -> None:
    """px-T17: 35 % of a pool beside three empty ones are 26 points from the mean."""
    with PoolFleet() as fleet:
        names = three_pools(fleet, 20, 15)
        fleet.create(pool("w1-tape", 100, case="balance"))
        fleet.create(balance(*beyond(50)))
        fleet.wait(600)
        assert {fleet.state_of("balance", name) for name in names} == {"Normal"}
        assert fleet.actions() == []
        fleet.edit("balance", conditions={"expressions": beyond(20), "requiredMatches": 1, "for": 30})
        fleet.wait(15)
        assert fleet.transitions("balance")["Normal => Triggered"] == 1
        fleet.wait(300)
        assert fleet.phases() == ["Succeeded"]
        assert sorted(fleet.provisioned(*names)) in ([0, 15, 20], [0, 0, 15])
        fleet.delete_rule("balance")
        fleet.volume("more", 60)
        fleet.wait(600)
        assert fleet.rules() == []
        assert fleet.objects() == {}
        assert fleet.phases() == ["Succeeded"]
