"""The cases of ``cases``, with kubectl: our controllers on our server, Kubernetes' controllers on theirs."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.controllers.cases import CASES, Case, Keep, Run, Same, Until
from tests.kit.kubectl import Kubectl, Output
from tests.kit.managers import manager
from tests.kit.processes import Process
from tests.kit.servers import Target
from tests.kit.waiting import eventually

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.sim.live_node import PROMPT, joined

pytestmark = pytest.mark.long

THEIRS = (
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
TIMING = msgspec.structs.replace(PROMPT, unready="broken")


@pytest.fixture(scope="module")
def managed(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with manager(target, tmp_path_factory.mktemp("manager"), theirs=THEIRS) as process:
        yield process


@pytest.fixture
async def api(target: Target, managed: Process) -> AsyncIterator[Api]:
    """With everything at work."""
    access = load(target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-test") as transport:
        api = Api(transport, Random(1), manager="test")
        # Kubernetes' controllers are run without its scheduler.
        async with joined(api, "model-node", timing=TIMING, takes_all=True):
            yield api


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_what_kubectl_shows(case: Case, api: Api, kubectl: Kubectl, tmp_path: Path) -> None:
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    (await kubectl("create", "namespace", namespace)).ok()
    await eventually(lambda: _has_account(kubectl, namespace))
    manifests = tmp_path / "manifests.json"
    items = [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in case.manifests]
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    story = _Story(kubectl, namespace, manifests)
    await story.tell(Run("apply -f MANIFESTS"))
    for step in case.steps:
        await story.tell(step)
    (await kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found")).ok()


async def _has_account(kubectl: Kubectl, namespace: str) -> bool:
    return (await kubectl("get", "serviceaccount", "default", "-n", namespace)).code == 0


class _Story:
    """A case under way."""

    def __init__(self, kubectl: Kubectl, namespace: str, manifests: Path) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        self._manifests = manifests
        self._eviction = manifests.with_name("eviction.json")
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "web-0", "namespace": namespace},
        }
        self._eviction.write_text(json.dumps(eviction))
        self._kept: dict[str, str] = {}

    async def tell(self, step: Run | Until | Keep | Same) -> None:
        match step:
            case Run():
                done = await self._run(step.command)
                assert (done.code != 0) == step.fails, (step, done)
                missing = [word for word in step.says if word not in done.out + done.err]
                assert not missing, (step, done)
            case Until():
                await self._until(step.command, step.output)
            case Keep():
                self._kept[step.command] = (await self._run(step.command)).ok()
            case Same():
                await self._until(step.command, self._kept[step.command])

    async def _until(self, command: str, output: str) -> None:
        last = ""

        async def shown() -> bool:
            nonlocal last
            last = (await self._run(command)).ok().strip()
            return last == output.strip()

        try:
            await eventually(shown, seconds=50)
        except AssertionError:
            raise AssertionError(f"{command}: still {last!r}, expected {output!r}") from None

    async def _run(self, command: str) -> Output:
        words = command.replace("MANIFESTS", str(self._manifests)).replace("EVICTION", str(self._eviction))
        return await self._kubectl(
            *words.replace("NAMESPACE", self._namespace).split(" "), "-n", self._namespace
        )
