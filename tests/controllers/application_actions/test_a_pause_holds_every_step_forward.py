"""While a rule is paused, no executor makes a write that moves its action forward, however far that is."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.controllers.application_actions import test_a_volume_gets_another_class_or_tier as moves
from tests.controllers.application_actions.acted_workloads import stateful_set
from tests.kit.scheduling_objects import NOW, seen, storage_class

from pilothouse.api.kind_names import ApplicationAction, AutopilotRule, ElasticsearchCluster, Pilot
from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR
from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.actions import MOVE, REBALANCE, REDUNDANCY, RESIZE, RESOURCES, SCALE, SET_IOPS
from pilothouse.api.openstorage.pauses import PAUSED
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.application_rebalance import application_rebalance
from pilothouse.controllers.application_actions.application_redundancy import application_redundancy
from pilothouse.controllers.application_actions.computed_classes import computed_classes
from pilothouse.controllers.application_actions.history import action_history
from pilothouse.controllers.application_actions.pool_actions import storage_pools
from pilothouse.controllers.application_actions.unstarted_actions import unstarted_actions
from pilothouse.controllers.application_actions.volume_iops import volume_setiops
from pilothouse.controllers.application_actions.volume_move import volume_move
from pilothouse.controllers.application_actions.volume_resize import volume_resize
from pilothouse.controllers.application_actions.webhook_actions import webhook_actions
from pilothouse.controllers.application_actions.workload_resources import workload_resources
from pilothouse.controllers.application_actions.workload_scale import workload_scale
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.intents import (
    Create,
    Delete,
    Evict,
    Intent,
    PatchObject,
    SetStatus,
    Update,
    Wait,
)

RECORDS = (action_history, unstarted_actions, computed_classes)
"""They act on nothing but the records of actions."""


class Step(NamedTuple):
    """An action that is about to write."""

    name: str
    executor: Controller
    action: Tree
    objects: tuple[Tree, ...]
    now: float = NOW
    says: bool = False
    """Whether the status has to say that it is paused: it said something else before."""


def acts(do: str, about: Tree, /, *status: Tree, **target: str) -> Tree:
    names = {field: about[field] for field in ("apiVersion", "kind")}
    reference = {**names, "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}
    made = _with_status(moves.action("act-1", dict(target), do=do), *status)
    made["metadata"]["uid"] = "uid-act-1"
    made["spec"]["object"] = reference
    return made


def database(replicas: int = 2, there: int | None = None) -> Tree:
    tree = stateful_set("db", replicas)
    tree["metadata"] |= {"uid": "uid-db", "generation": 1}
    there = replicas if there is None else there
    return {**tree, "status": {"replicas": there, "readyReplicas": there, "observedGeneration": 1}}


def pilot(name: str, *, owner: Tree | None = None, **fields: Any) -> Tree:
    meta: Tree = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    if owner is not None:
        reference = {field: owner[field] for field in ("apiVersion", "kind")}
        meta["ownerReferences"] = [
            {
                **reference,
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    tree: Tree = {"apiVersion": Pilot.api_version, "kind": Pilot.kind, "metadata": meta, "spec": {}}
    condition = {"type": "Ready", "status": "True"}
    tree |= {"status": {"conditions": [condition]}, **fields}
    return tree


DRAINED = pilot(
    "db-1",
    spec={"decommission": True},
    status={"conditions": [{"type": "Decommissioned", "status": "True", "observedGeneration": 1}]},
)
LEFT = pilot("db-1", spec={"decommission": True})
LEFT["metadata"]["annotations"] = {DECOMMISSIONED_FOR: "rule"}
CLUSTER: Tree = {
    "apiVersion": ElasticsearchCluster.api_version,
    "kind": ElasticsearchCluster.kind,
    "metadata": {"name": "demo", "namespace": "default", "uid": "uid-demo", "generation": 1},
    "spec": {"version": "8.17.0", "nodePools": []},
    "status": {"rebalance": {"enabled": False}},
}
PILOTS = (pilot("es-0", owner=CLUSTER),)
TO_FAST = {"from": "default", "to": "fast", "class": moves.FAST}
FAILED_POST = {"post": "1", "asked": format_time(NOW), "answer": "1 failed: it answers 503"}
REQUESTED = {"moved": "", "claim": "default/data", "class": moves.FAST, "since": format_time(NOW)}
DRAINING = moves.begun("Draining", before={"value": "2"}, after={"value": "2"})
AWAITED = (moves.moving("AwaitingRestart", "copied"), moves.user(), moves.budget(1))
SMALL: Tree = moves.data("")
GROWS: Tree = {**storage_class("loop"), "allowVolumeExpansion": True}


def post(*status: Tree) -> Tree:
    do = "openstorage.io.action.volume/webhook"
    return _with_status(moves.action("act-1", {}, do=do, parameters={"name": "tickets"}), *status)


def _with_status(made: Tree, *status: Tree) -> Tree:
    return {**made, "status": status[0]} if status else made


STEPS = (
    Step("a move is asked for", volume_move, acts(MOVE, SMALL, **TO_FAST), (SMALL, moves.disk())),
    Step(
        "a move is asked for again",
        volume_move,
        acts(MOVE, SMALL, moves.begun("Requesting", before={"class": ""}), **TO_FAST),
        (SMALL, moves.disk()),
    ),
    Step(
        "a pod is evicted for a move",
        volume_move,
        acts(MOVE, SMALL, moves.begun("Moving"), **TO_FAST),
        (*AWAITED, moves.disk()),
        says=True,
    ),
    Step("a pool is expanded", storage_pools, moves.expansion(), (moves.pool(),)),
    Step(
        "a rebalance begins", storage_pools, moves.rebalance(), (moves.pool("default"), SMALL, moves.disk())
    ),
    Step(
        "the next volume of a rebalance is moved",
        storage_pools,
        moves.rebalance(moves.begun("Moving", progress={"moved": ""})),
        (moves.pool("default"), SMALL, moves.disk()),
    ),
    Step(
        "a volume of a rebalance is asked for again",
        storage_pools,
        moves.rebalance(moves.begun("Moving", progress=REQUESTED)),
        (moves.pool("default"), SMALL, moves.disk()),
    ),
    Step(
        "a pod is evicted for a rebalance",
        storage_pools,
        moves.rebalance(moves.begun("Moving", progress={**REQUESTED, "requested": "true"})),
        (moves.pool("default"), *AWAITED, moves.disk()),
        says=True,
    ),
    Step(
        "a class is asked for",
        volume_setiops,
        acts(SET_IOPS, moves.data(), **{"from": "silver", "to": "gold"}),
        (moves.data(), moves.disk(), *moves.CLASSES),
    ),
    Step(
        "a claim is grown",
        volume_resize,
        acts(RESIZE, SMALL, to="2Gi"),
        (SMALL, GROWS),
    ),
    Step("an action is posted", webhook_actions, post(), ()),
    Step(
        "an action is posted again",
        webhook_actions,
        post(moves.begun("Posting", progress=FAILED_POST)),
        (),
        now=NOW + 10,
    ),
    Step(
        "a set grows",
        workload_scale,
        acts(SCALE, database(), **{"from": "2", "to": "3"}),
        (database(),),
    ),
    Step(
        "pods that an earlier action drained are wanted again",
        workload_scale,
        acts(SCALE, database(1), **{"from": "1", "to": "2"}),
        (database(1), LEFT),
    ),
    Step(
        "a set begins to shrink",
        workload_scale,
        acts(SCALE, database(), **{"from": "2", "to": "1"}),
        (database(), pilot("db-1")),
    ),
    Step(
        "a Pilot is decommissioned",
        workload_scale,
        acts(SCALE, database(), DRAINING, **{"from": "2", "to": "1"}),
        (database(), pilot("db-1")),
        says=True,
    ),
    Step(
        "a set shrinks by a drained pod",
        workload_scale,
        acts(SCALE, database(), DRAINING, **{"from": "2", "to": "1"}),
        (database(), DRAINED),
        says=True,
    ),
    Step(
        "a container gets its resources",
        workload_resources,
        acts(RESOURCES, database(), container="db", resource="memory", **{"from": "1Gi", "to": "2Gi"}),
        (database(),),
    ),
    Step(
        "copies are asked for",
        application_redundancy,
        acts(REDUNDANCY, CLUSTER, **{"from": "", "to": "1"}),
        (CLUSTER,),
    ),
    Step("a rebalance is asked for", application_rebalance, acts(REBALANCE, CLUSTER), (CLUSTER, *PILOTS)),
    Step(
        "a rebalance is asked for again",
        application_rebalance,
        acts(
            REBALANCE,
            CLUSTER,
            moves.begun("Requesting", before={"until": format_time(NOW + 600)}),
        ),
        (CLUSTER, *PILOTS),
    ),
)


def forward(step: Step, found: list[Intent]) -> list[Intent]:
    """What is written, but for records of how far the action is."""
    writes = [each for each in found if isinstance(each, Create | Delete | Evict | PatchObject | Update)]
    statuses = [each for each in found if isinstance(each, SetStatus)]
    before = step.action.get("status", {})
    begins = [each for each in statuses if each.seen.noun != ApplicationAction or _asks(each.status, before)]
    return [*writes, *begins]


def _asks(status: Tree, before: Tree) -> bool:
    """Whether a status itself has others act: it begins, or asks for another post."""
    asked = (status.get("progress") or {}).get("post") != (before.get("progress") or {}).get("post")
    return asked or before.get("phase") != "Running"


def paused_rule() -> Tree:
    return {
        "apiVersion": AutopilotRule.api_version,
        "kind": AutopilotRule.kind,
        "metadata": {"name": "tune", "annotations": {PAUSED: "true"}},
        "spec": {},
    }


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_nothing_goes_forward_during_a_pause(step: Step) -> None:
    assert forward(step, seen(step.executor, step.action, *step.objects, now=step.now))
    found = seen(step.executor, step.action, *step.objects, paused_rule(), now=step.now)
    assert forward(step, found) == []
    (waits,) = (each for each in found if isinstance(each, Wait))
    assert (waits.reason, waits.because) == ("Paused", "rule tune is paused")
    if step.says:
        assert "; rule tune is paused" in moves.end(found)[2]


def test_every_executor_has_steps() -> None:
    tried = [*RECORDS, *(step.executor for step in STEPS)]
    assert [each for each in all_executors() if each not in tried] == []


def test_a_paused_claim_holds_a_pool_no_longer_than_a_pod_that_can_not_be_evicted() -> None:
    claim, pod, budget = AWAITED
    paused = {**claim, "metadata": {**claim["metadata"], "annotations": {PAUSED: "true"}}}
    objects = (moves.pool("default"), paused, pod, budget, moves.disk())
    state = {**REQUESTED, "requested": "true"}
    held = seen(storage_pools, moves.rebalance(moves.begun("Moving", progress=state)), *objects)
    assert "; claim data is paused" in moves.end(held)[2]
    later = moves.rebalance(moves.begun("Moving", progress=moves.progress(held)))
    found = moves.end(seen(storage_pools, later, *objects, now=NOW + 3610))
    assert found[:2] == ("Failed", "NotEvicted")
    assert "claim data is paused" in found[2]
