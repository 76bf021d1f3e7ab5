"""The acceptance cases of Autopilot's documentation and public tests that are about volumes, at their sizes.

They all run in one fleet, in virtual time: each has a rule and a claim of its own. Sizes in conditions are decimal GB, as in
the originals: 10Gi are 10.74 GB.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule

SMALL = {"key": "capacity", "operator": "Lt", "values": ["20"]}

CASES = {
    # name: rule, claim, GiB of data, the sizes it comes to
    "px-d1": (rule("px-d1", "usage", "Gt", 50, scalepercentage="100", maxsize="400Gi"), "10Gi", 70,
              ["20Gi", "40Gi", "80Gi", "160Gi"]),
    "px-d4": (rule("px-d4", "usage", "Gt", 20, also=[SMALL], scalepercentage="200"), "1Gi", 0.5, ["3Gi"]),
    "px-t1": (rule("px-t1", "usage", "Gt", 50, scalepercentage="50"), "8Gi", 8, ["12Gi", "18Gi"]),
    "px-t1-10": (rule("px-t1-10", "usage", "Gt", 50, scalepercentage="50"), "8Gi", 10,
                 ["12Gi", "18Gi", "27Gi"]),
    "px-t2": (rule("px-t2", "usage", "Gt", 85, scalepercentage="50"), "8Gi", 10, ["12Gi"]),
    "px-t3": (rule("px-t3", "usage", "Gt", 50, scalepercentage="50", maxsize="20Gi"), "8Gi", 10.5,
              ["12Gi", "18Gi", "20Gi"]),
    "px-t4": (rule("px-t4", "usage", "Gt", 50, scalepercentage="300"), "8Gi", 10, ["32Gi"]),
    "px-t5": (rule("px-t5", "capacity", "Lt", 10, scalepercentage="100", maxsize="20Gi"), "8Gi", 0, ["16Gi"]),
    "px-t7": (rule("px-t7", "capacity", "Lt", 6, scalepercentage="100"), "5Gi", 0, ["10Gi"]),
    "px-t7-10": (rule("px-t7-10", "capacity", "Lt", 6, scalepercentage="100", maxsize="10Gi"), "5Gi", 0,
                 ["10Gi"]),
    "px-t7-5": (rule("px-t7-5", "capacity", "Lt", 6, scalepercentage="100", maxsize="5Gi"), "5Gi", 0, ["5Gi"]),
    "px-t7-12": (rule("px-t7-12", "capacity", "Lt", 15, scalepercentage="100", maxsize="12Gi"), "5Gi", 0,
                 ["10Gi", "12Gi"]),
    "px-t7-4": (rule("px-t7-4", "capacity", "Lt", 6, scalepercentage="100", maxsize="4Gi"), "5Gi", 0, ["5Gi"]),
    "px-t8-4": (rule("px-t8-4", "usage", "Gt", 50, scalepercentage="100"), "10Gi", 4, ["10Gi"]),
    "px-t8": (rule("px-t8", "usage", "Gt", 50, scalepercentage="100"), "10Gi", 10, ["20Gi"]),
    "px-t8-12": (rule("px-t8-12", "usage", "Gt", 50, scalepercentage="100", maxsize="12Gi"), "10Gi", 10,
                 ["12Gi"]),
    "px-t9": (rule("px-t9", "capacity", "Lt", 11, scalepercentage="100"), "5Gi", 0, ["10Gi", "20Gi"]),
}  # fmt: skip
DECLINED = {"px-t3", "px-t7-5", "px-t7-12", "px-t7-4", "px-t8-12"}


@pytest.fixture(scope="module")
def fleet() -> Iterator[RuleFleet]:
    with RuleFleet() as fleet:
        for name, (its_rule, size, data, _) in CASES.items():
            fleet.create(its_rule, claim(name, size))
            fleet.model(**{f"data-{name}": str(data)})
        fleet.wait(1200)
        yield fleet


@pytest.mark.parametrize("name", CASES)
def test_case(fleet: RuleFleet, name: str) -> None:
    assert fleet.sizes(name) == CASES[name][3]


@pytest.mark.parametrize("name", CASES)
def test_it_ends_normal_or_declined(fleet: RuleFleet, name: str) -> None:
    ends = {"ActionsDeclined", "Triggered"} if name in DECLINED else {"Normal"}
    assert fleet.state(name) in ends


def test_event_counts_of_px_t9(fleet: RuleFleet) -> None:
    """For n resizes: Initializing once, InProgress => Taken and Taken => Normal n times, the others at least n times."""
    counts = fleet.transitions("px-t9")
    pending, progress, taken = "ActiveActionsPending", "ActiveActionsInProgress", "ActiveActionsTaken"
    assert counts["Initializing => Triggered"] + counts["Initializing => Normal"] == 1
    assert counts[f"{progress} => {taken}"] == 2
    assert counts[f"{taken} => Normal"] == 2
    assert counts["Normal => Triggered"] + counts["Initializing => Triggered"] == 2
    assert counts[f"Triggered => {pending}"] == 2
    assert counts[f"{pending} => {progress}"] == 2


def test_a_decline_is_recorded_as_one_of_px_t3(fleet: RuleFleet) -> None:
    counts = fleet.transitions("px-t3")
    assert counts["ActiveActionsInProgress => ActiveActionsTaken"] == 3
    assert counts["ActiveActionsInProgress => ActionsDeclined"] >= 1


def test_an_edited_rule_goes_on_as_px_t6(fleet: RuleFleet) -> None:
    edited = rule("px-t5", "capacity", "Lt", 20, scalepercentage="100", maxsize="30Gi")["spec"]
    fleet.edit("px-t5", **edited)
    fleet.wait(300)
    assert fleet.sizes("px-t5") == ["16Gi", "30Gi"]


def test_nothing_grows_any_more_as_px_t21(fleet: RuleFleet) -> None:
    """px-T21: ten minutes after everything has come to its size."""
    fleet.wait(300)
    before = len(fleet.actions())
    fleet.wait(600)
    assert len(fleet.actions()) == before


def test_each_expression_is_asked_once_a_poll_for_all_rules(fleet: RuleFleet) -> None:
    asked = fleet.volumes.asked[-1]
    assert sorted(asked) == ["capacity", "usage"]
