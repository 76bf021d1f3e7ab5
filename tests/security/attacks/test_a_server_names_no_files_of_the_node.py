"""A server that is somebody else's: what it calls pods, containers, volumes and claims leads to no files of the node's machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.node.stage import Stage, app, phase

from pilothouse.api.kind_names import PersistentVolumeClaim, Pod
from pilothouse.api.local_volumes import DIRECTORY
from pilothouse.api.objects import Object
from pilothouse.base.clock import ManualClock
from pilothouse.client.api import Api
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.node.files.path_names import bad_names
from pilothouse.node.pods.pod_directories import PodDirectory
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.directory_backend import DirectoryBackend
from pilothouse.node.volumes.volume_backend import VolumeBackendError
from pilothouse.node.volumes.volume_mover import VolumeMover
from pilothouse.node.volumes.volume_owners import VolumeOwners
from pilothouse.node.volumes.volume_places import VolumePlaces
from pilothouse.node.volumes.volume_plan import ProvisionVolume
from pilothouse.node.volumes.volume_plan_executor import VolumePlanExecutor
from pilothouse.sim.loop import SeededLoop

UP = "../../../../../../../../../.."


class Rewriting:
    """A server's answers, with other names in them than it has."""

    def __init__(self, real: Transport, names: dict[str, str]) -> None:
        self._real = real
        self._names = names

    async def request(self, call: ClientRequest) -> ClientResponse:
        answer = await self._real.request(call)
        return msgspec.structs.replace(answer, body=self._rewritten(answer.body))

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        async with self._real.stream(call) as stream:
            yield ResponseStreamReader(stream.status, stream.headers, self._chunks(stream.chunks))

    async def _chunks(self, chunks: Any) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield self._rewritten(bytes(chunk))

    def _rewritten(self, body: bytes) -> bytes:
        for name, other in self._names.items():
            body = body.replace(f'"{name}"'.encode(), f'"{other}"'.encode())
        return body


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with SeededLoop(1) as loop:
        yield Stage(loop, tmp_path)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "precious"
    folder.mkdir(parents=True)
    (folder / "file").write_text("kept")
    return folder


@pytest.mark.parametrize("what", ["uid", "container", "init", "volume"])
def test_a_pod_whose_names_lead_elsewhere_is_not_run_and_removes_nothing(
    stage: Stage, precious: Path, what: str
) -> None:
    names: dict[str, str] = {}
    honest = stage.server.transport
    stage.server.transport = lambda name, *rest: (  # type: ignore[method-assign]  # One that lies.
        Rewriting(honest(name, *rest), names) if name.startswith("agent") else honest(name, *rest)
    )

    async def scene() -> None:
        spec = {
            "containers": [app("attack-c")],
            "initContainers": [app("attack-i")],
            "volumes": [{"name": "attack-v", "emptyDir": {}}],
        }
        pod = await stage.pod(spec)
        there = f"{UP}{precious}"
        names[{"uid": pod.uid, "container": "attack-c", "init": "attack-i", "volume": "attack-v"}[what]] = (
            there
        )
        stage.start_agent()
        await stage.pod({"containers": [app()]}, "honest")
        await stage.until(lambda one: phase(one) == "Running", "honest")
        assert stage.agent is not None
        assert len(stage.agent.pods) == 1
        await stage.delete(grace=0)
        await stage.until_gone()

    stage.play(scene, agent=False)
    assert [each.name for each in precious.parent.iterdir()] == ["precious"]
    assert [each.name for each in precious.iterdir()] == ["file"]


def test_a_pod_that_runs_is_not_given_such_names_later(stage: Stage, precious: Path) -> None:
    names: dict[str, str] = {}
    honest = stage.server.transport
    stage.server.transport = lambda name, *rest: (  # type: ignore[method-assign]  # One that lies.
        Rewriting(honest(name, *rest), names) if name.startswith("agent") else honest(name, *rest)
    )

    async def scene() -> None:
        await stage.pod({"containers": [app("main")], "volumes": [{"name": "attack-v", "emptyDir": {}}]})
        pod = await stage.until(lambda one: phase(one) == "Running")
        names["attack-v"] = f"{UP}{precious}"
        await stage.api.patch(Pod, pod.name, "default", {"metadata": {"labels": {"a": "b"}}})
        await stage.pod({"containers": [app()]}, "honest")
        await stage.until(lambda one: phase(one) == "Running", "honest")
        assert stage.agent is not None
        assert stage.agent.pods[pod.uid].pod.spec["volumes"][0]["name"] == "attack-v"

    stage.play(scene)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "A", "a" * 64, "a\0b", None, 7])
def test_the_grammar_admits_names_of_dns_alone(name: Any) -> None:
    pod = Object(Pod, {"metadata": {"uid": "a-1"}, "spec": {"ephemeralContainers": [{"name": name}]}})
    assert [each.split(":")[0] for each in bad_names(pod)] == ["spec.ephemeralContainers[0].name"]


@pytest.mark.parametrize("uid", ["", ".", "..", "a/b", "-a", "a.b", "a\n", "a" * 65])
def test_a_uid_is_letters_digits_and_dashes(uid: str) -> None:
    assert [
        each.split(":")[0] for each in bad_names(Object(Pod, {"metadata": {"uid": uid}, "spec": {}}))
    ] == ["metadata.uid"]


def test_a_folder_of_a_container_is_below_its_pods(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a valid file name"):
        PodDirectory(tmp_path / "a").container("../../b")


async def test_a_volume_is_made_in_its_tier(tmp_path: Path, stage: Stage) -> None:
    keepers, tiers = {DIRECTORY: DirectoryBackend()}, {"default": tmp_path / "tier" / "one"}
    api = Api(stage.server.transport("test"), Random(1), manager="test")
    claims = ClaimVolumes(api, "n1", keepers, tiers, VolumeOwners("n1", tmp_path), root=False)
    mover = VolumeMover(api, VolumePlaces(tiers), claims, ManualClock(1.0))
    runner = VolumePlanExecutor(api, "n1", keepers, tiers, claims, mover, lambda *_: None, ManualClock(1.0))
    claim = Object(PersistentVolumeClaim, {"metadata": {"name": "c", "uid": "x/../../../made"}, "spec": {}})
    with pytest.raises(VolumeBackendError, match="uid"):
        await runner.run(ProvisionVolume(claim, DIRECTORY))
