"""What a person is likely to get wrong in a pod, with Kubernetes' own path and words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.kubernetes.cases import CONTAINER_FAULTS, SPEC_FAULTS


def test_a_pod_in_order_is_taken(kinds: Any, pod: dict[str, Any]) -> None:
    assert kinds.problems(pod) == []


@pytest.mark.parametrize(("fault", "expected"), CONTAINER_FAULTS, ids=[text for _, text in CONTAINER_FAULTS])
def test_a_faulty_container_is_named(
    kinds: Any, pod: dict[str, Any], fault: dict[str, Any], expected: str
) -> None:
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    pod["spec"]["containers"][0].update(fault)

    assert any(problem.startswith(expected) for problem in kinds.problems(pod)), kinds.problems(pod)


@pytest.mark.parametrize(("fault", "expected"), SPEC_FAULTS, ids=[text for _, text in SPEC_FAULTS])
def test_a_faulty_pod_says_where(
    kinds: Any, pod: dict[str, Any], fault: dict[str, Any], expected: str
) -> None:
    pod["spec"].update(fault)

    assert any(problem.startswith(expected) for problem in kinds.problems(pod)), kinds.problems(pod)


def test_a_sidecar_may_have_probes(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["initContainers"] = [
        {
            "name": "side",
            "image": "x",
            "restartPolicy": "Always",
            "livenessProbe": {"exec": {"command": ["x"]}},
        }
    ]

    assert kinds.problems(pod) == []


def test_every_fault_is_told_at_once(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["containers"] = [
        {"name": "", "image": ""},
        {"name": "b", "image": "x", "ports": [{"containerPort": -1}]},
    ]

    assert len(kinds.problems(pod)) == 3


def test_a_variable_may_be_set_twice(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": 80}]

    assert kinds.problems(pod) == []


NUL = "must not contain a NUL character"
MOUNT = {"name": "v", "mountPath": "/v"}


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("workingDir", {"workingDir": "/a\0"}),
        ("terminationMessagePath", {"terminationMessagePath": "/a\0"}),
        ("command[1]", {"command": ["a", "b\0c"]}),
        ("args[0]", {"args": ["\0"]}),
        ("env[0].value", {"env": [{"name": "A", "value": "secret\0"}]}),
        ("volumeMounts[0].mountPath", {"volumeMounts": [{**MOUNT, "mountPath": "/v\0"}]}),
        ("volumeMounts[0].subPath", {"volumeMounts": [{**MOUNT, "subPath": "a\0"}]}),
        ("volumeMounts[0].subPathExpr", {"volumeMounts": [{**MOUNT, "subPathExpr": "a\0"}]}),
        ("livenessProbe.exec.command[0]", {"livenessProbe": {"exec": {"command": ["a\0"]}}}),
        (
            "livenessProbe.httpGet.host",
            {"livenessProbe": {"httpGet": {"host": "\0", "path": "/", "port": 1}}},
        ),
        ("livenessProbe.httpGet.path", {"livenessProbe": {"httpGet": {"path": "/\0", "port": 1}}}),
        ("readinessProbe.tcpSocket.host", {"readinessProbe": {"tcpSocket": {"host": "\0", "port": 1}}}),
    ],
)
def test_no_text_for_the_kernel_has_a_nul(
    kinds: Any, pod: dict[str, Any], field: str, fault: dict[str, Any]
) -> None:
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    pod["spec"]["containers"][0].update(fault)
    [problem] = kinds.problems(pod)
    assert problem.startswith(f"spec.containers[0].{field}: Invalid value")
    assert problem.endswith(NUL)
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("field", "source"),
    [
        ("configMap.items[0].path", {"configMap": {"name": "c", "items": [{"key": "k", "path": "a\0"}]}}),
        ("secret.items[0].path", {"secret": {"secretName": "c", "items": [{"key": "k", "path": "a\0"}]}}),
        (
            "projected.sources[0].serviceAccountToken.path",
            {"projected": {"sources": [{"serviceAccountToken": {"path": "a\0"}}]}},
        ),
        ("hostPath.path", {"hostPath": {"path": "/a\0"}}),
    ],
)
def test_no_path_of_a_volume_has_a_nul(
    kinds: Any, pod: dict[str, Any], field: str, source: dict[str, Any]
) -> None:
    pod["spec"]["volumes"] = [{"name": "v", **source}]
    [problem] = kinds.problems(pod)
    assert problem.startswith(f"spec.volumes[0].{field}: Invalid value")
    assert problem.endswith(NUL)
