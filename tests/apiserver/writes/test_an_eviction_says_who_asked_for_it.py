"""Evictions: the condition of the pod says who asked and why; a pod that is not ready may cost nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import ADMIN, CoreServer

from pilothouse.api.disruption_target import EVICTED_BECAUSE, EVICTED_BY
from pilothouse.apiserver.server.messages import User
from pilothouse.pki.keyring import MANAGER

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"


def running_pod(server: CoreServer, *, ready: bool = True) -> None:
    """On a node, so that a deletion marks it and leaves the rest to the node."""
    pod = {
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    server.send("POST", PODS, pod).expect(201)
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"status": {"phase": "Running", "conditions": [condition]}}
    server.send("PATCH", f"{PODS}/a/status", status, type=MERGE).expect(200)


def budget(server: CoreServer, *, allowed: int, needed: int, healthy: int, **spec: Any) -> None:
    selector = {"matchLabels": {"app": "a"}}
    server.send("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": selector, **spec}}).expect(
        201
    )
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "desiredHealthy": needed,
        "currentHealthy": healthy,
    }
    server.send("PATCH", f"{BUDGETS}/b/status", {"status": status}, type=MERGE).expect(200)


def evict(server: CoreServer, user: User = ADMIN, **annotations: str) -> Any:
    metadata = {"name": "a", "annotations": annotations} if annotations else {"name": "a"}
    return server.send("POST", f"{PODS}/a/eviction", {"metadata": metadata}, user=user)


def condition(server: CoreServer) -> dict[str, Any]:
    pod = server.send("GET", f"{PODS}/a").json
    assert "deletionTimestamp" in pod["metadata"]
    [found] = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    return dict(found)


def spent(server: CoreServer) -> tuple[int, list[str]]:
    status = server.send("GET", f"{BUDGETS}/b").json["status"]
    return status["disruptionsAllowed"], sorted(status.get("disruptedPods") or {})


def test_the_annotations_of_an_eviction_are_in_the_condition(server: CoreServer) -> None:
    running_pod(server)
    manager = User(MANAGER, groups=ADMIN.groups)
    evict(server, manager, **{EVICTED_BY: "drains", EVICTED_BECAUSE: "node n1 is updated"}).expect(201)
    found = condition(server)
    assert (found["status"], found["reason"]) == ("True", "EvictionByEvictionAPI")
    assert found["message"] == "drains: node n1 is updated"
    assert found["lastTransitionTime"]


def test_users_who_say_that_they_are_a_controller_are_named(server: CoreServer) -> None:
    running_pod(server)
    evict(server, ADMIN, **{EVICTED_BY: "drains", EVICTED_BECAUSE: "node n1 is updated"}).expect(201)
    assert condition(server)["message"] == f"{ADMIN.name} (drains): node n1 is updated"


def test_an_eviction_without_annotations_names_its_user(server: CoreServer) -> None:
    running_pod(server)
    evict(server).expect(201)
    by, _, because = condition(server)["message"].partition(": ")
    assert (
        by
        == server.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).json["status"][
            "userInfo"
        ]["username"]
    )
    assert because == "evicted through the API"


def test_a_refused_eviction_leaves_the_pod_as_it_is(server: CoreServer) -> None:
    running_pod(server)
    budget(server, allowed=0, needed=1, healthy=1)
    before = server.revision
    evict(server).expect(429)
    assert server.revision == before


def test_an_eviction_of_a_ready_pod_spends(server: CoreServer) -> None:
    running_pod(server)
    budget(server, allowed=1, needed=1, healthy=2)
    evict(server).expect(201)
    assert spent(server) == (0, ["a"])


@pytest.mark.parametrize(
    ("policy", "healthy", "status"),
    [
        ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 201),
        ({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, 429),
        ({}, 0, 429),
        ({}, 2, 201),
    ],
)
def test_a_pod_that_is_not_ready_costs_nothing_if_its_budget_says_so(
    server: CoreServer, policy: dict[str, str], healthy: int, status: int
) -> None:
    running_pod(server, ready=False)
    budget(server, allowed=0, needed=2, healthy=healthy, **policy)
    evict(server).expect(status)
    assert spent(server) == (0, [])
