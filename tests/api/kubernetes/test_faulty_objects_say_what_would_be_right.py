"""The faults that people make in kinds other than pods, with Kubernetes' own paths and words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.kubernetes.cases import FAULTS, GOOD, with_change

from pilothouse.meta.kind import Object


@pytest.mark.parametrize("manifest", GOOD, ids=lambda manifest: manifest["kind"])
def test_an_object_in_order_is_taken(kinds: Any, manifest: Object) -> None:
    assert kinds.problems(manifest) == []


@pytest.mark.parametrize(
    ("manifest", "path", "value", "expected"),
    FAULTS,
    ids=[f"{each[0]['kind']}: {each[3][:60]}" for each in FAULTS],
)
def test_a_fault_is_told_with_its_path(
    kinds: Any, manifest: Object, path: str, value: Any, expected: str
) -> None:
    problems = kinds.problems(with_change(manifest, path, value))

    assert any(problem.startswith(expected) for problem in problems), problems


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("selector", {"matchLabels": {"app": "other"}}, "spec.template.metadata.labels: Invalid value: "),
        ("selector", {}, "spec.selector: Invalid value: {}: empty selector is invalid for statefulset"),
        ("replicas", -1, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("serviceName", "A", 'spec.serviceName: Invalid value: "A"'),
        ("podManagementPolicy", "Random", 'spec.podManagementPolicy: Unsupported value: "Random"'),
        (
            "updateStrategy",
            {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            "spec.updateStrategy.rollingUpdate: Invalid value: ",
        ),
        (
            "updateStrategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}},
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
        ),
        (
            "volumeClaimTemplates",
            [],
            'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"',
        ),
        (
            "volumeClaimTemplates",
            [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ),
    ],
)
def test_a_faulty_stateful_set_says_where(
    kinds: Any, stateful_set: Object, path: str, value: Any, expected: str
) -> None:
    stateful_set["spec"][path] = value

    problems = kinds.problems(stateful_set)

    assert any(problem.startswith(expected) for problem in problems), problems


def test_a_set_restarts_its_pods_always(kinds: Any, stateful_set: Object) -> None:
    stateful_set["spec"]["template"]["spec"]["restartPolicy"] = "Never"

    assert kinds.problems(stateful_set) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [
        ("Namespace", "a.b", False),
        ("Namespace", "a-b", True),
        ("Service", "1a", False),
        ("Service", "a1", True),
        ("StatefulSet", "a.b", False),
        ("Role", "system:reader", True),
        ("Role", "a/b", False),
        ("CertificateSigningRequest", "node:a_B", True),
    ],
)
def test_some_kinds_have_names_of_their_own(kinds: Any, kind: str, name: str, good: bool) -> None:
    rule = kinds.kind(kind).validate_name

    assert (rule(name) == "") is good
