"""Nodes come, fall silent and come back, as decisions."""

from __future__ import annotations

from typing import Any

from tests.kit.scheduling_objects import NOW, pod, seen

from pilothouse.api.objects import Object, Tree
from pilothouse.api.tolerations import NOT_READY, UNREACHABLE
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.node_lifecycle import GRACE, node_lifecycle
from pilothouse.runtime.intents import Delete, Intent, PatchObject, RequeueAfter, SetStatus, Wait


def a_node(name: str = "n1", *, ready: str = "True", taints: list[Tree] | None = None, **spec: Any) -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "spec": {**({"taints": taints} if taints else {}), **spec},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        },
        arrived=NOW - 1000,
    )


def a_lease(name: str = "n1", *, silent: float = 0.0) -> Object:
    """One whose holder's clock is wrong: only the arrival counts."""
    return Object.of(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": "kube-node-lease",
                "uid": f"l-{name}",
                "resourceVersion": "1",
            },
            "spec": {"renewTime": "1999-01-01T00:00:00.000000Z"},
        },
        arrived=NOW - silent,
    )


ANOTHER = (a_node("n2"), a_lease("n2"))


def a_pod(name: str = "p", **spec: Any) -> Tree:
    tree = pod(name, on="n1", **spec)
    return {**tree, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def tainted(key: str, *, ago: float, effects: tuple[str, ...] = ("NoSchedule", "NoExecute")) -> list[Tree]:
    return [{"key": key, "effect": effect, "timeAdded": format_time(NOW - ago)} for effect in effects]


def taints(intents: list[Intent]) -> list[tuple[str, str]] | None:
    """What the node's taints become; None if they are left alone."""
    patch = next((one for one in intents if isinstance(one, PatchObject)), None)
    if patch is None:
        return None
    return [(one["key"], one["effect"]) for one in patch.fields["spec"]["taints"] or ()]


def deleted(intents: list[Intent]) -> list[str]:
    return [one.seen.name for one in intents if isinstance(one, Delete)]


def test_a_node_that_is_heard_of_is_left_alone_whatever_its_clock_says() -> None:
    (after,) = seen(node_lifecycle, a_node(), a_lease(silent=20), a_pod())
    assert isinstance(after, RequeueAfter)
    assert after.seconds == GRACE - 20


def test_a_silent_node_is_unknown_and_tainted_and_its_pods_are_not_ready() -> None:
    intents = seen(node_lifecycle, a_node(), a_lease(silent=GRACE), a_pod(), *ANOTHER)
    statuses = {one.seen.kind: one.status for one in intents if isinstance(one, SetStatus)}
    assert {one["type"]: one["status"] for one in statuses["Node"]["conditions"]}["Ready"] == "Unknown"
    assert taints(intents) == [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    assert [one["status"] for one in statuses["Pod"]["conditions"]] == ["False"]
    assert deleted(intents) == []


def test_pods_of_a_node_that_nothing_is_known_of_since_a_start_have_the_grace_period_first() -> None:
    hasty = a_pod(tolerations=[{"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 0}])
    intents = seen(node_lifecycle, a_node(ready="Unknown"), a_lease(silent=2), hasty, *ANOTHER)
    assert taints(intents) == [(UNREACHABLE, "NoSchedule")]
    assert deleted(intents) == []
    # One whose pods' time has begun to run is not given more of it by another start.
    gone = a_node(ready="Unknown", taints=tainted(UNREACHABLE, ago=600))
    assert deleted(seen(node_lifecycle, gone, a_lease(silent=2), a_pod(), *ANOTHER)) == ["p"]


def test_a_node_that_says_it_is_not_ready_is_tainted() -> None:
    intents = seen(node_lifecycle, a_node(ready="False"), a_lease(), a_pod())
    assert taints(intents) == [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]


def test_pods_go_when_their_tolerations_have_run_out() -> None:
    patient = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    pods = [
        a_pod("usual"),
        a_pod("hasty", tolerations=[{**patient, "tolerationSeconds": 10}]),
        a_pod("longer", tolerations=[{**patient, "tolerationSeconds": 900}]),
        a_pod("ever", tolerations=[patient]),
    ]

    def after(seconds: float) -> list[str]:
        node = a_node(ready="Unknown", taints=tainted(UNREACHABLE, ago=seconds))
        return deleted(seen(node_lifecycle, node, a_lease(silent=seconds + GRACE), *pods, *ANOTHER))

    assert after(5) == []
    assert after(20) == ["hasty"]
    assert after(301) == ["hasty", "usual"]
    assert after(901) == ["hasty", "longer", "usual"]


def test_a_node_that_is_back_loses_our_taints_and_keeps_the_others() -> None:
    mine = {"key": "mine", "effect": "NoSchedule"}
    intents = seen(node_lifecycle, a_node(taints=[mine, *tainted(UNREACHABLE, ago=400)]), a_lease(), a_pod())
    assert taints(intents) == [("mine", "NoSchedule")]
    assert deleted(intents) == []


def test_a_node_that_is_heard_of_but_has_not_said_how_it_is_stays_tainted() -> None:
    node = a_node(ready="Unknown", taints=tainted(UNREACHABLE, ago=10))
    assert taints(seen(node_lifecycle, node, a_lease(), *ANOTHER)) is None


def test_no_pod_goes_when_no_node_at_all_is_heard_of_and_the_time_begins_anew() -> None:
    nodes = [a_node("n2"), a_lease("n2", silent=600)]
    node = a_node(ready="Unknown", taints=tainted(UNREACHABLE, ago=400))
    intents = seen(node_lifecycle, node, a_lease(silent=500), a_pod(), *nodes)
    assert deleted(intents) == []
    assert [one.reason for one in intents if isinstance(one, Wait)] == ["NobodyHeard"]
    assert taints(intents) == [(UNREACHABLE, "NoSchedule")]

    node = a_node(ready="Unknown", taints=tainted(UNREACHABLE, ago=400, effects=("NoSchedule",)))
    heard = seen(node_lifecycle, node, a_lease(silent=500), a_pod(), *ANOTHER)
    assert deleted(heard) == []
    assert taints(heard) == [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]


def test_what_a_node_says_of_itself_keeps_pods_away() -> None:
    tree = a_node(unschedulable=True).tree
    conditions = [*tree["status"]["conditions"], {"type": "DiskPressure", "status": "True"}]
    node = Object.of({**tree, "status": {"conditions": conditions}}, arrived=NOW)
    assert taints(seen(node_lifecycle, node, a_lease(), a_pod())) == [
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


def test_a_taint_of_somebody_elses_has_pods_go() -> None:
    taint = {"key": "maintenance", "effect": "NoExecute"}
    bears = {"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60}
    pods = [a_pod("p"), a_pod("q", tolerations=[bears])]
    intents = seen(node_lifecycle, a_node(taints=[taint]), a_lease(), *pods)
    assert deleted(intents) == ["p"]
    patch = next(one for one in intents if isinstance(one, PatchObject))
    assert patch.fields["spec"]["taints"] == [{**taint, "timeAdded": format_time(NOW)}]
    later = seen(
        node_lifecycle, a_node(taints=[{**taint, "timeAdded": format_time(NOW - 61)}]), a_lease(), *pods
    )
    assert deleted(later) == ["p", "q"]


def test_a_node_without_a_lease_counts_from_its_own_last_word() -> None:
    fresh = Object.of(a_node().tree, arrived=NOW - 10)
    (after,) = seen(node_lifecycle, fresh)
    assert isinstance(after, RequeueAfter)
