"""The targets of volume/setiops, volume/move and volume/ha: which class a claim is to have, or why none."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.rule_lookup import Lookup

from pilothouse.api.attributes_classes import computed_name
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import HA, MOVE, SET_IOPS, parameter_problems
from pilothouse.api.openstorage.v1alpha1 import RuleAction
from pilothouse.rules.action_targets import ActionTarget, TargetDeclined, TargetNotReady, TargetResult
from pilothouse.rules.targets.target_table import target_of

LOOP, DIRECTORY = "pilothouse.io/loop", "pilothouse.io/directory"


def claim(current: str = "silver", *, asked: str | None = None, size: str = "4Gi", **status: Any) -> Tree:
    asked = current if asked is None else asked
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "db", "uid": "c1"},
        "spec": {
            "volumeName": "pv-1",
            "storageClassName": "loop",
            "resources": {"requests": {"storage": size}},
            **({"volumeAttributesClassName": asked} if asked else {}),
        },
        "status": {
            "phase": "Bound",
            "capacity": {"storage": size},
            **({"currentVolumeAttributesClassName": current} if current else {}),
            **status,
        },
    }


def volume(driver: str = LOOP, node: str = "w1") -> Tree:
    annotations = {"pv.kubernetes.io/provisioned-by": driver, "pilothouse.io/node": node}
    meta = {"name": "pv-1", "annotations": {name: value for name, value in annotations.items() if value}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": {}}


def attributes(name: str, driver: str = LOOP, **parameters: str) -> Tree:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": name},
        "driverName": driver,
        "parameters": parameters,
    }


def pool(tier: str, *, node: str = "w1", capacity: str = "20Gi", used: str = "0") -> Tree:
    status = {"node": node, "tier": tier, "capacity": capacity, "used": used}
    meta = {"name": f"{node}-{tier}"}
    return {"apiVersion": "pilothouse.io/v1alpha1", "kind": "StoragePool", "metadata": meta, "status": status}


CLASSES = (
    attributes("bronze", iops="100"),
    attributes("silver", iops="200", throughput="20Mi"),
    attributes("gold", iops="400"),
)


def target(name: str, params: dict[str, str], about: Tree, *others: Tree) -> TargetResult:
    world = Lookup([about, *(others or (volume(), *CLASSES))])
    return target_of(RuleAction(name=name, params=params), Object.of(about), world)


def setiops(about: Tree, *others: Tree, **params: str) -> TargetResult:
    return target(SET_IOPS, params, about, *others)


def move(about: Tree, *others: Tree, **params: str) -> TargetResult:
    return target(MOVE, params, about, *others)


@pytest.mark.parametrize(
    ("current", "step", "to"),
    [("bronze", "up", "silver"), ("silver", "up", "gold"), ("gold", "down", "silver")],
)
def test_a_step_goes_along_the_list(current: str, step: str, to: str) -> None:
    found = setiops(claim(current), classes="bronze, silver,gold", step=step)
    assert found == ActionTarget({"from": current, "to": to})


@pytest.mark.parametrize(
    ("current", "step", "end"), [("gold", "up", "highest"), ("bronze", "down", "lowest")]
)
def test_the_end_of_the_list_declines(current: str, step: str, end: str) -> None:
    found = setiops(claim(current), classes="bronze,silver,gold", step=step)
    assert found == TargetDeclined(f"the volume has class {current}, the {end} of bronze, silver, gold")


@pytest.mark.parametrize("params", [{"classes": "bronze,silver", "step": "up"}, {"iops": "500"}])
def test_a_volume_without_a_limit_has_nothing_to_raise(params: dict[str, str]) -> None:
    found = setiops(claim(""), **params)
    assert found == TargetDeclined("the volume has no VolumeAttributesClass, so there is no limit to raise")


def test_a_class_has_to_exist_and_to_fit_the_driver() -> None:
    listed = {"classes": "silver,gold", "step": "up"}
    missing = setiops(claim("silver"), volume(), attributes("silver", iops="1"), **listed)
    assert missing == TargetDeclined("class gold does not exist")
    others = (volume(), attributes("silver", iops="1"), attributes("gold", "ebs.csi.aws.com", iops="9"))
    foreign = setiops(claim("silver"), *others, **listed)
    assert foreign == TargetDeclined(
        "class gold is for volumes of ebs.csi.aws.com, and this is one of pilothouse.io/loop"
    )
    elsewhere = setiops(claim("loose"), volume(), attributes("loose", iops="1"), *CLASSES, **listed)
    assert elsewhere == TargetDeclined("the volume has class loose, which is not one of silver, gold")


@pytest.mark.parametrize(
    ("params", "iops"),
    [
        ({"iops": "500"}, "500"),
        ({"scalepercentage": "50"}, "300"),
        ({"scalepercentage": "-50"}, "100"),
        ({"scalepercentage": "0.1"}, "201"),
        ({"scalepercentage": "100", "maxiops": "350"}, "350"),
        ({"scalepercentage": "-90", "miniops": "150"}, "150"),
    ],
)
def test_a_computed_class_keeps_the_other_parameters(params: dict[str, str], iops: str) -> None:
    name = computed_name(LOOP, {"throughput": "20Mi", "iops": iops})
    assert setiops(claim(), **params) == ActionTarget(
        {"from": "200 IOPS", "to": f"{iops} IOPS", "class": name, "iops": iops}
    )


@pytest.mark.parametrize(
    ("has", "params", "changes"),
    [
        ({"readIops": "200"}, {"scalepercentage": "50"}, {"readIops": "300"}),
        (
            {"readIops": "200", "writeIops": "100"},
            {"scalepercentage": "100", "maxiops": "300"},
            {"readIops": "300", "writeIops": "200"},
        ),
        # The limit of one side overrides that of both.
        (
            {"iops": "400", "writeIops": "100"},
            {"scalepercentage": "50", "maxiops": "400"},
            {"writeIops": "150"},
        ),
        ({"readIops": "200", "writeIops": "100"}, {"iops": "500"}, {"readIops": "500", "writeIops": "500"}),
        (
            {"readIops": "200", "writeIops": "100"},
            {"scalepercentage": "-50", "miniops": "100"},
            {"readIops": "100"},
        ),
    ],
)
def test_limits_of_one_side_are_changed_too(
    has: dict[str, str], params: dict[str, str], changes: dict[str, str]
) -> None:
    sided = attributes("sided", throughput="20Mi", **has)
    name = computed_name(LOOP, {"throughput": "20Mi", **has, **changes})
    found = setiops(claim("sided"), volume(), sided, **params)
    assert isinstance(found, ActionTarget)
    words = {"from": found.fields["from"], "to": found.fields["to"]}
    assert found.fields == {**words, "class": name, **changes}


def test_the_limits_of_a_target_are_in_words() -> None:
    sided = attributes("sided", readIops="2k", writeIops="100")
    found = setiops(claim("sided"), volume(), sided, scalepercentage="50")
    assert isinstance(found, ActionTarget)
    assert found.summary.startswith(
        "from 2000 read IOPS and 100 write IOPS to 3000 read IOPS and 150 write IOPS class autopilot-"
    )


def test_limits_that_are_not_changed_are_named() -> None:
    sided = attributes("sided", readIops="200", writeIops="100")
    found = setiops(claim("sided"), volume(), sided, scalepercentage="50", maxiops="100")
    assert found == TargetDeclined("the volume has 200 read IOPS and 100 write IOPS, and maxiops is 100")
    scaled = attributes("scaled", io_throttle_iops_scale_factor="40", io_throttle_wr_iops="300")
    declined = setiops(claim("scaled"), volume(), scaled, scalepercentage="50")
    assert isinstance(declined, TargetDeclined)
    assert declined.because == (
        "class scaled of the volume limits its operations by io_throttle_iops_scale_factor, io_throttle_wr_iops, "
        "which can't be scaled; list classes with other limits in classes, and give step"
    )
    slow = attributes("slow", io_throttle_rd_bw="10")
    assert setiops(claim("slow"), volume(), slow, scalepercentage="50") == TargetDeclined(
        "class slow of the volume has no iops, so there is no limit to raise"
    )


def test_claims_with_the_same_parameters_share_a_class() -> None:
    assert computed_name(LOOP, {"a": "1", "b": "2"}) == computed_name(LOOP, {"b": "2", "a": "1"})
    assert computed_name(LOOP, {"a": "1"}) != computed_name("other", {"a": "1"})


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"scalepercentage": "50", "maxiops": "200"}, "the volume has 200 IOPS, and maxiops is 200"),
        ({"scalepercentage": "50", "maxiops": "150"}, "the volume has 200 IOPS, and maxiops is 150"),
        ({"scalepercentage": "-50", "miniops": "200"}, "the volume has 200 IOPS, and miniops is 200"),
        ({"iops": "200"}, "the volume has 200 IOPS"),
    ],
)
def test_bounds_decline(params: dict[str, str], why: str) -> None:
    assert setiops(claim(), **params) == TargetDeclined(why)


def test_a_change_under_way_is_not_built_upon() -> None:
    found = setiops(claim("silver", asked="gold"), iops="500")
    assert found == TargetNotReady("class gold is requested and the volume has silver: a change is under way")
    error = {"type": "ModifyVolumeError", "status": "True", "message": "not on this disk"}
    found = setiops(claim("silver", asked="gold", conditions=[error]), iops="500")
    assert found == TargetNotReady("class gold is requested and the volume has silver: not on this disk")


def test_a_move_names_the_tier_and_a_class_that_says_so() -> None:
    others = (volume(), *CLASSES, pool("default"), pool("fast"))
    name = computed_name(LOOP, {"iops": "200", "throughput": "20Mi", "tier": "fast"})
    assert move(claim(), *others, tier="fast") == ActionTarget(
        {"from": "default", "to": "fast", "class": name}
    )
    plain = computed_name(LOOP, {"tier": "fast"})
    assert move(claim(""), *others, tier="fast") == ActionTarget(
        {"from": "default", "to": "fast", "class": plain}
    )
    named = (*others, attributes("fast-disks", tier="fast"))
    assert move(claim(), *named, **{"class": "fast-disks"}) == ActionTarget(
        {"from": "default", "to": "fast", "class": "fast-disks"}
    )


def test_a_tier_that_is_not_there_or_has_no_room_declines_with_what_there_is() -> None:
    others = (volume(), *CLASSES, pool("default"), pool("fast", used="18Gi"), pool("slow", node="w2"))
    assert move(claim(), *others, tier="slow") == TargetDeclined(
        "node w1 has no tier slow; it has default (20Gi free), fast (2Gi free)"
    )
    assert move(claim(), *others, tier="fast") == TargetDeclined(
        "tier fast of node w1 has no room for 4Gi; there are default (20Gi free), fast (2Gi free)"
    )
    assert move(claim(), *others, tier="default") == TargetDeclined("the volume is in tier default already")
    remote = (volume(node=""), *CLASSES)
    assert isinstance(move(claim(), *remote, tier="fast"), TargetDeclined)


def test_a_class_of_the_same_tier_gives_space_back() -> None:
    others = (volume(), *CLASSES, pool("default"), attributes("sparse", allocation="sparse"))
    assert move(claim(), *others, **{"class": "sparse"}) == ActionTarget(
        {"from": "default", "to": "default", "class": "sparse"}
    )


def test_a_directory_has_neither_allocation_nor_limits() -> None:
    """Its node would answer that it is not feasible, and the action would fail."""
    why = "a directory shares its disk with everything else: only loop volumes can have that"
    others = (
        volume(DIRECTORY),
        pool("default"),
        pool("fast"),
        attributes("plain", DIRECTORY),
        attributes("sparse", DIRECTORY, allocation="sparse"),
        attributes("quick", DIRECTORY, tier="fast", keep="1m", deadline="5m"),
        attributes("limited", DIRECTORY, iops="500"),
    )
    found = move(claim("plain"), *others, **{"class": "sparse"})
    assert found == TargetDeclined(f"class sparse has allocation, and {why}")
    assert isinstance(move(claim("plain"), *others, **{"class": "quick"}), ActionTarget)
    limited = setiops(claim("plain"), *others, classes="plain,limited", step="up")
    assert limited == TargetDeclined(f"class limited has iops, and {why}")


def test_copies_of_a_volume_are_declined_and_why() -> None:
    found = target(HA, {"level": "2"}, claim())
    assert isinstance(found, TargetDeclined)
    assert "application/redundancy" in found.because


@pytest.mark.parametrize(
    ("name", "params", "problem"),
    [
        (
            MOVE,
            {"node": "w2", "tier": "fast"},
            "params.node: Forbidden: a local volume can't leave its machine",
        ),
        (MOVE, {}, "params.tier: Required value"),
        (MOVE, {"tier": "a", "class": "b"}, "params.class: Forbidden"),
        (SET_IOPS, {"step": "up"}, "params.classes: Required value"),
        (SET_IOPS, {"classes": "a,b"}, "params.step: Required value: classes needs it"),
        (SET_IOPS, {"iops": "5", "miniops": "9", "maxiops": "3"}, "must not be above maxiops, which is 3"),
    ],
)
def test_parameters_that_can_not_be_are_refused(name: str, params: dict[str, str], problem: str) -> None:
    assert problem in " ".join(str(each) for each in parameter_problems(name, params, "params"))
