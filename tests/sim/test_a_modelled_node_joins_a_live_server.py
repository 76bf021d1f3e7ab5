"""Pods get ready and go, on ours and on a real kube-apiserver, and nothing runs."""

from __future__ import annotations

import uuid
from random import Random

import pytest
from tests.kit.targets import Fleet
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import KindName, Namespace, Node, Pod, ServiceAccount
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.sim.live_node import joined


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("kube", marks=pytest.mark.long)])
async def test_pods_get_ready_and_go(fleet: Fleet, kind: str) -> None:
    access = load(fleet.get(kind).target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as transport:
        api = Api(transport, Random(1), manager="test")
        space, node = f"t-{uuid.uuid4().hex[:8]}", f"n-{uuid.uuid4().hex[:8]}"
        await api.create(Namespace, {"metadata": {"name": space}})
        await api.apply(
            ServiceAccount,
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": space},
            },
        )
        async with joined(api, node):
            await eventually(lambda: _is_ready(api, Node, node))
            pod = {
                "metadata": {"name": "p", "namespace": space},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "app:1"}]},
            }
            await api.create(Pod, pod)
            await eventually(lambda: _is_ready(api, Pod, "p", space))
            found = await api.get(Pod, "p", space)
            assert found.status["phase"] == "Running"
            assert found.status["podIP"]
            await api.delete(Pod, "p", space)
            await eventually(lambda: _is_gone(api, "p", space))


async def _is_ready(api: Api, noun: KindName, name: str, namespace: str = "") -> bool:
    found = await api.find(noun, name, namespace)
    return found is not None and found.is_true("Ready")


async def _is_gone(api: Api, name: str, namespace: str) -> bool:
    return await api.find(Pod, name, namespace) is None
