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
