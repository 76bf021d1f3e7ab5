"""What an object depends on is read too: the node of a pod, the control plane of a volume, the conditions of a claim."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from tests.kit.loopback import loopback

from pilothouse.api.kind_names import KindName, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from pilothouse.api.local_volumes import ADOPTS_VOLUMES_OF, NODE, PROVISIONED_BY, RESTORED_AT, RESTORED_FROM
from pilothouse.app.controller_list import all_controllers
from pilothouse.base.clock import ManualClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.diagnosis.collector import collect
from pilothouse.diagnosis.explanation import as_text

NOW = 1_800_000_000.0
ORIGINAL = "11111111-0000-4000-8000-000000000000"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def api(clock: ManualClock) -> AsyncIterator[Api]:
    async with loopback(clock) as transport:
        yield Api(transport, Random(1), manager="test")


async def why(api: Api, noun: KindName, name: str) -> str:
    findings = await collect(api, noun, name, "default", all_controllers(""), ("kube-system", "m"))
    return as_text(findings, now=NOW + 60)


async def with_status(api: Api, noun: KindName, body: dict[str, Any], status: dict[str, Any]) -> None:
    made = await api.create(noun, body)
    await api.patch(noun, made.name, made.namespace, {"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("phase", "status", "message", "remedy"),
    [
        ("Pending", "False", "volumes stopped: OSError: no space", "kubectl describe node n1"),
        ("Running", "Unknown", "The node stopped reporting its status.", "bring node n1 back"),
    ],
)
async def test_a_pod_on_a_node_that_is_not_ready_says_what_the_node_says(
    api: Api, phase: str, status: str, message: str, remedy: str
) -> None:
    condition = {"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": message}
    await with_status(api, Node, {"metadata": {"name": "n1"}}, {"conditions": [condition]})
    spec = {"nodeName": "n1", "containers": [{"name": "app", "image": "app:1"}]}
    await with_status(
        api, Pod, {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}, {"phase": phase}
    )
    told = await why(api, Pod, "db")
    assert f"pod db is on node n1, which is not ready: {message}" in told
    assert remedy in told


async def a_volume(api: Api) -> None:
    """A volume of a node's own storage, bound to a claim."""
    claim = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pvc-1",
        },
    }
    await with_status(api, PersistentVolumeClaim, claim, {"phase": "Bound", "capacity": {"storage": "1Gi"}})
    annotations = {PROVISIONED_BY: "pilothouse.io/directory", NODE: "n1"}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "local": {"path": "/data/pvc-1/data"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
                        ]
                    }
                ]
            }
        },
    }
    body = {"metadata": {"name": "pvc-1", "annotations": annotations}, "spec": spec}
    await with_status(api, PersistentVolume, body, {"phase": "Bound"})


async def restored(api: Api, moment: float, **annotations: str) -> None:
    given = {RESTORED_FROM: ORIGINAL, RESTORED_AT: format_time(moment), **annotations}
    await api.apply(Namespace, {"metadata": {"name": "kube-system", "annotations": given}})


@pytest.mark.parametrize(("noun", "name"), [(PersistentVolume, "pvc-1"), (PersistentVolumeClaim, "data")])
async def test_a_volume_of_the_original_is_said_to_be_so_in_what_was_restored(
    api: Api, noun: KindName, name: str
) -> None:
    await a_volume(api)
    await restored(api, NOW + 10)
    told = await why(api, noun, name)
    assert "volume pvc-1 belongs to the control plane that this one was restored from" in told
    assert f"kubectl annotate namespace kube-system {ADOPTS_VOLUMES_OF}={ORIGINAL}" in told


@pytest.mark.parametrize(
    ("moment", "annotations"),
    [(NOW - 10, {}), (NOW + 10, {ADOPTS_VOLUMES_OF: f"other, {ORIGINAL}"})],
    ids=["made since", "taken over"],
)
async def test_a_volume_of_its_own_is_not(api: Api, moment: float, annotations: dict[str, str]) -> None:
    await a_volume(api)
    await restored(api, moment, **annotations)
    assert "restored" not in await why(api, PersistentVolume, "pvc-1")


async def test_a_claim_whose_volume_does_not_grow_says_why(api: Api) -> None:
    await a_volume(api)
    condition = {
        "type": "NodeResizeError",
        "status": "True",
        "reason": "VolumeResizeFailed",
        "message": "there is no room for 2Gi in /data",
        "lastTransitionTime": format_time(NOW),
    }
    await api.patch(
        PersistentVolumeClaim,
        "data",
        "default",
        {"status": {"conditions": [condition]}},
        subresource="status",
    )
    told = await why(api, PersistentVolumeClaim, "data")
    assert "condition NodeResizeError is True (VolumeResizeFailed) for 60s: there is no room for 2Gi" in told
