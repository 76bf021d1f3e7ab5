"""Actions that change a claim's VolumeAttributesClass, its tier, or its owner's size: once, and without a fight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.kit.scheduling_objects import NOW, claim, pod, seen, storage_class, volume
from tests.runtime.conftest import Bench

from pilothouse.api.attributes_classes import COMPUTED, computed_class, computed_name
from pilothouse.api.kind_names import (
    ApplicationAction,
    CustomResourceDefinition,
    KindName,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import EXPAND_POOL, MOVE, REBALANCE_POOL, RESIZE, SET_IOPS
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.computed_classes import computed_classes
from pilothouse.controllers.application_actions.pool_actions import storage_pools
from pilothouse.controllers.application_actions.volume_iops import volume_setiops
from pilothouse.controllers.application_actions.volume_move import volume_move
from pilothouse.runtime.intents import Create, Delete, Evict, Intent, PatchObject, SetStatus, Wait
from pilothouse.sim.loop import SeededLoop

LOOP = "pilothouse.io/loop"
SILVER = {"iops": "200", "throughput": "20Mi"}


def action(
    name: str, target: Tree, *, do: str, uid: str = "uid-data", about: str = "data", **rest: Any
) -> Tree:
    kind = (
        ("pilothouse.io/v1alpha1", "StoragePool") if "storagepool" in do else ("v1", "PersistentVolumeClaim")
    )
    reference = {"apiVersion": kind[0], "kind": kind[1], "name": about, "uid": uid}
    spec = {"rule": "tune", "object": reference, "action": do, "target": target}
    if "parameters" in rest:
        spec["parameters"] = rest["parameters"]
    created = format_time(rest.get("created", NOW))
    return {
        "apiVersion": ApplicationAction.api_version,
        "kind": ApplicationAction.kind,
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
        "spec": spec,
        **({"status": rest["status"]} if "status" in rest else {}),
    }


def begun(reason: str, **fields: Any) -> Tree:
    condition = {"type": "Complete", "status": "False", "reason": reason, "message": ""}
    return {
        "phase": "Running",
        "startTime": format_time(NOW),
        "attempts": 1,
        "conditions": [condition],
        **fields,
    }


def attributes(name: str, driver: str = LOOP, **parameters: str) -> Tree:
    meta = {"name": name}
    made = computed_class(driver, parameters)
    return {**made, "metadata": meta}


def data(current: str = "silver", *, asked: str | None = None, **status: Any) -> Tree:
    asked = current if asked is None else asked
    return claim(
        volumeName="pv-1",
        storageClassName="loop",
        **({"volumeAttributesClassName": asked} if asked else {}),
        status={
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            **({"currentVolumeAttributesClassName": current} if current else {}),
            **status,
        },
    )


def disk() -> Tree:
    made = volume("pv-1", phase="Bound")
    made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": LOOP, "pilothouse.io/node": "w1"}
    return made


CLASSES = (attributes("silver", **SILVER), attributes("gold", iops="400"))


def end(intents: list[Intent]) -> tuple[str, str, str]:
    """Phase, reason and message of the last status."""
    written = [each for each in intents if isinstance(each, SetStatus)][-1].status
    (condition,) = (each for each in written["conditions"] if each["type"] == "Complete")
    return written["phase"], condition["reason"], condition["message"]


def setiops(about: Tree, *others: Tree, now: float = NOW, **fields: Any) -> list[Intent]:
    target = fields.pop("target", {"from": "silver", "to": "gold"})
    made = action("tune-1", target, do=SET_IOPS, **fields)
    return seen(volume_setiops, made, about, disk(), *(others or CLASSES), now=now)


def test_the_status_says_running_before_the_claim_is_changed() -> None:
    first, write, event, second = setiops(data())
    assert isinstance(first, SetStatus)
    assert isinstance(write, PatchObject)
    assert write.fields == {"spec": {"volumeAttributesClassName": "gold"}}
    assert write.provided is not None
    assert event.event == "ModifyRequested"
    assert end([second])[:2] == ("Running", "Modifying")


def test_a_computed_class_is_created_once_and_has_our_label() -> None:
    wanted = {**SILVER, "iops": "300"}
    target = {"from": "silver", "to": computed_name(LOOP, wanted), "iops": "300"}
    made = next(each for each in setiops(data(), target=target) if isinstance(each, Create))
    assert made.object["parameters"] == wanted
    assert made.object["metadata"]["labels"] == {COMPUTED: "true"}
    shared = setiops(data(), *CLASSES, computed_class(LOOP, wanted), target=target)
    assert not any(isinstance(each, Create) for each in shared)
    changed = setiops(data("gold"), target=target)
    assert end(changed)[:2] == ("Failed", "ClassNotUsable")


def test_a_target_may_name_its_class_apart_from_its_limits() -> None:
    name = computed_name(LOOP, {**SILVER, "iops": "300"})
    target = {"from": "200 IOPS", "to": "300 IOPS", "class": name, "iops": "300"}
    write = next(each for each in setiops(data(), target=target) if isinstance(each, PatchObject))
    assert write.fields == {"spec": {"volumeAttributesClassName": name}}


def test_limits_of_one_side_are_in_the_computed_class() -> None:
    wanted = {**SILVER, "readIops": "300", "writeIops": "150"}
    target = {"from": "silver", "to": computed_name(LOOP, wanted), "readIops": "300", "writeIops": "150"}
    made = next(each for each in setiops(data(), target=target) if isinstance(each, Create))
    assert made.object["parameters"] == wanted


@pytest.mark.parametrize(
    ("status", "later", "outcome"),
    [
        ({}, 599, ("Running", "Modifying", "claim data waits for class gold: its driver has not answered")),
        (
            {},
            600,
            (
                "Failed",
                "NoAnswer",
                "no driver has answered within 10 minutes that claim data is to have class gold; the request stays",
            ),
        ),
        (
            {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "InProgress"}},
            3599,
            ("Running", "Modifying", "claim data waits for class gold: its driver works on it"),
        ),
        (
            {
                "modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "Infeasible"},
                "conditions": [{"type": "ModifyVolumeError", "status": "True", "message": "too many IOPS"}],
            },
            5,
            ("Failed", "Infeasible", "claim data can't have class gold: too many IOPS"),
        ),
        (
            {
                "modifyVolumeStatus": {"targetVolumeAttributesClassName": "bronze", "status": "Infeasible"},
                "conditions": [
                    {"type": "ModifyVolumeError", "status": "True", "message": "of another class"}
                ],
            },
            5,
            ("Running", "Modifying", "claim data waits for class gold: its driver has not answered"),
        ),
    ],
)
def test_what_the_driver_answers(status: Tree, later: float, outcome: tuple[str, str, str]) -> None:
    found = setiops(data(asked="gold", **status), status=begun("Modifying"), now=NOW + later)
    assert end(found) == outcome


def test_it_has_succeeded_when_the_volume_has_the_class() -> None:
    done = setiops(data("gold"), status=begun("Modifying", before={"class": "silver"}))
    assert end(done) == ("Succeeded", "Modified", "the class of claim data changed from silver to gold")
    already = setiops(data("gold"))
    assert end(already)[:2] == ("Succeeded", "HasClass")


def test_another_class_that_is_asked_for_comes_first_and_is_not_overruled() -> None:
    (waits,) = setiops(data(asked="bronze"))
    assert isinstance(waits, Wait)
    assert waits.reason == "ModifyInProgress"
    undone = setiops(data(asked="bronze"), status=begun("Modifying"))
    assert end(undone)[:2] == ("Failed", "Undone")
    assert "from gold to bronze" in end(undone)[2]


def test_a_class_that_was_asked_for_before_the_write_stays() -> None:
    """The manager was killed between the status and the claim, and somebody else was first."""
    status = begun("Requesting", before={"class": "silver", "tier": "default"})
    first = setiops(data(asked="bronze"), status=status)
    assert end(first)[:2] == ("Failed", "Undone")
    assert "from silver to bronze" in end(first)[2]
    assert end(moved(data(asked="bronze"), status=status))[:2] == ("Failed", "Undone")
    again = setiops(data(), status=status)
    assert [each.fields for each in again if isinstance(each, PatchObject)] == [
        {"spec": {"volumeAttributesClassName": "gold"}}
    ]
    progress = {"moved": "", "claim": "default/data", "class": FAST, "since": format_time(NOW)}
    pooled = rebalance(begun("Moving", progress=progress))
    found = seen(storage_pools, pooled, pool("default"), disk(), data(asked="bronze"), *CLASSES)
    assert end(found)[:2] == ("Failed", "NotMoved")


def test_a_class_of_another_driver_is_not_used() -> None:
    others = (CLASSES[0], attributes("gold", "ebs.csi.aws.com", iops="9"))
    assert end(setiops(data(), *others))[:2] == ("Failed", "ClassNotUsable")


FAST = computed_name(LOOP, {"tier": "fast"})


def moved(about: Tree, *others: Tree, now: float = NOW, **fields: Any) -> list[Intent]:
    parameters = fields.pop("parameters", {"tier": "fast"})
    target = {"from": "default", "to": "fast", "class": FAST}
    made = action("move-1", target, do=MOVE, parameters=parameters, **fields)
    return seen(volume_move, made, about, disk(), *others, now=now)


def moving(reason: str, message: str, status: str = "True", current: str = "") -> Tree:
    condition = {"type": "pilothouse.io/VolumeMove", "status": status, "reason": reason, "message": message}
    modify = {"targetVolumeAttributesClassName": FAST, "status": "InProgress"}
    return data(current, asked=FAST, conditions=[condition], modifyVolumeStatus=modify)


def user(name: str = "db-0", *, owner: str = "db", phase: str = "Running") -> Tree:
    made = pod(name, on="w1", owner=owner, claims=["data"], labels={"app": "db"})
    ready = {"type": "Ready", "status": "True"}
    return {**made, "status": {"phase": phase, "conditions": [ready]}}


def budget(allowed: int) -> Tree:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": 1},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "desiredHealthy": 1,
            "currentHealthy": 1 + allowed,
        },
    }


def test_a_move_asks_for_the_tier_and_how_long_the_old_copy_is_kept() -> None:
    found = moved(data(""), parameters={"tier": "fast", "keep": "2h"})
    made = next(each for each in found if isinstance(each, Create))
    assert made.object["parameters"] == {"tier": "fast"}
    write = next(each for each in found if isinstance(each, PatchObject))
    assert write.fields["metadata"] == {"annotations": {"pilothouse.io/move-keep": "2h"}}
    assert write.fields["spec"] == {"volumeAttributesClassName": FAST}


@pytest.mark.parametrize("before", [{}, {"keep": "2h"}])
@pytest.mark.parametrize("ends", ["Moved", "Returned"])
def test_how_long_the_old_copy_is_kept_is_not_said_of_later_moves(before: Tree, ends: str) -> None:
    succeeds = ends == "Moved"
    there = moving("Kept", "kept", current=FAST) if succeeds else moving("Returned", "back", status="False")
    claim = {**there, "metadata": {**there["metadata"], "annotations": {"pilothouse.io/move-keep": "5s"}}}
    fields: Tree = {"parameters": {"tier": "fast", "keep": "5s"}, "status": begun("Moving", before=before)}
    put_back, ended = moved(claim, **fields)
    assert isinstance(put_back, PatchObject)
    assert put_back.fields == {"metadata": {"annotations": {"pilothouse.io/move-keep": before.get("keep")}}}
    assert end([ended])[1] == ends
    # It was put back and the manager was killed, or a person has changed it: it stays.
    (ended,) = moved(there, **fields)
    claim["metadata"]["annotations"]["pilothouse.io/move-keep"] = "3h"
    (ended,) = moved(claim, **fields)


def test_the_annotation_from_before_a_move_is_remembered() -> None:
    about = data("")
    about["metadata"]["annotations"] = {"pilothouse.io/move-keep": "2h"}
    found = moved(about, parameters={"tier": "fast", "keep": "5s"})
    assert [dict(each.status["before"]) for each in found if isinstance(each, SetStatus)] == [
        {"tier": "default", "class": "", "keep": "2h"}
    ] * 2


def test_the_pod_is_evicted_when_the_node_waits_for_it_and_not_before() -> None:
    copying = moved(moving("Copying", "40 %"), user(), status=begun("Moving"))
    assert end(copying) == ("Running", "Moving", "the volume of claim data moves to tier fast: 40 %")
    assert not any(isinstance(each, Evict) for each in copying)
    waiting = moving("AwaitingRestart", "copied, its pod has to stop")
    found = moved(waiting, user(), budget(1), status=begun("Moving"))
    (evicted,) = (each for each in found if isinstance(each, Evict))
    assert (evicted.by, evicted.because) == (
        "volume-move",
        "rule tune moves the volume of claim data to tier fast",
    )
    # The claim may be older than the pod, which then has the copy: the server is asked again.
    assert evicted.premise is not None
    assert (evicted.premise.seen.name, evicted.premise.kind) == ("data", "pilothouse.io/VolumeMove")
    held = moved(waiting, user(phase="Pending"), budget(0), status=begun("Moving"))
    assert not any(isinstance(each, Evict) for each in held)


def test_a_budget_and_a_pod_without_controller_are_waited_for() -> None:
    waiting = moving("AwaitingRestart", "copied")
    found = moved(waiting, user(), budget(0), status=begun("Moving"))
    assert not any(isinstance(each, Evict) for each in found)
    assert "pod db-0 can't be evicted: disruption budget db needs 1 healthy pods and has 1" in end(found)[2]
    bare = moved(waiting, user(owner=""), status=begun("Moving"))
    assert not any(isinstance(each, Evict) for each in bare)
    assert "has no controller that would start it again" in end(bare)[2]


@pytest.mark.parametrize("reason", ["Kept", ""])
def test_a_move_is_done_when_the_node_says_so(reason: str) -> None:
    there = moving(reason, "the old copy is kept", status="True" if reason else "False", current=FAST)
    assert end(moved(there, status=begun("Moving")))[:2] == ("Succeeded", "Moved")
    finishing = moving("Finishing", "comparing", current=FAST)
    assert end(moved(finishing, status=begun("Moving")))[0] == "Running"


def test_a_move_is_not_done_before_a_pod_was_ready_on_the_copy() -> None:
    waiting = moving("AwaitingReady", "its pod has to become ready", current=FAST)
    found = moved(waiting, user(), status=begun("Moving"))
    assert end(found)[:2] == ("Running", "Moving")
    assert not any(isinstance(each, Evict) for each in found)
    # The node has failed to return to the old copy, and tries again.
    failed = moving("Failed", "the disk is gone", status="False", current=FAST)
    assert end(moved(failed, user(), status=begun("Moving")))[:2] == ("Running", "Moving")


def test_a_pod_that_does_not_become_ready_is_evicted_for_the_return() -> None:
    waiting = moving("AwaitingRestart", "not ready in time: to return", current=FAST)
    found = moved(waiting, user(), budget(1), status=begun("Moving"))
    assert [each.seen.name for each in found if isinstance(each, Evict)] == ["db-0"]
    # Its containers that initialize it fail again and again: it is Pending, and has the volume.
    failing = user(phase="Pending")
    failing["status"]["initContainerStatuses"] = [{"name": "init", "restartCount": 4}]
    found = moved(waiting, failing, budget(0), status=begun("Moving"))
    assert [each.seen.name for each in found if isinstance(each, Evict)] == ["db-0"]


def test_a_volume_that_has_gone_back_fails_the_move_and_says_why() -> None:
    back = moving("Returned", "its pod was not ready within 600 s", status="False")
    expected = "the volume of claim data does not stay in tier fast: its pod was not ready within 600 s"
    assert end(moved(back, status=begun("Moving"))) == ("Failed", "Returned", expected)
    state = {
        "moved": "",
        "claim": "default/data",
        "class": FAST,
        "since": format_time(NOW),
        "requested": "true",
    }
    pooled = rebalance(begun("Moving", progress=state))
    found = seen(storage_pools, pooled, pool("default"), disk(), back)
    assert end(found) == ("Failed", "Returned", f"{expected}; moved before: none")


def test_a_moved_volume_that_no_pod_uses_is_waited_for_a_while() -> None:
    waiting = moving("AwaitingReady", "its pod has to become ready", current=FAST)
    found = moved(waiting, status=begun("Moving"))
    assert end(found)[0] == "Running"
    assert progress(found) == {"unused": format_time(NOW)}
    status = begun("Moving", progress=progress(found))
    assert end(moved(waiting, status=status, now=NOW + 599))[0] == "Running"
    assert progress(moved(waiting, user(), status=status, now=NOW + 599)) == {}
    assert end(moved(waiting, status=status, now=NOW + 600))[:2] == ("Succeeded", "Moved")


def test_a_move_has_a_deadline() -> None:
    found = moved(moving("Copying", "3 %"), status=begun("Moving"), now=NOW + 86400)
    assert end(found) == (
        "Failed",
        "NotMoved",
        "the volume of claim data is not in tier fast after 24 hours: 3 %",
    )


def pool(tier: str = "fast", *, capacity: str = "2Gi", asks: str = "", **status: Any) -> Tree:
    return {
        "apiVersion": StoragePool.api_version,
        "kind": StoragePool.kind,
        "metadata": {"name": f"w1-{tier}", "uid": f"uid-{tier}"},
        "spec": {"capacity": asks},
        "status": {"node": "w1", "tier": tier, "capacity": capacity, "expandable": True, **status},
    }


def expansion(name: str = "grow-1", tier: str = "fast", **fields: Any) -> Tree:
    return action(
        name, {"from": "2Gi", "to": "3Gi"}, do=EXPAND_POOL, uid=f"uid-{tier}", about=f"w1-{tier}", **fields
    )


def test_a_pool_is_expanded_once_wherever_the_manager_is_killed() -> None:
    """px-T14, px-T15: the target is absolute, and the status says Running before anything is written."""
    begins = seen(storage_pools, expansion(), pool())
    assert isinstance(begins[0], SetStatus)
    (write,) = (each for each in begins if isinstance(each, PatchObject))
    assert write.fields == {"spec": {"capacity": "3Gi"}}
    # Killed after the first status, after the write, and after the node has done it.
    again = seen(storage_pools, expansion(status=begun("Requesting")), pool())
    assert [each.fields for each in again if isinstance(each, PatchObject)] == [write.fields]
    waits = seen(storage_pools, expansion(status=begun("Requesting")), pool(asks="3Gi"))
    assert not any(isinstance(each, PatchObject) for each in waits)
    done = seen(storage_pools, expansion(status=begun("Expanding")), pool(asks="3Gi", capacity="3Gi"))
    assert end(done)[:2] == ("Succeeded", "Expanded")


def test_one_pool_at_a_time_in_the_whole_cluster() -> None:
    """px-D6."""
    running = expansion("grow-0", "slow", status=begun("Expanding"))
    (waits,) = seen(storage_pools, expansion(), running, pool(), pool("slow"))
    assert isinstance(waits, Wait)
    assert waits.because == "grow-0 changes pool w1-slow; one pool at a time"
    earlier = expansion("grow-0", "slow", created=NOW - 5)
    (waits,) = seen(storage_pools, expansion(), earlier, pool(), pool("slow"))
    assert isinstance(waits, Wait)
    assert any(
        isinstance(each, PatchObject) for each in seen(storage_pools, earlier, expansion(), pool("slow"))
    )


def test_a_node_that_can_not_grow_a_pool_makes_it_fail() -> None:
    """px-T12: far too much is asked for, the action fails, and less succeeds later."""
    refused = {"type": "Expanded", "status": "False", "message": "its disk has 1Gi left"}
    there = pool(asks="3Gi", conditions=[refused])
    found = seen(storage_pools, expansion(status=begun("Expanding")), there, now=NOW + 600)
    why = "pool w1-fast has not grown to 3Gi: its disk has 1Gi left"
    assert end(found) == ("Running", "Withdrawing", why)
    # The request does not stay, or a smaller one could not follow, and this one would come true some day.
    withdrawing = begun("Withdrawing")
    withdrawing["conditions"][0]["message"] = why
    withdrawn = seen(storage_pools, expansion(status=withdrawing), there, now=NOW + 600)
    assert [each.fields for each in withdrawn if isinstance(each, PatchObject)] == [
        {"spec": {"capacity": "2Gi"}}
    ]
    assert end(withdrawn) == ("Failed", "NotExpanded", why)
    again = seen(storage_pools, expansion(status=withdrawing), pool(asks="2Gi"), now=NOW + 601)
    assert end(again) == ("Failed", "NotExpanded", why)
    raised = seen(storage_pools, expansion(status=withdrawing), pool(asks="4Gi"), now=NOW + 601)
    assert not any(isinstance(each, PatchObject) for each in raised)
    lowered = seen(storage_pools, expansion(status=begun("Expanding")), pool(asks="2Gi"))
    assert end(lowered)[:2] == ("Failed", "Undone")


def rebalance(status: Tree | None = None) -> Tree:
    target = {"moves": "default/data=fast,default/more=fast", "summary": "Rebalance summary: two"}
    fields = {"status": status} if status else {}
    return action("even-1", target, do=REBALANCE_POOL, uid="uid-default", about="w1-default", **fields)


def progress(found: list[Intent]) -> Tree:
    return dict([each for each in found if isinstance(each, SetStatus)][-1].status["progress"])


def test_volumes_are_moved_one_after_the_other() -> None:
    """px-T16, as far as the executor goes."""
    here = (pool("default"), disk(), data(""))
    begins = seen(storage_pools, rebalance(), *here)
    assert end(begins) == ("Running", "Moving", "Rebalance summary: two")
    first = seen(storage_pools, rebalance(begun("Moving", progress={"moved": ""})), *here)
    assert [each.seen.name for each in first if isinstance(each, PatchObject)] == ["data"]
    state = progress(first)
    assert (state["claim"], state["requested"]) == ("default/data", "true")
    there = moving("Kept", "", current=FAST)
    after = seen(storage_pools, rebalance(begun("Moving", progress=state)), pool("default"), disk(), there)
    assert progress(after) == {"moved": "default/data"}
    gone = seen(storage_pools, rebalance(begun("Moving", progress=progress(after))), *here)
    assert progress(gone) == {"moved": "default/data,default/more"}
    over = seen(storage_pools, rebalance(begun("Moving", progress=progress(gone))), *here)
    assert end(over)[:2] == ("Succeeded", "Rebalanced")


def test_a_pod_that_can_not_be_evicted_does_not_hold_up_all_pools() -> None:
    here = (pool("default"), disk(), data(""))
    state = progress(seen(storage_pools, rebalance(begun("Moving", progress={"moved": ""})), *here))
    waiting = (pool("default"), disk(), moving("AwaitingRestart", "copied"), user(), budget(0))
    held = seen(storage_pools, rebalance(begun("Moving", progress=state)), *waiting)
    assert end(held)[:2] == ("Running", "Moving")
    later = rebalance(begun("Moving", progress=progress(held)))
    assert end(seen(storage_pools, later, *waiting, now=NOW + 3590))[0] == "Running"
    found = end(seen(storage_pools, later, *waiting, now=NOW + 3610))
    assert found[:2] == ("Failed", "NotEvicted")
    assert "pod db-0 can't be evicted" in found[2]


def test_a_computed_class_goes_when_nothing_names_it() -> None:
    made = computed_class(LOOP, {"tier": "fast"})
    made["metadata"]["creationTimestamp"] = format_time(NOW - 601)
    (deleted,) = seen(computed_classes, made, data("silver"))
    assert isinstance(deleted, Delete)
    for user_of_it in (
        data(FAST),
        data("silver", asked=FAST),
        rebalance(begun("", progress={"class": FAST})),
    ):
        assert not any(isinstance(each, Delete) for each in seen(computed_classes, made, user_of_it))
    own = {**made, "metadata": {**made["metadata"], "labels": {}}}
    assert seen(computed_classes, own) == []
    young = {**made, "metadata": {**made["metadata"], "creationTimestamp": format_time(NOW)}}
    assert not any(isinstance(each, Delete) for each in seen(computed_classes, young))


class Plane:
    """A server with a claim, whose driver answers when the test says so."""

    def __init__(self, bench: Bench) -> None:
        self.api = bench.api
        self.bench = bench
        self.claim: Object

    async def start(self, **spec: Any) -> None:
        await self.api.create(StorageClass, {**storage_class("loop"), "allowVolumeExpansion": True})
        made = disk()
        del made["metadata"]["uid"], made["status"]
        await self.api.create(PersistentVolume, made)
        for each in CLASSES:
            await self.api.create(VolumeAttributesClass, each)
        tree = data()
        del tree["metadata"]["uid"], tree["status"]
        tree["metadata"] |= spec
        await self.api.create(PersistentVolumeClaim, tree)
        await self.answer(
            phase="Bound", capacity={"storage": "1Gi"}, currentVolumeAttributesClassName="silver"
        )
        self.bench.manage(all_executors())

    async def answer(self, **status: Any) -> None:
        self.claim = await self.api.patch(
            PersistentVolumeClaim, "data", "default", {"status": status}, subresource="status"
        )

    async def fire(self, name: str, target: Tree, do: str) -> None:
        parameters = {"iops": "300"} if do == SET_IOPS else {}
        tree = action(name, target, do=do, uid=self.claim.uid, parameters=parameters)
        del tree["metadata"]["creationTimestamp"]
        await self.api.create(ApplicationAction, tree)

    async def outcome(self, name: str) -> tuple[str, str, str]:
        found = await self.api.get(ApplicationAction, name, "default")
        condition = found.condition("Complete") or {}
        return str(found.status.get("phase")), str(condition.get("reason")), str(condition.get("message"))


def play(scenario: Callable[[Plane], Awaitable[None]]) -> None:
    with SeededLoop(1) as loop:
        Bench(loop).run(lambda bench: scenario(Plane(bench)))


def test_a_class_is_computed_set_reached_and_collected_on_a_server() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.start()
        name = computed_name(LOOP, {**SILVER, "iops": "300"})
        await plane.fire("tune-1", {"from": "silver", "to": name, "iops": "300"}, SET_IOPS)
        await asyncio.sleep(5)
        assert (await plane.api.get(VolumeAttributesClass, name)).get("parameters") == {
            **SILVER,
            "iops": "300",
        }
        found = await plane.api.get(PersistentVolumeClaim, "data", "default")
        assert found.spec["volumeAttributesClassName"] == name
        await plane.answer(currentVolumeAttributesClassName=name)
        await asyncio.sleep(5)
        assert (await plane.outcome("tune-1"))[:2] == ("Succeeded", "Modified")
        await asyncio.sleep(3600)
        await plane.fire("tune-2", {"from": name, "to": "gold"}, SET_IOPS)
        await asyncio.sleep(5)
        await plane.answer(currentVolumeAttributesClassName="gold")
        await asyncio.sleep(1300)
        assert await plane.api.find(VolumeAttributesClass, name) is None

    play(scenario)


def test_who_asks_for_another_class_is_named() -> None:
    async def scenario(plane: Plane) -> None:
        await plane.start()
        await plane.fire("tune-1", {"from": "silver", "to": "gold"}, SET_IOPS)
        await asyncio.sleep(5)
        back = {"spec": {"volumeAttributesClassName": "silver"}}
        await plane.api.patch(PersistentVolumeClaim, "data", "default", back, manager="argocd")
        await asyncio.sleep(60)
        assert await plane.outcome("tune-1") == (
            "Failed",
            "Undone",
            "the class of claim data was changed from gold to silver by the field manager argocd",
        )

    play(scenario)


CLUSTERS = KindName("example.com", "v1", "Database", "databases")
ROLE = KindName("rbac.authorization.k8s.io", "v1", "Role", "roles")
BINDING = KindName("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")


def definition(scope: str = "Namespaced") -> Tree:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}}
    names = {"kind": "Database", "plural": "databases", "singular": "database"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": CustomResourceDefinition.api_version,
        "kind": CustomResourceDefinition.kind,
        "metadata": {"name": "databases.example.com"},
        "spec": {"group": "example.com", "scope": scope, "names": names, "versions": [version]},
    }


def test_an_operator_that_resets_claims_is_asked_itself_if_it_lets_us() -> None:
    """Without the right to, the condition has the Role; with it, the field is raised, and never lowered."""

    async def scenario(plane: Plane) -> None:
        api = plane.api
        await api.create(CustomResourceDefinition, definition())
        await asyncio.sleep(5)
        made = await api.create(
            CLUSTERS,
            {
                "apiVersion": "example.com/v1",
                "kind": "Database",
                "metadata": {"name": "db", "namespace": "default"},
                "spec": {"storage": {"size": "1Gi"}},
            },
        )
        owner = {"apiVersion": "example.com/v1", "kind": "Database", "name": "db", "uid": made.uid}
        await plane.start(ownerReferences=[{**owner, "controller": True}])
        target = {"from": "1Gi", "to": "2Gi", "owner": "Database/db", "field": "spec.storage.size"}
        await plane.fire("grow-1", target, RESIZE)
        await asyncio.sleep(8)
        phase, reason, message = await plane.outcome("grow-1")
        assert (phase, reason) == ("Running", "Requesting")
        assert "rules: [{apiGroups: [example.com], resources: [databases], verbs: [get, patch]}]" in message
        meta = {"name": "pilothouse-rules", "namespace": "default"}
        rule = {"apiGroups": ["example.com"], "resources": ["databases"], "verbs": ["get", "patch"]}
        version = "rbac.authorization.k8s.io/v1"
        await api.create(ROLE, {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": [rule]})
        subject = {"kind": "ServiceAccount", "name": "pilothouse-rules", "namespace": "kube-system"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pilothouse-rules"}
        bound = {"metadata": meta, "roleRef": reference, "subjects": [subject]}
        await api.create(BINDING, {"apiVersion": version, "kind": "RoleBinding", **bound})
        await asyncio.sleep(30)
        found = await api.get(CLUSTERS, "db", "default")
        assert found.at("spec", "storage", "size") == "2Gi"
        assert (await api.get(PersistentVolumeClaim, "data", "default")).at(
            "spec", "resources", "requests", "storage"
        ) == "1Gi"
        await plane.answer(capacity={"storage": "2Gi"})
        await asyncio.sleep(5)
        assert (await plane.outcome("grow-1"))[:2] == ("Succeeded", "Resized")

    play(scenario)


def test_an_owner_outside_the_namespace_is_not_changed_whoever_names_it() -> None:
    """The rules' account may change it, and whoever writes the claim may not."""

    async def scenario(plane: Plane) -> None:
        api = plane.api
        await api.create(CustomResourceDefinition, definition("Cluster"))
        await asyncio.sleep(5)
        kind = KindName("example.com", "v1", "Database", "databases", namespaced=False)
        tree = {"apiVersion": "example.com/v1", "kind": "Database", "metadata": {"name": "db"}}
        made = await api.create(kind, {**tree, "spec": {"storage": {"size": "1Gi"}}})
        version = "rbac.authorization.k8s.io/v1"
        rule = {"apiGroups": ["example.com"], "resources": ["databases"], "verbs": ["get", "patch"]}
        meta = {"name": "databases"}
        await api.create(
            KindName("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False),
            {"apiVersion": version, "kind": "ClusterRole", "metadata": meta, "rules": [rule]},
        )
        subject = {"kind": "ServiceAccount", "name": "pilothouse-rules", "namespace": "kube-system"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "databases"}
        bound = {"metadata": meta, "roleRef": reference, "subjects": [subject]}
        await api.create(
            KindName(
                "rbac.authorization.k8s.io",
                "v1",
                "ClusterRoleBinding",
                "clusterrolebindings",
                namespaced=False,
            ),
            {"apiVersion": version, "kind": "ClusterRoleBinding", **bound},
        )
        owner = {"apiVersion": "example.com/v1", "kind": "Database", "name": "db", "uid": made.uid}
        await plane.start(ownerReferences=[{**owner, "controller": True}])
        target = {"from": "1Gi", "to": "2Gi", "owner": "Database/db", "field": "spec.storage.size"}
        await plane.fire("grow-1", target, RESIZE)
        await asyncio.sleep(60)
        assert (await api.get(kind, "db")).at("spec", "storage", "size") == "1Gi"
        assert (await plane.outcome("grow-1"))[:2] == ("Running", "Requesting")

    play(scenario)
