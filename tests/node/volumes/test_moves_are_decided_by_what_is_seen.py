"""What is next in a move between tiers, as functions of the journal, the claim and the pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.local_volumes import LOOP, NODE, PROVISIONED_BY
from pilothouse.api.objects import Object
from pilothouse.node.volumes.btrfs_replace import ReplaceProgress, parse
from pilothouse.node.volumes.move_journal import MovePhase, MoveRecord
from pilothouse.node.volumes.move_plan import (
    AfterSwitch,
    PodReadiness,
    after_switch,
    is_another_pass_worthwhile,
    is_wanted,
    observed,
)
from pilothouse.node.volumes.tree_copy import CopyPass
from pilothouse.node.volumes.volume_plan import (
    DeleteVolume,
    ExpandVolume,
    ModifyVolume,
    MoveVolume,
    plan_volumes,
)

MI = 1 << 20
MOVE = MoveRecord("pvc-1", "gold", "", "", "fast", MovePhase.KEPT, keep=100.0, deadline=60.0, reported=True)
NOW = 10_000.0


def claim(attributes: str = "gold", size: str = "1Gi", **status: Any) -> Object:
    tree = {
        "metadata": {"name": "data", "namespace": "default", "uid": "1"},
        "spec": {
            "volumeName": "pvc-1",
            "volumeAttributesClassName": attributes,
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, **status},
    }
    return Object(PersistentVolumeClaim, tree)


VOLUME = Object(
    PersistentVolume,
    {
        "metadata": {"name": "pvc-1", "uid": "v", "annotations": {NODE: "n1", PROVISIONED_BY: LOOP}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {"uid": "1"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": "Released"},
    },
)


def planned(asked: Object | None, phase: MovePhase, **fields: Any) -> list[type]:
    move = msgspec.structs.replace(MOVE, phase=phase, **fields)
    claims = [asked] if asked is not None else []
    return [type(step) for step in plan_volumes("n1", claims, [VOLUME], {"pvc-1": move})]


def test_a_move_that_has_begun_goes_on_and_the_class_waits_for_it() -> None:
    assert planned(claim(), MovePhase.COPYING) == [MoveVolume]
    assert planned(claim("other"), MovePhase.FINISHING) == [MoveVolume]


def test_a_volume_grows_while_it_is_moved() -> None:
    assert planned(claim(size="2Gi"), MovePhase.COPYING) == [ExpandVolume, MoveVolume]


def test_another_class_is_applied_while_the_old_copy_is_kept() -> None:
    assert planned(claim("other"), MovePhase.KEPT) == [MoveVolume, ModifyVolume]
    assert planned(claim("other"), MovePhase.KEPT, reported=False) == [MoveVolume]


def test_a_move_that_has_returned_is_not_retried_until_another_class_is_asked_for() -> None:
    assert planned(claim(), MovePhase.RETURNED) == []
    assert planned(claim(), MovePhase.RETURNED, reported=False) == [MoveVolume]
    assert planned(claim("other"), MovePhase.RETURNED) == [MoveVolume]


def test_a_volume_is_deleted_after_its_move_has_ended() -> None:
    assert planned(None, MovePhase.COPYING) == [MoveVolume]
    assert [type(step) for step in plan_volumes("n1", [], [VOLUME])] == [DeleteVolume]


def test_the_class_that_a_claim_has_is_applied_again_after_an_attempt_at_another() -> None:
    failed = {"targetVolumeAttributesClassName": "bad", "status": "Infeasible"}
    asked = claim(currentVolumeAttributesClassName="gold", modifyVolumeStatus=failed)
    assert [type(step) for step in plan_volumes("n1", [asked], [VOLUME])] == [ModifyVolume]


@pytest.mark.parametrize(
    ("last", "before", "again"),
    [(900 * MI, None, True), (300 * MI, 900 * MI, True), (700 * MI, 900 * MI, False), (MI, None, False)],
)
def test_another_pass_pays_while_each_is_much_smaller(last: int, before: int | None, again: bool) -> None:
    earlier = CopyPass(before, 1.0) if before is not None else None
    assert is_another_pass_worthwhile(CopyPass(last, 1.0), earlier) is again


def test_a_move_is_wanted_by_a_claim_that_names_its_class() -> None:
    assert is_wanted(MOVE, claim())
    assert not is_wanted(MOVE, claim("other"))
    assert not is_wanted(MOVE, None)


@pytest.mark.parametrize(
    ("mounted", "was_ready", "pods", "next_step"),
    [
        (0.0, False, [], AfterSwitch.WAIT),
        (NOW - 50, False, [PodReadiness(False, 0.0)], AfterSwitch.WAIT),
        (NOW - 61, False, [PodReadiness(False, 0.0)], AfterSwitch.RETURN),
        (NOW - 61, False, [], AfterSwitch.RETURN),
        (NOW - 61, True, [PodReadiness(False, NOW - 1)], AfterSwitch.WAIT),
        (NOW - 500, True, [PodReadiness(True, NOW - 99)], AfterSwitch.WAIT),
        (NOW - 500, True, [PodReadiness(True, NOW - 100)], AfterSwitch.REMOVE),
        (NOW - 50, True, [PodReadiness(True, NOW - 1000)], AfterSwitch.WAIT),
    ],
)
def test_the_old_copy_is_kept_removed_or_returned_to(
    mounted: float, was_ready: bool, pods: list[PodReadiness], next_step: AfterSwitch
) -> None:
    move = msgspec.structs.replace(MOVE, mounted=mounted, was_ready=was_ready)
    assert after_switch(move, pods, NOW) is next_step


def test_a_pod_that_was_ready_between_two_looks_is_noticed() -> None:
    first = observed(MOVE, [PodReadiness(False, NOW - 5)], NOW)
    assert (first.mounted, first.was_ready) == (NOW, False)
    assert observed(first, [PodReadiness(False, NOW - 5)], NOW + 9).was_ready is False
    assert observed(first, [PodReadiness(False, NOW + 4)], NOW + 9).was_ready is True
    assert observed(first, [PodReadiness(True, NOW + 4)], NOW + 9).was_ready is True


def test_the_progress_of_btrfs_is_read() -> None:
    assert parse("12.5% done, 3 write errs, 0 uncorr. read errs\n") == ReplaceProgress(True, 12.5, 3)
    assert parse("Never started\n") == ReplaceProgress(False)
    suspended = "Started on 18.Nov 16:00:00, suspended on 18.Nov 16:00:07 at 40.0%, 0 write errs"
    assert parse(suspended) == ReplaceProgress(True, 40.0, 0)
