"""Budgets: the last gate before an action, counted from the ApplicationActions that exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.rule_fleet import RuleFleet, claim, rule

from pilothouse.api.kind_names import ActionApproval, ApplicationAction, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import FINISHED, RESIZE, RESOURCES
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.object_cache import ObjectCache
from pilothouse.rules.action_budgets import GLOBAL_BUDGET, RULE_BUDGET, counted, spent, with_defaults
from pilothouse.rules.action_targets import ActionTarget
from pilothouse.rules.ruled_objects import RuleSettings
from pilothouse.runtime.snapshot import Snapshot, StaticView

GIB = 1024**3
NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86400.0
GROWN = ActionTarget({"from": "8Gi", "to": "12Gi"}, 4 * GIB)


def action(
    age: float, phase: str = "Succeeded", uid: str = "c1", to: str = "12Gi", does: str = RESIZE
) -> Object:
    return Object.of(
        {
            "apiVersion": ApplicationAction.api_version,
            "kind": ApplicationAction.kind,
            "metadata": {"name": "a", "namespace": "db", "creationTimestamp": format_time(NOW - age)},
            "spec": {"action": does, "object": {"uid": uid}, "target": {"from": "8Gi", "to": to}},
            "status": {"phase": phase} if phase else {},
        }
    )


@pytest.mark.parametrize(
    ("budget", "actions", "by"),
    [
        ({"actions_per_hour": 2}, [action(60), action(HOUR - 1)], "actionsPerHour"),
        ({"actions_per_hour": 2}, [action(60), action(HOUR)], ""),
        ({"actions_per_hour": 1}, [action(60, "Failed")], "actionsPerHour"),
        ({"actions_per_hour": 1}, [action(60, "")], "actionsPerHour"),
        ({"per_object_per_day": 1}, [action(DAY - 1)], "perObjectPerDay"),
        ({"per_object_per_day": 1}, [action(DAY)], ""),
        ({"per_object_per_day": 1}, [action(60, uid="c2")], ""),
        ({"concurrent": 2}, [action(60, ""), action(60, "Running", uid="c2")], "concurrent"),
        ({"concurrent": 2}, [action(60, ""), action(60, "Canceled"), action(60, "Declined")], ""),
        ({"growth_per_day": "8Gi"}, [action(60)], ""),
        ({"growth_per_day": "8Gi"}, [action(60), action(60, to="9Gi")], "growthPerDay"),
        ({"growth_per_day": "8Gi"}, [action(60), action(DAY, to="90Gi")], ""),
        # Memory that grows is no volume.
        ({"growth_per_day": "8Gi"}, [action(60), action(60, to="9Gi", does=RESOURCES)], ""),
        ({"growth_per_day": "3Gi"}, [], "growthPerDay"),
    ],
)
def test_what_is_spent(budget: dict[str, Any], actions: list[Object], by: str) -> None:
    why = spent(ActionBudget(**budget), actions, "c1", GROWN, NOW)
    assert why.endswith(f"({by})") if by else why == ""


def world_of(actions: list[Object]) -> Snapshot:
    cache = ObjectCache()
    for number, one in enumerate(actions):
        metadata = {**one.get("metadata", {}), "name": f"a{number}", "resourceVersion": str(number + 1)}
        ended = one.status.get("phase") in FINISHED
        status = {**one.status, "completionTime": format_time(NOW)} if ended else one.status
        cache.put(Object.of({**one.tree, "metadata": metadata, "status": status}))
    return Snapshot({ApplicationAction: FollowedActions(cache)}, now=NOW)


class FollowedActions(StaticView):
    """With the indexes of a cache."""

    def __init__(self, cache: ObjectCache) -> None:
        super().__init__(cache.list())
        self._cache = cache

    def by(self, index: str, value: str) -> Iterator[Object]:
        return iter(self._cache.by(index, value))


AGES = st.sampled_from([-5, 0, 60, HOUR - 1, HOUR, HOUR + 1, 2 * HOUR, DAY - 1, DAY, DAY + 1, 40 * DAY])
ACTIONS = st.lists(
    st.builds(
        action,
        AGES,
        st.sampled_from(["", "Running", *sorted(FINISHED)]),
        st.sampled_from(["c1", "c2"]),
        st.sampled_from(["9Gi", "12Gi"]),
    ),
    max_size=12,
)
BUDGETS = st.builds(
    ActionBudget,
    actions_per_hour=st.none() | st.integers(0, 4),
    per_object_per_day=st.none() | st.integers(0, 4),
    concurrent=st.none() | st.integers(0, 4),
    growth_per_day=st.none() | st.sampled_from(["1Gi", "8Gi", "20Gi"]),
)


@given(actions=ACTIONS, budget=BUDGETS, other=BUDGETS)
def test_what_does_not_count_need_not_be_looked_at(
    actions: list[Object], budget: ActionBudget, other: ActionBudget
) -> None:
    world = world_of(actions)
    few = counted((budget, other), "c1", world, NOW)
    everything = world.all(ApplicationAction)
    for each in (budget, other):
        assert spent(each, few, "c1", GROWN, NOW) == spent(each, everything, "c1", GROWN, NOW)


def test_actions_that_ended_long_ago_on_other_objects_are_not_looked_at() -> None:
    old = [action(2 * DAY + number, uid="c2") for number in range(1000)]
    waits, recent, own = action(40 * DAY, "", uid="c2"), action(60, uid="c2"), action(40 * DAY)
    found = counted((GLOBAL_BUDGET, RULE_BUDGET), "c1", world_of([*old, waits, recent, own]), NOW)
    assert sorted(one.name for one in found) == ["a1000", "a1001", "a1002"]


def test_a_budget_has_defaults_for_what_it_leaves_out() -> None:
    assert with_defaults(None) == RULE_BUDGET
    some = with_defaults(ActionBudget(concurrent=1))
    assert some == msgspec.structs.replace(RULE_BUDGET, concurrent=1)
    assert None not in (GLOBAL_BUDGET.concurrent, GLOBAL_BUDGET.actions_per_hour)


def test_what_was_spent_outlives_a_restart() -> None:
    thrifty = rule("grow", "usage", "Gt", 50)
    thrifty["spec"]["budget"] = {"actionsPerHour": 1}
    with RuleFleet() as fleet:
        fleet.create(thrifty, claim("grow", "8Gi"))
        fleet.fill(grow=8)
        fleet.wait(600)
        assert fleet.sizes("grow") == ["12Gi"]
        assert fleet.state("grow") == "ActiveActionsPending"
        waits = fleet.ask("PersistentVolumeClaim", "grow")["answer"][0]["waiting"]
        assert waits["reason"] == "BudgetSpent"
        assert "(actionsPerHour)" in waits["message"]
        assert "until" not in waits, "the next poll is not when the budget has room"
        fleet.restart()
        fleet.wait(2400)
        assert fleet.sizes("grow") == ["12Gi"]
        fleet.wait(900)
        assert fleet.sizes("grow") == ["12Gi", "18Gi"]


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_clocks_that_are_set_neither_empty_a_budget_nor_fill_it(jump: float) -> None:
    """Those of the server and of the manager: before the second action, and back after it."""
    hourly = rule("grow", "usage", "Gt", 50)
    hourly["spec"]["budget"] = {"actionsPerHour": 1}
    with RuleFleet() as fleet:
        fleet.create(hourly, claim("grow", "8Gi"))
        fleet.fill(grow=20)
        fleet.wait(600)
        assert fleet.size_of("grow") == "12Gi"
        for skew, size in ((jump, "18Gi"), (0.0, "27Gi")):
            before = fleet.size_of("grow")
            fleet.clock.skew = fleet.manager.clock.skew = skew
            fleet.wait(2400)
            assert fleet.size_of("grow") == before
            fleet.wait(1200)
            assert fleet.size_of("grow") == size


def test_an_approval_does_not_expire_because_clocks_are_set() -> None:
    asking = rule("grow", "usage", "Gt", 50)
    asking["spec"] |= {"enforcement": "approvalRequired", "approvalExpiresAfter": 3600}
    with RuleFleet() as fleet:
        fleet.create(asking, claim("grow", "8Gi"))
        fleet.model(approvals="pending")
        fleet.fill(grow=5)
        fleet.wait(120)
        (approval,) = fleet.list(ActionApproval)
        fleet.clock.skew = fleet.manager.clock.skew = DAY
        # Every change of a claim makes it be looked at.
        fleet.patch(PersistentVolumeClaim, "grow", {"metadata": {"annotations": {"a": "b"}}}, "db")
        fleet.wait(2400)
        assert [one.uid for one in fleet.list(ActionApproval)] == [approval.uid]
        fleet.wait(1800)
        assert [one.uid for one in fleet.list(ActionApproval)] != [approval.uid]


def test_a_rule_acts_on_so_many_at_once() -> None:
    narrow = rule("grow", "usage", "Gt", 50)
    narrow["spec"]["budget"] = {"concurrent": 2}
    with RuleFleet() as fleet:
        fleet.create(narrow, *(claim(f"v{number}", "8Gi", case="grow") for number in range(5)))
        fleet.model(volumes="refuses")
        fleet.fill(v0=5, v1=5, v2=5, v3=5, v4=5)
        fleet.wait(300)
        assert [one.status["phase"] for one in fleet.actions()] == ["Running"] * 2
        fleet.model(volumes="grow")
        fleet.wait(600)
        assert [fleet.sizes(f"v{number}") for number in range(5)] == [["12Gi"]] * 5


def test_volumes_grow_by_no_more_than_a_rule_may_in_a_day() -> None:
    thrifty = rule("grow", "usage", "Gt", 50)
    thrifty["spec"]["budget"] = {"growthPerDay": "9Gi"}
    with RuleFleet() as fleet:
        fleet.create(thrifty, *(claim(f"v{number}", "8Gi", case="grow") for number in range(3)))
        fleet.fill(v0=5, v1=5, v2=5)
        fleet.wait(900)
        sizes = sorted(fleet.sizes(f"v{number}")[-1] for number in range(3))
        assert sizes == ["12Gi", "12Gi", "8Gi"]


def test_all_rules_share_a_budget() -> None:
    settings = RuleSettings(budget=ActionBudget(actions_per_hour=1))
    with RuleFleet(settings=settings) as fleet:
        fleet.create(rule("one", "usage", "Gt", 50), rule("two", "usage", "Gt", 50))
        fleet.create(claim("one", "8Gi"), claim("two", "8Gi"))
        fleet.fill(one=5, two=5)
        fleet.wait(600)
        first = {one.spec["rule"] for one in fleet.actions()}
        assert len(first) == 1
        (held,) = {"one", "two"} - first
        message = fleet.ask("PersistentVolumeClaim", held)["answer"][0]["waiting"]["message"]
        assert "of all rules together" in message
        fleet.wait(HOUR)
        assert {one.spec["rule"] for one in fleet.actions()} == {"one", "two"}


def test_the_budget_of_all_rules_is_changed_while_they_act() -> None:
    with RuleFleet() as fleet:
        fleet.volumes.budget = ActionBudget(growth_per_day="5Gi")
        fleet.create(rule("one", "usage", "Gt", 50), rule("two", "usage", "Gt", 50))
        fleet.create(claim("one", "8Gi"), claim("two", "8Gi"))
        fleet.fill(one=5, two=5)
        fleet.wait(600)
        first = {one.spec["rule"] for one in fleet.actions()}
        assert len(first) == 1
        (held,) = {"one", "two"} - first
        message = fleet.ask("PersistentVolumeClaim", held)["answer"][0]["waiting"]["message"]
        assert "of all rules together volumes would grow by more than 5Gi within a day" in message
        fleet.volumes.budget = ActionBudget(growth_per_day="8Gi")
        fleet.wait(120)
        assert {one.spec["rule"] for one in fleet.actions()} == {"one", "two"}


def test_a_provider_that_lies_spends_the_budget_and_no_more() -> None:
    trusting = rule("grow", "usage", "Gt", 50)
    trusting["spec"] |= {"budget": {"actionsPerHour": 3}, "actionsCoolDownPeriod": 0}
    trusting["spec"]["conditions"]["for"] = 0
    with RuleFleet() as fleet:
        fleet.create(trusting, *(claim(f"v{number}", "8Gi", case="grow") for number in range(6)))
        fleet.model(metrics="lies")
        fleet.wait(1800)
        assert len(fleet.actions()) == 3
