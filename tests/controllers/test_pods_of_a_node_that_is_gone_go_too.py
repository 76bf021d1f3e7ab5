"""Pods whose node was deleted, as decisions."""

from __future__ import annotations

from tests.kit.scheduling_objects import NOW, node, pod, seen

from pilothouse.api.objects import Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.orphaned_pods import QUARANTINE, stranded_pods
from pilothouse.runtime.intents import Delete, RequeueAfter, SetStatus


def marked(*, ago: float) -> Tree:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "lastTransitionTime": format_time(NOW - ago),
    }
    return {**pod("p", on="n1"), "status": {"phase": "Running", "conditions": [condition]}}


def test_a_pod_with_its_node_or_without_any_is_left_alone() -> None:
    assert seen(stranded_pods, pod("p", on="n1"), node("n1")) == []
    assert seen(stranded_pods, pod("p")) == []


def test_a_pod_is_marked_first_and_goes_after_the_quarantine() -> None:
    status, after = seen(stranded_pods, pod("p", on="n1"), node("n2"))
    assert isinstance(status, SetStatus)
    assert status.status["conditions"][0]["type"] == "DisruptionTarget"
    assert isinstance(after, RequeueAfter)
    (after,) = seen(stranded_pods, marked(ago=10))
    assert isinstance(after, RequeueAfter)
    assert after.seconds == QUARANTINE - 10
    (delete,) = seen(stranded_pods, marked(ago=QUARANTINE))
    assert isinstance(delete, Delete)
    assert delete.grace == 0
    assert [one.name for one in delete.unless] == ["n1"]


def test_a_node_that_is_back_has_its_pods_stay() -> None:
    (status,) = seen(stranded_pods, marked(ago=99), node("n1"))
    assert isinstance(status, SetStatus)
    assert status.status["conditions"][0]["status"] == "False"
