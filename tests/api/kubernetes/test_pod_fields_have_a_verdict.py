"""Every field of a pod is honoured, approximated or refused, and the documentation says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.kubernetes import pod_fields
from pilothouse.api.kubernetes.table import schema
from pilothouse.meta.kind import Object

DOCUMENT = Path(__file__).parents[3] / "docs/pod-fields.md"


def test_the_document_is_the_table() -> None:
    assert DOCUMENT.read_text() == pod_fields.document()


@pytest.mark.parametrize("message", pod_fields.SECTIONS)
def test_no_field_is_forgotten(message: str) -> None:
    assert set(pod_fields.SECTIONS[message]) == set(schema(message).properties)


@pytest.mark.parametrize("message", pod_fields.SECTIONS)
def test_what_is_not_honoured_has_a_reason(message: str) -> None:
    for field, verdict in pod_fields.SECTIONS[message].items():
        assert verdict.word == pod_fields.HONOURED or verdict.reason, field


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"runtimeClassName": "gvisor"}, ["spec.runtimeClassName"]),
        ({"hostPID": True}, ["spec.hostPID"]),
        ({"hostPID": False}, []),
        ({"hostUsers": False}, []),
        ({"hostUsers": True}, []),
        ({"hostIPC": True}, ["spec.hostIPC"]),
        ({"shareProcessNamespace": True}, ["spec.shareProcessNamespace"]),
        ({"containers": [{"securityContext": {"procMount": "Unmasked"}}]}, []),
        ({"os": {"name": "windows"}}, ["spec.os.name"]),
        ({"os": {"name": "linux"}}, []),
        ({"priorityClassName": "high"}, ["spec.priorityClassName"]),
        ({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}, []),
        ({"ephemeralContainers": [{"name": "x"}]}, ["spec.ephemeralContainers"]),
        ({"resourceClaims": [{"name": "gpu"}]}, ["spec.resourceClaims"]),
        ({"securityContext": {"seLinuxOptions": {}}}, []),
        ({"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}}, ["spec.securityContext.sysctls"]),
        ({"securityContext": {"fsGroup": 1, "runAsUser": 2}}, []),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}},
            [],
        ),
        (
            {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}},
            [
                "spec.securityContext.appArmorProfile.type",
                "spec.securityContext.appArmorProfile.localhostProfile",
            ],
        ),
        (
            {"containers": [{"name": "a"}, {"resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}]},
            ["spec.containers[1].resources.limits[nvidia.com/gpu]"],
        ),
        (
            {"initContainers": [{"securityContext": {"windowsOptions": {}}}]},
            ["spec.initContainers[0].securityContext.windowsOptions"],
        ),
        (
            {"containers": [{"livenessProbe": {"grpc": {"port": 1}}}]},
            ["spec.containers[0].livenessProbe.grpc"],
        ),
        (
            {"containers": [{"volumeMounts": [{"name": "a", "mountPropagation": "Bidirectional"}]}]},
            ["spec.containers[0].volumeMounts[0].mountPropagation"],
        ),
        ({"volumes": [{"name": "a", "nfs": {"server": "s"}}]}, ["spec.volumes[0].nfs"]),
        ({"volumes": [{"name": "a", "csi": {"driver": "d"}}]}, ["spec.volumes[0].csi"]),
        ({"volumes": [{"name": "a", "emptyDir": {"medium": "Memory"}}]}, []),
        (
            {"volumes": [{"name": "a", "emptyDir": {"medium": "HugePages-2Mi"}}]},
            ["spec.volumes[0].emptyDir.medium"],
        ),
        (
            {"volumes": [{"name": "a", "projected": {"sources": [{"clusterTrustBundle": {}}]}}]},
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle"],
        ),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused_with_its_path(spec: Object, paths: list[str]) -> None:
    found = pod_fields.refusals(spec)

    assert [problem.path for problem in found] == paths
    assert all("our nodes can't honour this" in problem.message for problem in found)


def test_templates_are_looked_into(kinds: Any, stateful_set: Object) -> None:
    stateful_set["spec"]["template"]["spec"]["hostPID"] = True

    (problem,) = pod_fields.refused_fields(kinds.kind("StatefulSet"), stateful_set)

    assert problem.path == "spec.template.spec.hostPID"


def test_an_ordinary_pod_and_set_are_honoured(kinds: Any, pod: Object, stateful_set: Object) -> None:
    for manifest in (pod, stateful_set):
        stored = kinds.create(manifest)
        assert pod_fields.refused_fields(kinds.kind(manifest["kind"]), stored) == []
