"""The absolute size that volume/resize aims at: percentage, size, least step, greatest size, rounding."""

from __future__ import annotations

import pytest

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, NoObjects, TargetDeclined, TargetNotReady
from pilothouse.rules.targets.target_table import target_of


def claim(
    capacity: str = "8Gi", *, requested: str = "", phase: str = "Bound", volume: str = "pvc-1"
) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "db"},
            "spec": {"volumeName": volume, "resources": {"requests": {"storage": requested or capacity}}},
            "status": {"phase": phase, "capacity": {"storage": capacity}},
        }
    )


def resize(**params: str) -> RuleAction:
    return RuleAction(name=RESIZE, params=params)


def sizes(capacity: str, **params: str) -> list[str]:
    """The sizes that one resize after another comes to, until it is declined."""
    found = []
    while isinstance(target := target_of(resize(**params), claim(capacity), NoObjects()), ActionTarget):
        assert target.fields["from"] == capacity
        capacity = target.fields["to"]
        found.append(capacity)
        if len(found) == 5:
            break
    return found


@pytest.mark.parametrize(
    ("capacity", "params", "expected"),
    [
        # px-T1, px-T3, px-T4, px-T5, px-T6, px-T7 as far as they are arithmetic.
        ("8Gi", {"scalepercentage": "50"}, ["12Gi", "18Gi", "27Gi", "41472Mi", "62208Mi"]),
        ("8Gi", {"scalepercentage": "50", "maxsize": "20Gi"}, ["12Gi", "18Gi", "20Gi"]),
        ("8Gi", {"scalepercentage": "300", "maxsize": "32Gi"}, ["32Gi"]),
        ("8Gi", {"scalepercentage": "100", "maxsize": "20Gi"}, ["16Gi", "20Gi"]),
        ("16Gi", {"scalepercentage": "100", "maxsize": "30Gi"}, ["30Gi"]),
        ("5Gi", {"scalepercentage": "100", "maxsize": "10Gi"}, ["10Gi"]),
        ("5Gi", {"scalepercentage": "100", "maxsize": "12Gi"}, ["10Gi", "12Gi"]),
        ("5Gi", {"scalepercentage": "100", "maxsize": "5Gi"}, []),
        ("5Gi", {"scalepercentage": "100", "maxsize": "4Gi"}, []),
        ("320Mi", {"maxsize": "1Gi"}, ["480Mi", "720Mi", "1Gi"]),
        ("100Mi", {"scalepercentage": "1", "maxsize": "103Mi"}, ["101Mi", "103Mi"]),
        ("1Gi", {"scalepercentage": "10", "minstep": "1Gi", "maxsize": "3Gi"}, ["2Gi", "3Gi"]),
        ("1Gi", {"scalesize": "512Mi", "maxsize": "2Gi"}, ["1536Mi", "2Gi"]),
        ("8Gi", {"maxsize": "10737418240"}, ["10Gi"]),
        ("1Gi", {"scalepercentage": "12.5", "maxsize": "1153Mi"}, ["1152Mi", "1153Mi"]),
    ],
)
def test_steps(capacity: str, params: dict[str, str], expected: list[str]) -> None:
    assert sizes(capacity, **params) == expected


def test_a_target_says_by_how_much_it_grows() -> None:
    assert target_of(resize(), claim("320Mi"), NoObjects()) == ActionTarget(
        {"from": "320Mi", "to": "480Mi"}, 160 * 1024 * 1024
    )


def test_a_volume_that_has_its_greatest_size_is_declined() -> None:
    declined = target_of(resize(maxsize="8Gi"), claim("8Gi"), NoObjects())
    assert declined == TargetDeclined("the volume has 8Gi, and maxsize is 8Gi")


def test_a_resize_under_way_is_never_built_upon() -> None:
    """The runaway of a storage that refuses: 13, 16, 19, 22 … Gi were requested in turn."""
    waits = target_of(resize(), claim("10Gi", requested="13Gi"), NoObjects())
    assert waits == TargetNotReady("13Gi is requested and the volume has 10Gi: a resize is under way")


@pytest.mark.parametrize("unbound", [claim(phase="Pending"), claim(phase="Lost"), claim(volume="")])
def test_a_claim_without_a_volume_has_no_target(unbound: Object) -> None:
    assert isinstance(target_of(resize(), unbound, NoObjects()), TargetNotReady)


@pytest.mark.parametrize(
    "params", [{"scalepercentage": "much"}, {"minstep": "x"}, {"maxsize": "x"}, {"scalepercentage": "0"}]
)
def test_parameters_that_can_not_be_used_decline(params: dict[str, str]) -> None:
    assert isinstance(target_of(resize(**params), claim(), NoObjects()), TargetDeclined)


def test_an_action_of_another_domain_has_no_target_of_its_own() -> None:
    snapshot = RuleAction(name="example.com.action.volume/snapshot", params={"keep": "3"})
    assert target_of(snapshot, claim(), NoObjects()) == ActionTarget()
