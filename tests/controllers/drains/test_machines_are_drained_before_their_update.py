"""Drains: cordon, evict within budgets, let the update go on, uncordon what was cordoned for it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.controllers.drains.fleet import Fleet
from tests.kit.controller_harness import WRITES, reasons

from pilothouse.api.disruption_target import disruption_of
from pilothouse.api.kind_names import Node, Plan, Pod
from pilothouse.controllers.drains.cordons import CORDONED_BY, DRAIN_STARTED, FORCE_WAIT
from pilothouse.controllers.drains.drain_controller import is_relevant, machines_of_plan, node_in_progress
from pilothouse.runtime.intents import Delete, Evict, Intent, PatchObject


def until_idle(fleet: Fleet) -> None:
    """Decide until nothing is written; pods that are evicted end."""
    for _ in range(20):
        before = fleet.version
        for machine in fleet.all(Node):
            fleet.step_of(machine)
        fleet.kubelet()
        if fleet.version == before:
            return
    raise AssertionError("the drain does not come to rest")


def pass_time(fleet: Fleet, seconds: int) -> None:
    for _ in range(seconds):
        fleet.now += 1
        until_idle(fleet)


def test_k0s_A17_a_worker_is_cordoned_drained_and_uncordoned() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("web-0", on="w1", owner="StatefulSet")
    fleet.place("bare", on="w1")
    fleet.place("agent", on="w1", owner="DaemonSet")
    fleet.place("elsewhere", on="w2", owner="StatefulSet")
    fleet.step_of(w1)
    assert fleet.cordoned("w1")
    assert fleet.signal(w1).step == "Cordoning"
    assert [pod.name for pod in fleet.all(Pod) if pod.deleting] == ["bare", "web-0"]
    fleet.kubelet()
    fleet.step_of(w1)
    assert fleet.signal(w1).step == "ApplyingUpdate"
    assert fleet.cordoned("w1")
    assert fleet.names(Pod) == ["agent", "elsewhere"]
    fleet.advance(w1, "Restart")
    fleet.step_of(w1)
    assert fleet.cordoned("w1")
    fleet.advance(w1, "UnCordoning")
    fleet.step_of(w1)
    assert fleet.signal(w1).step == "Completed"
    assert not fleet.cordoned("w1")
    assert CORDONED_BY not in fleet.all(Node)[0].annotations


def test_k0s_A18_a_pure_controller_passes_without_a_cordon() -> None:
    fleet = Fleet()
    c1 = fleet.control_node("c1", "controller")
    fleet.node("c1")
    fleet.place("db-0", on="c1", owner="StatefulSet")
    fleet.step_of(c1)
    assert fleet.signal(c1).step == "ApplyingUpdate"
    fleet.advance(c1, "Restart")
    fleet.advance(c1, "UnCordoning")
    fleet.step_of(c1)
    assert fleet.signal(c1).step == "Completed"
    assert not fleet.cordoned("c1")
    assert fleet.names(Pod) == ["db-0"]


def test_a_controller_without_a_node_passes() -> None:
    fleet = Fleet()
    c1 = fleet.control_node("c1", "controller+worker")
    fleet.step_of(c1)
    assert fleet.signal(c1).step == "ApplyingUpdate"


def test_k0s_A19_the_node_of_a_controller_that_is_a_worker_is_drained() -> None:
    fleet = Fleet()
    c1 = fleet.control_node("c1", "controller+worker")
    node = fleet.node("c1")
    fleet.place("db-0", on="c1", owner="StatefulSet")
    assert not fleet.step_of(c1), "the Node's decisions drain it"
    fleet.step_of(node)
    assert fleet.cordoned("c1")
    assert fleet.signal(c1).step == "Cordoning"
    fleet.kubelet()
    fleet.step_of(node)
    assert fleet.signal(c1).step == "ApplyingUpdate"
    fleet.advance(c1, "Restart")
    fleet.advance(c1, "UnCordoning")
    fleet.step_of(node)
    assert fleet.signal(c1).step == "Completed"
    assert not fleet.cordoned("c1")


def test_k0s_A20_a_budget_keeps_the_node_cordoning_and_is_named() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.place("web-0", on="w1", owner="StatefulSet", app="web")
    budget = fleet.budget(allowed=0, app="db")
    began = fleet.signal(w1).status
    fleet.now += 60
    until_idle(fleet)
    assert fleet.names(Pod) == ["db-0"]
    assert fleet.cordoned("w1")
    status = fleet.signal(w1).status
    assert status is not None
    assert began is not None
    assert status.status == "Cordoning"
    assert status.reason == (
        "draining node w1: pod default/db-0: disruption budget db needs 2 healthy pods and has 2"
    )
    assert status.timestamp == began.timestamp
    fleet.remove(budget)
    until_idle(fleet)
    assert fleet.names(Pod) == []
    assert fleet.signal(w1).step == "ApplyingUpdate"
    assert fleet.signal(w1).status.reason == ""  # type: ignore[union-attr]


def test_k0s_A47_a_node_that_an_admin_has_cordoned_stays_cordoned() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1", cordoned=True)
    fleet.place("web-0", on="w1", owner="StatefulSet")
    until_idle(fleet)
    assert fleet.signal(w1).step == "ApplyingUpdate"
    fleet.advance(w1, "Restart")
    fleet.advance(w1, "UnCordoning")
    until_idle(fleet)
    assert fleet.signal(w1).step == "Completed"
    assert fleet.cordoned("w1")


def test_an_evicted_pod_says_who_evicted_it_and_why() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("web-0", on="w1", owner="StatefulSet")
    fleet.step_of(w1)
    found = disruption_of(fleet.pod("web-0"))
    assert found is not None
    assert (found.by, found.because) == ("drains", "node w1 is updated to v1.31.2")


def test_static_pods_stay_and_finished_pods_go() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("of-node", on="w1", owner="Node")
    mirror = fleet.place("mirror", on="w1")
    fleet.change(
        mirror, lambda tree: tree["metadata"].update(annotations={"kubernetes.io/config.mirror": "1"})
    )
    fleet.place("job", on="w1", owner="Job", phase="Succeeded", app="job")
    fleet.budget(allowed=0, app="job")
    until_idle(fleet)
    assert fleet.names(Pod) == ["mirror", "of-node"]
    assert fleet.signal(w1).step == "ApplyingUpdate"


def test_one_decision_spends_a_budget_once() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    for number in range(3):
        fleet.place(f"db-{number}", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=1, app="db")
    intents = fleet.step_of(w1)
    assert [intent.seen.name for intent in intents if isinstance(intent, Evict)] == ["db-0"]


def test_two_budgets_for_one_pod_are_named() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=1, app="db")
    fleet.budget(allowed=1, app="db", name="second")
    fleet.step_of(w1)
    assert "more than one disruption budget" in fleet.signal(w1).status.reason  # type: ignore[union-attr]
    assert not any(pod.deleting for pod in fleet.all(Pod))


def test_the_grace_period_is_the_plans() -> None:
    fleet = Fleet(drain={"gracePeriodSeconds": 7})
    w1 = fleet.worker("w1")
    fleet.place("web-0", on="w1")
    assert [intent.grace for intent in fleet.step_of(w1) if isinstance(intent, Evict)] == [7]


def test_a_worker_without_pods_is_cordoned_and_goes_on_in_one_write() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("agent", on="w1", owner="DaemonSet")
    [write] = fleet.step_of(w1)
    assert write.because.endswith("no pod has to leave it")
    assert fleet.signal(w1).step == "ApplyingUpdate"
    assert fleet.cordoned("w1")
    fleet.advance(w1, "Restart")
    fleet.advance(w1, "UnCordoning")
    fleet.step_of(w1)
    assert not fleet.cordoned("w1")
    [w1] = fleet.all(Node)
    assert {CORDONED_BY, DRAIN_STARTED}.isdisjoint(w1.annotations)


def test_without_a_drain_pods_stay_and_the_node_is_cordoned() -> None:
    fleet = Fleet(drain={"strategy": "none"})
    w1 = fleet.worker("w1")
    fleet.place("web-0", on="w1")
    assert len(fleet.step_of(w1)) == 1
    assert fleet.signal(w1).step == "ApplyingUpdate"
    assert fleet.cordoned("w1")
    assert not fleet.pod("web-0").deleting


def test_after_its_timeout_a_drain_has_failed_and_the_node_takes_pods_again() -> None:
    fleet = Fleet(drain={"timeout": "10m"})
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    until_idle(fleet)
    fleet.now += 599
    until_idle(fleet)
    assert fleet.signal(w1).step == "Cordoning"
    fleet.now += 1
    until_idle(fleet)
    status = fleet.signal(w1).status
    assert status is not None
    assert status.status == "Failed"
    assert status.reason.startswith("the drain took longer than 10m: pod default/db-0: disruption budget db")
    assert not fleet.cordoned("w1")
    assert not fleet.pod("db-0").deleting


def test_pods_that_budgets_keep_are_deleted_after_force_after() -> None:
    fleet = Fleet(drain={"forceAfter": "5m"})
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    until_idle(fleet)
    assert not fleet.pod("db-0").deleting
    pass_time(fleet, 299)
    assert not fleet.pod("db-0").deleting
    fleet.now += 1
    intents = fleet.step_of(w1)
    assert [intent.seen.name for intent in intents if isinstance(intent, Delete)] == ["db-0"]
    found = disruption_of(fleet.pod("db-0"))
    assert found is not None
    assert found.by == "drains"
    assert "for longer than 5m" in found.because
    fleet.kubelet()
    until_idle(fleet)
    assert fleet.signal(w1).step == "ApplyingUpdate"


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize("holder", ["Node", "ControlNode"])
def test_the_clock_of_a_machine_does_not_shorten_its_drain(cordoned: bool, holder: str) -> None:
    """Its agent writes the time of the step; the leader's clock is an hour ahead of that."""
    fleet = Fleet(drain={"forceAfter": "5m", "timeout": "20m"})
    if holder == "Node":
        machine = node = fleet.worker("w1", cordoned=cordoned)
    else:
        machine, node = fleet.control_node("w1", "controller+worker"), fleet.node("w1", cordoned=cordoned)
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    fleet.now += 3600
    until_idle(fleet)
    assert not fleet.pod("db-0").deleting
    assert fleet.signal(machine).step == "Cordoning"
    pass_time(fleet, 299)
    assert not fleet.pod("db-0").deleting
    fleet.now += 1
    fleet.step_of(node)
    assert fleet.pod("db-0").deleting
    fleet.now += 900
    fleet.step_of(node)
    assert fleet.signal(machine).step == "Failed"
    until_idle(fleet)
    assert fleet.cordoned("w1") == cordoned
    assert DRAIN_STARTED not in fleet.all(Node)[0].annotations


def test_an_earlier_drain_does_not_shorten_the_next() -> None:
    fleet = Fleet(drain={"forceAfter": "5m"})
    w1 = fleet.worker("w1", cordoned=True)
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    until_idle(fleet)
    fleet.advance(w1, "Failed", "no space left")
    fleet.now += 3600
    fleet.signal_again(w1, "Cordoning")
    until_idle(fleet)
    assert not fleet.pod("db-0").deleting
    pass_time(fleet, 299)
    assert not fleet.pod("db-0").deleting
    fleet.now += 1
    fleet.step_of(w1)
    assert fleet.pod("db-0").deleting


def test_a_clock_that_jumps_ahead_forces_nothing() -> None:
    """Another leader's clock may be ahead, too. A part of the wait is over, and the rest of it goes on."""
    fleet = Fleet(drain={"forceAfter": "20m"})
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    until_idle(fleet)
    fleet.now += 86400
    until_idle(fleet)
    pass_time(fleet, 899)
    assert not fleet.pod("db-0").deleting
    fleet.now += 1
    fleet.step_of(w1)
    assert fleet.pod("db-0").deleting
    fleet.kubelet()
    until_idle(fleet)
    fleet.advance(w1, "Failed", "no space left")
    until_idle(fleet)
    assert FORCE_WAIT not in fleet.all(Node)[0].annotations


def test_a_clock_that_is_set_back_lengthens_the_wait_by_a_part_of_it() -> None:
    fleet = Fleet(drain={"forceAfter": "20m"})
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    until_idle(fleet)
    pass_time(fleet, 599)
    fleet.now -= 86400
    until_idle(fleet)
    pass_time(fleet, 899)
    assert not fleet.pod("db-0").deleting
    fleet.now += 1
    fleet.step_of(w1)
    assert fleet.pod("db-0").deleting


def test_a_node_that_is_not_ready_stays_cordoned_and_says_so() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    until_idle(fleet)
    fleet.advance(w1, "Restart")
    fleet.advance(w1, "UnCordoning")
    fleet.ready("w1", "Unknown")
    assert reasons(fleet.step_of(w1)) == ["NodeNotReady"]
    assert fleet.cordoned("w1")
    assert fleet.signal(w1).step == "UnCordoning"
    assert fleet.signal(w1).status.reason == (  # type: ignore[union-attr]
        "waiting until node w1 is ready: the agent restarts"
    )
    fleet.ready("w1", "True")
    until_idle(fleet)
    assert not fleet.cordoned("w1")
    assert fleet.signal(w1).step == "Completed"


@pytest.mark.parametrize("step", ["Failed", "FailedDownload"])
def test_after_a_failure_the_node_is_uncordoned_once_it_is_ready(step: str) -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    until_idle(fleet)
    assert fleet.cordoned("w1")
    fleet.advance(w1, step, "no space left")
    fleet.ready("w1", "False")
    until_idle(fleet)
    assert fleet.cordoned("w1")
    fleet.ready("w1", "True")
    until_idle(fleet)
    assert not fleet.cordoned("w1")
    assert fleet.signal(w1).step == step


def test_if_the_plan_is_deleted_nothing_more_is_evicted_and_the_node_is_uncordoned() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    until_idle(fleet)
    fleet.remove(fleet.plan)
    until_idle(fleet)
    assert not fleet.cordoned("w1")
    assert not fleet.pod("db-0").deleting
    status = fleet.signal(w1).status
    assert status is not None
    assert (status.status, status.reason) == ("Failed", "plan id1 was deleted")


def test_an_update_in_progress_ends_without_its_plan() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    until_idle(fleet)
    fleet.advance(w1, "Restart")
    fleet.remove(fleet.plan)
    until_idle(fleet)
    assert not fleet.cordoned("w1")
    fleet.advance(w1, "UnCordoning")
    until_idle(fleet)
    assert fleet.signal(w1).step == "Completed"


def test_a_plan_that_is_not_known_yet_is_asked_for_before_a_turn_is_ended() -> None:
    """Objects of two kinds arrive in any order: the decision is made without the plan, the server has it."""
    fleet = Fleet()
    w1 = fleet.worker("w1")
    plan = fleet.trees[Plan].pop(("", "autopilot"))
    intents = fleet.decide_on(w1)
    fleet.trees[Plan]["", "autopilot"] = plan
    [failed] = [intent for intent in intents if isinstance(intent, PatchObject)]
    assert not fleet.is_executed(failed)
    assert fleet.signal(w1).step == "Cordoning"


def test_a_run_that_is_not_known_yet_is_waited_for() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1", generation=2)
    assert fleet.step_of(w1) == []


def test_a_signal_of_an_earlier_run_drains_nothing() -> None:
    fleet = Fleet()
    fleet.change(fleet.plan, lambda tree: tree["status"].update(runGeneration=2))
    w1 = fleet.worker("w1")
    fleet.place("web-0", on="w1")
    fleet.step_of(w1)
    assert fleet.signal(w1).step == "Failed"
    assert not fleet.pod("web-0").deleting
    assert not fleet.cordoned("w1")


def test_a_machine_that_the_plan_counts_as_failed_is_uncordoned() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    fleet.place("db-0", on="w1", owner="StatefulSet", app="db")
    fleet.budget(allowed=0, app="db")
    for name in ("w0", "w1", "w2"):
        fleet.target(name, "SignalSent")
    until_idle(fleet)
    assert fleet.cordoned("w1")
    fleet.target("w1", "SignalApplyFailed", "not done within 1h")
    until_idle(fleet)
    assert not fleet.cordoned("w1")
    assert fleet.signal(w1).status.reason == (  # type: ignore[union-attr]
        "the plan counts the machine as failed: not done within 1h"
    )


def test_signals_of_another_autopilot_are_left_alone() -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1")
    bare = fleet.signal(w1)
    foreign = type(bare)(bare.plan_id, bare.created, bare.command, status=bare.status)
    fleet.change(w1, lambda tree: tree["metadata"]["annotations"].update(foreign.annotations()))
    fleet.place("web-0", on="w1")
    assert fleet.step_of(w1) == []


@pytest.mark.parametrize("budget", [None, 0, 1])
def test_a_crash_between_any_two_writes_changes_nothing_in_the_end(budget: int | None) -> None:
    for crash in range(12):
        fleet = Fleet()
        c1, node, w1 = fleet.control_node("c1", "controller+worker"), fleet.node("c1"), fleet.worker("w1")
        for name, where in (("db-0", "c1"), ("db-1", "w1"), ("db-2", "w1")):
            fleet.place(name, on=where, owner="StatefulSet", app="db")
        if budget is not None:
            pdb = fleet.budget(allowed=budget, app="db")
        left = crash
        for machine in (node, w1, node, w1):
            writes = sum(isinstance(intent, WRITES) for intent in fleet.decide_on(machine))
            fleet.step_crashing(machine, min(left, writes))
            left = max(0, left - writes)
            fleet.kubelet()
        until_idle(fleet)
        if budget is not None:
            fleet.remove(pdb)
            until_idle(fleet)
        assert fleet.names(Pod) == []
        for machine in (c1, w1):
            assert fleet.signal(machine).step == "ApplyingUpdate"
            fleet.advance(machine, "Restart")
            fleet.advance(machine, "UnCordoning")
        fleet.step_crashing(node, crash % 2)
        until_idle(fleet)
        assert [fleet.signal(machine).step for machine in (c1, w1)] == ["Completed", "Completed"]
        assert not fleet.cordoned("c1")
        assert not fleet.cordoned("w1")


def test_heartbeats_and_steps_of_the_plan_do_not_trigger() -> None:
    fleet = Fleet()
    idle, busy = fleet.node("idle"), fleet.worker("busy")
    for node, expected in ((idle, False), (busy, True)):
        fleet.ready(node.name, "Unknown")
        after = fleet.get(Node, node.name)
        assert after is not None
        assert is_relevant(node, after) is expected
    fleet.target("busy", "SignalSent")
    after = fleet.get(Plan, "autopilot")
    assert after is not None
    assert not is_relevant(fleet.plan, after)
    fleet.change(fleet.plan, lambda tree: tree["status"].update(state="SchedulableWait"))
    waiting = fleet.get(Plan, "autopilot")
    assert waiting is not None
    assert not is_relevant(after, waiting)


def test_a_target_that_fails_and_the_end_of_a_run_trigger() -> None:
    fleet = Fleet()
    fleet.worker("w1")
    states = [fleet.plan]
    fleet.target("w1", "SignalApplyFailed", "not done within 1h")
    states += fleet.all(Plan)
    fleet.change(fleet.plan, lambda tree: tree["status"].update(completedTime="2026-01-01T00:00:00Z"))
    states += fleet.all(Plan)
    assert [is_relevant(*each) for each in pairwise(states)] == [True, True]
    assert list(machines_of_plan(states[-1], fleet.world())) == [("", "w1")]


def test_a_machine_whose_turn_is_over_is_left_alone() -> None:
    """Signals stay on Nodes: pods that come and go there later are not the concern of drains."""
    fleet = Fleet()
    w1, c1 = fleet.worker("w1"), fleet.control_node("c1", "controller")
    pod = fleet.place("agent", on="w1", owner="DaemonSet")
    assert list(node_in_progress(pod, fleet.world())) == [("", "w1")]
    for machine in (w1, c1):
        fleet.step_of(machine)
        fleet.step_of(machine)
        fleet.advance(machine, "Restart")
        fleet.advance(machine, "UnCordoning")
        fleet.step_of(machine)
        assert fleet.signal(machine).step == "Completed"
    assert list(node_in_progress(pod, fleet.world())) == []
    assert list(machines_of_plan(fleet.plan, fleet.world())) == []
    [before] = fleet.all(Node)
    fleet.ready("w1", "Unknown")
    assert not is_relevant(before, fleet.all(Node)[0])


@pytest.mark.parametrize(
    ("step", "following", "expected"),
    [
        ("", "Downloading", False),
        ("Downloading", "Cordoning", True),
        ("ApplyingUpdate", "Restart", False),
        ("Restart", "UnCordoning", True),
    ],
)
def test_steps_that_concern_only_the_machine_are_not_looked_at(
    step: str, following: str, expected: bool
) -> None:
    fleet = Fleet()
    w1 = fleet.worker("w1", step=step)
    fleet.advance(w1, following)
    assert is_relevant(w1, fleet.all(Node)[0]) is expected


def test_the_end_of_a_turn_is_looked_at_if_there_is_something_to_take_back() -> None:
    fleet = Fleet()
    plain, marked = fleet.worker("w1", step="Restart"), fleet.worker("w2", step="Restart")
    marks = {CORDONED_BY: fleet.plan.uid}
    marked = fleet.change(marked, lambda tree: tree["metadata"]["annotations"].update(marks))
    for before, expected in ((plain, False), (marked, True)):
        fleet.advance(before, "Failed")
        after = fleet.get(Node, before.name)
        assert after is not None
        assert is_relevant(before, after) is expected


def test_a_node_gets_events_when_pods_leave_it_and_when_its_turn_does_not_complete() -> None:
    fleet = Fleet()
    empty, full = fleet.worker("w1"), fleet.worker("w2")
    fleet.place("db-0", on="w2")

    def events(intents: list[Intent]) -> list[str]:
        return [one.event for one in intents if isinstance(one, PatchObject) and one.event]

    assert events(fleet.step_of(empty)) == []
    assert events(fleet.step_of(full)) == ["Cordon"]
    fleet.advance(full, "Failed", "the download is cut off")
    assert events(fleet.step_of(full)) == ["Uncordon"]
