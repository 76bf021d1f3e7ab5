"""Whatever holds up a set is told in words, with what would help; and a set that can't be understood harms nobody."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.controller_harness import WRITES, ControllerHarness, waits
from tests.kit.workloads import rolling, stateful_set

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.runtime.intents import Wait

WAITING = {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}}
EXITED = {"state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
SPOKEN: dict[str, Any] = {
    "state": {
        "terminated": {
            "exitCode": 3,
            "reason": "Error",
            "finishedAt": "2026-01-01T00:00:10Z",
            "message": "starting\nTraceback (most recent call last):\nValueError: no such region\n",
        }
    }
}
"""It has left a message: the end of its log, say."""
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no node has 2 CPUs left",
}
ON_NO_READY_NODE = {
    **UNSCHEDULABLE,
    "message": "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
}
UNPROVISIONED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "WaitingForVolumes",
    "message": 'persistentvolumeclaim "data-web-0" can\'t be provisioned: node n1: the disk is full',
}


def waited(pod_status: dict[str, Any], pod_spec: dict[str, Any] | None = None, **spec: Any) -> Wait:
    """What a set waits for whose first pod is so."""
    harness = ControllerHarness()
    web = harness.add(stateful_set(**spec))
    harness.step(stateful_sets, web)
    harness.change(harness.pod("web-0"), lambda tree: tree["spec"].update(pod_spec or {}))
    harness.change(harness.pod("web-0"), lambda tree: tree.update(status=pod_status))
    harness.step(stateful_sets, web)
    intents = harness.step(stateful_sets, web)
    assert not any(isinstance(intent, WRITES) for intent in intents)
    [wait] = waits(intents)
    return wait


@pytest.mark.parametrize(
    ("status", "spec", "reason", "said", "remedy"),
    [
        ({"phase": "Pending"}, {}, "PodPending", "web-0 has no node yet", "scheduler"),
        (
            {"phase": "Pending", "conditions": [UNSCHEDULABLE]},
            {},
            "Unschedulable",
            "no node has 2 CPUs left",
            "add a node",
        ),
        (
            {"phase": "Pending", "conditions": [ON_NO_READY_NODE]},
            {},
            "Unschedulable",
            "untolerated taint {node.kubernetes.io/not-ready: }",
            "see why these nodes take no pods: kubectl describe nodes",
        ),
        (
            {"phase": "Pending", "conditions": [UNPROVISIONED]},
            {},
            "WaitingForVolumes",
            'persistentvolumeclaim "data-web-0" can\'t be provisioned: node n1: the disk is full',
            "check the pod's claims: kubectl describe pvc -n default",
        ),
        (
            {"phase": "Pending"},
            {"schedulingGates": [{"name": "x.io/wait"}]},
            "SchedulingGated",
            "x.io/wait",
            "remove them",
        ),
        ({"phase": "Pending"}, {"nodeName": "n1"}, "PodStarting", "on node n1", ""),
        (
            {"phase": "Running", "containerStatuses": [{"name": "app", **WAITING}]},
            {"nodeName": "n1"},
            "CrashLoopBackOff",
            "container app of pod web-0 can't run: CrashLoopBackOff: back-off 5m0s",
            "kubectl logs web-0 -n default -c app --previous",
        ),
        (
            {"phase": "Running", "containerStatuses": [{"name": "app", **EXITED}]},
            {"nodeName": "n1"},
            "ContainerExited",
            "code 3: Error",
            "kubectl logs web-0",
        ),
        (
            {"phase": "Running", "containerStatuses": [{"name": "app", **SPOKEN}]},
            {"nodeName": "n1"},
            "ContainerExited",
            "container app of pod web-0 exited with code 3: ValueError: no such region",
            "kubectl logs web-0",
        ),
        (
            {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:09Z"}
                ],
                "containerStatuses": [
                    {"name": "app", "state": {"running": {}}, "lastState": SPOKEN["state"]}
                ],
            },
            {"nodeName": "n1"},
            "PodNotReady",
            "runs but is not ready; container app exited with code 3: ValueError: no such region before",
            "readiness probe",
        ),
        (
            {"phase": "Running", "containerStatuses": [{"name": "app", "ready": True, **WAITING}]},
            {"nodeName": "n1"},
            "PodNotReady",
            "runs but is not ready",
            "readiness probe",
        ),
        (
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}],
            },
            {"nodeName": "n1"},
            "NodeNotReady",
            "web-0 is on node n1, which is not ready",
            "bring node n1 back",
        ),
        ({"phase": "Unknown"}, {"nodeName": "n1"}, "PodUnknown", "n1 does not report", "bring the node back"),
    ],
)
def test_a_pod_that_is_not_up_is_named_with_its_trouble(
    status: dict[str, Any], spec: dict[str, Any], reason: str, said: str, remedy: str
) -> None:
    wait = waited(status, spec)
    assert wait.reason == reason
    assert said in wait.because
    assert remedy in wait.remedy


@pytest.mark.parametrize(
    ("message", "about_a_source"),
    [
        ('configmap "settings" not found', True),
        ('secret "password" not found', True),
        ("couldn't find key port in ConfigMap default/settings", True),
        ("Secret password can't be read: the server is away", True),
        ('container "secret keeper" has runAsNonRoot and would run as root; set runAsUser to a user', False),
        ('image "x" has no entrypoint, and container "app" no command; set command', False),
    ],
)
def test_only_who_lacks_a_config_map_or_secret_is_told_to_make_it(message: str, about_a_source: bool) -> None:
    state = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": message}}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "app", **state}]}
    wait = waited(status, {"nodeName": "n1"})
    assert message in wait.because
    assert ("create the ConfigMap or Secret" in wait.remedy) == about_a_source
    assert ("kubectl describe pod web-0" in wait.remedy) != about_a_source


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ('volume "v": secret "password" not found', "create Secret password in namespace default"),
        ('volume "v": configmap "settings" not found', "create ConfigMap settings in namespace default"),
        ('persistentvolumeclaim "data" not found', "create PersistentVolumeClaim data in namespace default"),
        ('volume "v": /data: Permission denied', "check the claim, ConfigMap or Secret"),
    ],
)
def test_what_a_volume_lacks_is_named_where_help_is(message: str, remedy: str) -> None:
    state = {"state": {"waiting": {"reason": "FailedMount", "message": message}}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "app", **state}]}
    assert remedy in waited(status, {"nodeName": "n1"}).remedy


def test_tolerations_are_no_help_where_no_node_is_ready() -> None:
    wait = waited({"phase": "Pending", "conditions": [ON_NO_READY_NODE]})
    assert "tolerations" not in wait.remedy
    mixed = {
        **UNSCHEDULABLE,
        "message": "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.",
    }
    wait = waited({"phase": "Pending", "conditions": [mixed]})
    assert "kubectl describe nodes" in wait.remedy
    assert "ask for less" in wait.remedy


def test_a_pod_that_does_not_go_is_named_with_what_keeps_it() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.change(harness.pod("web-0"), lambda tree: tree["metadata"].update(finalizers=["x.io/keep"]))
    harness.delete(harness.pod("web-0"))
    harness.step(stateful_sets, web)
    [wait] = waits(harness.step(stateful_sets, web))
    assert wait.reason == "PodTerminating"
    assert "x.io/keep" in wait.because
    assert "x.io/keep" in wait.remedy


def test_what_is_said_does_not_change_with_time() -> None:
    """Or else a record would be written over and over."""
    harness = ControllerHarness()
    web = harness.add(stateful_set(minReadySeconds=1000))
    harness.step(stateful_sets, web)
    harness.run_pods()
    harness.step(stateful_sets, web)
    first = waits(harness.step(stateful_sets, web))
    harness.now += 500
    assert waits(harness.step(stateful_sets, web)) == first != []


def test_a_parallel_set_tells_of_several_pods_at_once() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(podManagementPolicy="Parallel", replicas=5))
    harness.step(stateful_sets, web)
    harness.step(stateful_sets, web)
    [wait] = waits(harness.step(stateful_sets, web))
    assert all(name in wait.because for name in ("web-0", "web-1", "web-2"))
    assert wait.because.endswith("and 2 more")


def test_a_set_that_is_as_it_should_be_waits_for_nothing() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    assert harness.settle(stateful_sets, web) == []


def _ready_without_time(tree: dict[str, Any]) -> None:
    tree["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def test_a_ready_pod_that_does_not_say_since_when_is_not_available() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(minReadySeconds=5))
    harness.step(stateful_sets, web)
    harness.change(harness.pod("web-0"), _ready_without_time)
    [wait] = waits(harness.step(stateful_sets, web))
    assert wait.reason == "PodNotAvailable"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"replicas": "three"}, "spec.replicas"),
        ({"replicas": -1}, "spec.replicas"),
        ({"selector": {}}, "spec.selector"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "spec.selector"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
        ({"template": "x"}, "spec.template"),
        ({"podManagementPolicy": "Chaotic"}, "spec.podManagementPolicy"),
        ({"updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy.type"),
        ({"updateStrategy": rolling(partition="x")}, "spec.updateStrategy.rollingUpdate.partition"),
        ({"updateStrategy": rolling(maxUnavailable="x")}, "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start"),
        ({"volumeClaimTemplates": [{"spec": {}}]}, "spec.volumeClaimTemplates[0].metadata.name"),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Burn"}},
            "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
        ),
    ],
)
def test_a_set_that_can_t_be_understood_says_where_and_leaves_its_pods_alone(
    spec: dict[str, Any], path: str
) -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.edit(web, **spec)
    [wait] = harness.step(stateful_sets, web)
    assert isinstance(wait, Wait)
    assert wait.reason == "SpecUnreadable"
    assert f"{path}:" in wait.because


@pytest.mark.parametrize(
    "status",
    [
        {"collisionCount": "x", "currentReplicas": "x", "observedGeneration": "x", "currentRevision": 3},
        {"conditions": None, "readyReplicas": None},
        None,
    ],
)
def test_a_status_edited_into_nonsense_is_set_right(status: Any) -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set(updateStrategy={"type": "RollingUpdate"}))
    harness.change(web, lambda tree: tree.update(status=status))
    harness.settle(stateful_sets, web)
    assert harness.status(web)["readyReplicas"] == 3
    assert harness.status(web)["observedGeneration"] == 1
    assert harness.status(web)["collisionCount"] == 0


def _revisionless(pod: Object) -> bool:
    return "controller-revision-hash" not in pod.labels


def test_a_pod_without_a_revision_is_updated_like_an_old_one() -> None:
    harness = ControllerHarness()
    web = harness.add(stateful_set())
    harness.settle(stateful_sets, web)
    harness.change(
        harness.pod("web-1"), lambda tree: tree["metadata"]["labels"].pop("controller-revision-hash")
    )
    harness.settle(stateful_sets, web)
    assert not any(map(_revisionless, harness.all(Pod)))
