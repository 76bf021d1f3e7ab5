"""The manager against a real kube-apiserver that has our definitions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit import kube
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managers import shown, started
from tests.kit.targets import Fleet
from tests.kit.waiting import eventually
from tests.kit.workloads import stateful_set

pytestmark = pytest.mark.long


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def test_it_leads_and_what_kubernetes_does_itself_stays_off(
    fleet: Fleet, tmp_path: Path, stack: ExitStack
) -> None:
    config = fleet.get(kube.NAME).target.kubeconfig
    kubectl = Kubectl(newest(), config, tmp_path / "home")
    (await kubectl("apply", "-f", "-", stdin=pilothouse("crds").stdout)).ok()
    (await kubectl("apply", "-f", "-", stdin=json.dumps(stateful_set("idle")))).ok()
    process = started(config, tmp_path)
    stack.callback(process.kill)

    async def leads() -> bool:
        status, text = await asyncio.to_thread(shown, process, "/readyz")
        return status == 200 and "stands by" not in text

    await eventually(leads)
    warned = next(line for line in process.output().splitlines() if "is a Kubernetes API server" in line)
    for name in ("garbage", "namespaces", "stateful-sets", "disruption-budgets"):
        assert name in warned.partition("disabled:")[2]
    holder = await kubectl(
        "get",
        "lease",
        "pilothouse-controller-manager",
        "-n",
        "kube-system",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    )
    assert holder.ok() in process.output()
    assert "stateful-sets" not in (await asyncio.to_thread(shown, process, "/metrics"))[1]
    assert (await kubectl("get", "pods", "-o", "name")).ok() == ""
    assert process.end() == 0
    given_up = await kubectl(
        "get",
        "lease",
        "pilothouse-controller-manager",
        "-n",
        "kube-system",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    )
    assert given_up.ok() == ""
