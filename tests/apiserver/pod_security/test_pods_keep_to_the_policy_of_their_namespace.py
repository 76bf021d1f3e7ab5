"""A pod is refused for what its namespace's level forbids, with every reason and its place, however it is sent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.pod_security.scenes import IMAGE, PREFIX, RESTRICTED, Json, Plane, labels, pod

from pilothouse.api.pod_security.evaluation import evaluate
from pilothouse.api.pod_security.policy import BASELINE, LevelVersion

VIOLATIONS: dict[str, tuple[Json, str]] = {
    "hostNetwork": (pod("a", hostNetwork=True), "host namespaces (hostNetwork=true)"),
    "hostPID": (pod("a", hostPID=True), "host namespaces (hostPID=true)"),
    "hostPath": (
        pod("a", volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
        'hostPath volumes (volume "root")',
    ),
    "privileged": (
        pod("a", {"privileged": True}),
        'privileged (container "a" must not set securityContext.privileged=true)',
    ),
    "capabilities": (
        pod("a", {"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}),
        'non-default capabilities (container "a" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
    ),
    "unconfined": (
        pod("a", {"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "procMount": (
        pod("a", {"procMount": "Unmasked"}, hostUsers=False),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    # Kubernetes lets pods share the node's user ids; on our nodes they have their own unless they ask.
    "hostUsers": (pod("a", hostUsers=True), "hostUsers (pod must not set hostUsers=true)"),
    "hostPort": (
        {
            "metadata": {"name": "a"},
            "spec": {
                "containers": [
                    {"name": "a", "image": IMAGE, "ports": [{"containerPort": 80, "hostPort": 80}]}
                ]
            },
        },
        'hostPort (container "a" uses hostPort 80)',
    ),
}


@pytest.mark.parametrize(("sent", "detail"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_baseline_refuses_what_leads_to_the_node(plane: Plane, sent: Json, detail: str) -> None:
    plane.namespace("t", enforce="baseline")
    answer = plane.create("t", sent)
    assert answer.status == 403
    assert answer.message == f'pods "a" is forbidden: violates PodSecurity "baseline:latest": {detail}'
    assert answer.json["details"] == {"kind": "pods", "name": "a"}


def test_host_users_need_a_namespace_at_level_privileged(plane: Plane) -> None:
    plane.namespace("old", enforce="baseline", enforce_version="v1.0")
    plane.namespace("restricted", enforce="restricted")
    plane.namespace("privileged", enforce="privileged")
    for namespace in ("old", "restricted"):
        assert "hostUsers" in plane.create(namespace, pod("a", RESTRICTED, hostUsers=True)).message
    assert "PodSecurity" not in plane.create("privileged", pod("a", hostUsers=True)).message


def test_restricted_names_all_that_is_missing_at_once(plane: Plane) -> None:
    plane.namespace("t", enforce="restricted")
    assert plane.create("t", pod("a")).message == (
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": '
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    plane.create("t", pod("a", RESTRICTED)).expect(201)


def test_a_pod_with_ids_of_its_own_may_still_not_be_root(plane: Plane) -> None:
    plane.namespace("t", enforce="restricted")
    sent = pod("a", {**RESTRICTED, "runAsUser": 0, "runAsNonRoot": False}, hostUsers=False)
    message = plane.create("t", sent).message
    assert "runAsUser=0" in message
    assert "runAsNonRoot != true" in message


def test_a_version_has_the_checks_of_its_time(plane: Plane) -> None:
    plane.namespace("old", enforce="restricted", enforce_version="v1.18")
    plane.namespace("future", enforce="restricted", enforce_version="v1.99")
    almost = {"allowPrivilegeEscalation": False, "runAsNonRoot": True}
    plane.create("old", pod("a", almost)).expect(201)
    message = plane.create("future", pod("a", almost)).message
    assert 'violates PodSecurity "restricted:v1.99": unrestricted capabilities' in message


def test_an_init_container_is_no_way_round(plane: Plane) -> None:
    plane.namespace("t", enforce="baseline")
    init = {"name": "first", "image": IMAGE, "securityContext": {"privileged": True}}
    assert 'container "first" must not set' in plane.create("t", pod("a", initContainers=[init])).message


def test_nor_is_a_container_that_is_added_later() -> None:
    # Not served; who serves it will not have to think of this.
    added = {"name": "debug", "image": IMAGE, "securityContext": {"privileged": True}}
    found = evaluate(LevelVersion(BASELINE), {}, {**pod("a")["spec"], "ephemeralContainers": [added]})
    assert found.detail == 'privileged (container "debug" must not set securityContext.privileged=true)'


WAYS: dict[str, dict[str, Any]] = {
    "apply": {"type": "application/apply-patch+yaml", "query": "fieldManager=m&force=true"},
    "create": {},
    "dry run": {"query": "dryRun=All"},
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_to_make_a_pod_leads_round_the_policy(plane: Plane, way: str) -> None:
    plane.namespace("t", enforce="baseline")
    sent = {"apiVersion": "v1", "kind": "Pod", **pod("a", hostNetwork=True)}
    path = "/api/v1/namespaces/t/pods"
    if way == "apply":
        answer = plane.server.send("PATCH", f"{path}/a", sent, **WAYS[way])
    else:
        answer = plane.server.send("POST", path, sent, **WAYS[way])
    assert answer.status == 403, answer.message
    plane.server.send("GET", f"{path}/a").expect(404)


def test_labels_that_can_not_be_read_enforce_the_strictest(plane: Plane) -> None:
    # Such a namespace can only be there from before somebody looked at its labels.
    metadata = {"name": "t", "uid": "1", "labels": labels(enforce="strict", warn="strict")}
    plane.server.store("namespaces/t", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    plane.account("t")
    answer = plane.create("t", pod("a"))
    assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation' in answer.message
    assert answer.annotations[f"{PREFIX}error"].startswith(
        f"Failed to parse policy: [metadata.labels[{PREFIX}enforce]"
    )
    admitted = plane.create("t", pod("a", RESTRICTED))
    assert (admitted.status, admitted.warnings) == (201, [])
    # What has nothing to do with them can still be changed, and they can be mended.
    plane.merge("/api/v1/namespaces/t", {"metadata": {"labels": {"x": "y"}}}).expect(200)
    plane.label("t", enforce="baseline", warn="baseline").expect(200)


class TestUpdates:
    """Of a pod that was there before the policy."""

    @pytest.fixture
    def path(self, plane: Plane) -> str:
        plane.namespace("t", enforce="privileged")
        plane.create("t", pod("a", hostNetwork=True)).expect(201)
        plane.label("t", enforce="baseline").expect(200)
        return "/api/v1/namespaces/t/pods/a"

    def test_its_labels_and_its_status_can_still_be_written(self, plane: Plane, path: str) -> None:
        plane.merge(path, {"metadata": {"labels": {"x": "y"}}}).expect(200)
        plane.merge(f"{path}/status", {"status": {"phase": "Running"}}).expect(200)
        plane.server.send("DELETE", path).expect(200)

    def test_another_image_is_another_program(self, plane: Plane, path: str) -> None:
        image = {"spec": {"containers": [{"name": "a", "image": "registry.example.com/b:1"}]}}
        answer = plane.server.send("PATCH", path, image, type="application/strategic-merge-patch+json")
        assert answer.status == 403
        assert "violates PodSecurity" in answer.message
        live = plane.server.send("GET", path).expect(200)
        live["spec"]["containers"][0]["image"] = "registry.example.com/b:1"
        assert plane.server.send("PUT", path, live).status == 403


def test_warnings_come_with_what_is_admitted_and_not_with_what_is_refused(plane: Plane) -> None:
    plane.namespace("t", enforce="baseline", warn="restricted")
    admitted = plane.create("t", pod("a", RESTRICTED | {"runAsNonRoot": None}))
    admitted.expect(201)
    assert admitted.warnings == [
        'would violate PodSecurity "restricted:latest": runAsNonRoot != true (pod or container "a" must set '
        "securityContext.runAsNonRoot=true)"
    ]
    assert plane.create("t", pod("b", hostNetwork=True)).warnings == []


def test_a_template_is_warned_about_and_its_pods_are_refused(plane: Plane) -> None:
    plane.namespace("t", enforce="baseline")
    answer = plane.stateful_set("t", "s", pod("a", hostNetwork=True))
    answer.expect(201)
    assert answer.warnings == [
        'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    ]
    template = {"spec": {"template": {"spec": {"hostNetwork": False}}}}
    changed = plane.merge("/apis/apps/v1/namespaces/t/statefulsets/s", template)
    assert (changed.status, changed.warnings) == (200, [])
    scaled = plane.merge("/apis/apps/v1/namespaces/t/statefulsets/s/scale", {"spec": {"replicas": 2}})
    assert (scaled.status, scaled.warnings) == (200, [])
