"""An action without an executor fails after ten minutes; finished actions are kept for a week, or longer."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.scheduling_objects import NOW, claim, seen
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ApplicationAction
from pilothouse.api.objects import Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.history import action_history
from pilothouse.controllers.application_actions.unstarted_actions import unstarted_actions
from pilothouse.runtime.intents import Delete, RequeueAfter, SetStatus
from pilothouse.sim.loop import SeededLoop

DAY = 86400.0
SNAPSHOT = "example.com.action.volume/snapshot"


def action(name: str = "a-1", *, do: str = SNAPSHOT, phase: str = "", ended: float | None = None) -> Tree:
    status: Tree = {"phase": phase} if phase else {}
    if ended is not None:
        status["completionTime"] = format_time(NOW - ended)
    return {
        "apiVersion": ApplicationAction.api_version,
        "kind": ApplicationAction.kind,
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": format_time(NOW)},
        "spec": {
            "rule": "r",
            "object": {"kind": "PersistentVolumeClaim", "name": "data", "uid": "uid-data"},
            "action": do,
        },
        **({"status": status} if status else {}),
    }


@pytest.mark.parametrize("do", [SNAPSHOT, "openstorage.io.action.volume/ha"])
@pytest.mark.parametrize("phase", ["", "Pending"])
def test_what_nothing_begins_within_ten_minutes_fails(do: str, phase: str) -> None:
    (later,) = seen(unstarted_actions, action(do=do, phase=phase), now=NOW + 599)
    assert isinstance(later, RequeueAfter)
    assert later.seconds == 1
    (end,) = seen(unstarted_actions, action(do=do, phase=phase), now=NOW + 600)
    assert isinstance(end, SetStatus)
    assert end.status["phase"] == "Failed"
    assert end.status["conditions"][0]["reason"] == "NoExecutor"
    assert do in end.status["conditions"][0]["message"]


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_what_was_begun_is_left_to_its_executor(phase: str) -> None:
    assert seen(unstarted_actions, action(phase=phase), now=NOW + DAY) == []


def test_ours_is_left_to_our_executor() -> None:
    assert seen(unstarted_actions, action(do="openstorage.io.action.volume/resize"), now=NOW + DAY) == []


def test_a_finished_action_is_kept_for_a_week_and_among_the_last_ten_for_longer() -> None:
    old = action(phase="Succeeded", ended=7 * DAY)
    later = [action(f"b-{number}", phase="Failed", ended=6 * DAY) for number in range(10)]
    (delete,) = seen(action_history, old, claim(), *later)
    assert isinstance(delete, Delete)
    assert seen(action_history, old, claim(), *later[:9]) == []
    (wait,) = seen(action_history, action(phase="Succeeded", ended=7 * DAY - 60), claim(), *later)
    assert isinstance(wait, RequeueAfter)
    assert wait.seconds == 60
    assert seen(action_history, action(phase="Running"), claim(), *later, now=NOW + 30 * DAY) == []


def test_what_was_done_to_an_object_that_is_gone_goes_after_a_week() -> None:
    old = action(phase="Succeeded", ended=7 * DAY)
    (delete,) = seen(action_history, old)
    assert isinstance(delete, Delete)


@pytest.mark.parametrize(
    "present",
    [
        {"apiVersion": "v1", "kind": "Node"},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet"},
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        {"apiVersion": "pilothouse.io/v1alpha1", "kind": "StoragePool"},
        {"apiVersion": "navigator.jetstack.io/v1beta1", "kind": "ElasticsearchCluster"},
        {"apiVersion": "navigator.jetstack.io/v1beta1", "kind": "CassandraCluster"},
    ],
    ids=lambda present: present["kind"],
)
def test_an_object_of_any_kind_of_rules_has_a_history_as_long_as_it_exists(present: Tree) -> None:
    old = action(phase="Succeeded", ended=7 * DAY)
    old["spec"]["object"] = {**present, "name": "one", "uid": "uid-one"}
    space = {} if present["kind"] in ("Node", "StoragePool") else {"namespace": "default"}
    one = {**present, "metadata": {"name": "one", **space, "uid": "uid-one"}}
    assert seen(action_history, old, one) == []
    another = {**one, "metadata": {**one["metadata"], "uid": "uid-two"}}
    for gone in ([], [another]):
        (delete,) = seen(action_history, old, *gone)
        assert isinstance(delete, Delete)
    old["spec"]["object"]["apiVersion"] = "example.com/v1"
    assert seen(action_history, old) == [], "it is not known whether this one is gone"


@pytest.mark.long  # Twelve days of heartbeats.
def test_a_server_keeps_ten_actions_of_an_object() -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage(all_executors())
        for number in range(12):
            tree = action(f"a-{number:02}")
            del tree["metadata"]["creationTimestamp"]
            # Of a kind whose objects are not known here.
            tree["spec"]["object"] = {"kind": "Disk", "name": "d", "uid": "u"}
            await bench.api.create(ApplicationAction, tree)
            await asyncio.sleep(DAY)
        found = (await bench.api.list(ApplicationAction, "default")).objects
        assert [each.name for each in found] == [f"a-{number:02}" for number in range(2, 12)]
        assert {each.status["phase"] for each in found} == {"Failed"}

    with SeededLoop(1) as loop:
        Bench(loop).run(scenario)
