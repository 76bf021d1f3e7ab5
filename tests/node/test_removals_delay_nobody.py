"""Pods that leave a great many files: their removal takes as long as it takes, and everything else goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit.fake_machine import FakeProgram
from tests.kit.node_parts import PlainRemoval
from tests.node.stage import Stage, app, container, phase

from pilothouse.node.agent import Agent
from pilothouse.node.files.directory_removal import DirectoryRemoval
from pilothouse.node.pods.pod_directories import KEPT, PodDirectory


class HeldRemoval(PlainRemoval):
    """Begins a removal, and ends it when it is let."""

    def __init__(self) -> None:
        self.begun: list[Path] = []
        self.let = asyncio.Event()

    async def remove(self, folder: Path) -> None:
        self.begun.append(folder)
        await self.let.wait()
        await super().remove(folder)


@pytest.fixture
def removal(stage: Stage) -> HeldRemoval:
    stage.removal = HeldRemoval()
    return stage.removal


async def runs(stage: Stage, name: str) -> None:
    await stage.pod({"containers": [app()]}, name)
    await stage.until(lambda pod: phase(pod) == "Running", name)


def files(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_other_pods_come_up_while_the_files_of_one_are_removed(stage: Stage, removal: HeldRemoval) -> None:
    async def scene() -> None:
        await runs(stage, "large")
        uid = (await stage.get("large")).uid
        await stage.delete("large", grace=0)
        await stage.until_gone("large")
        await runs(stage, "other")
        assert [each.name for each in removal.begun] == [f".removing-{uid}.0"]
        assert removal.begun[0].is_dir()
        removal.let.set()
        await runs(stage, "third")
        assert not removal.begun[0].exists()

    stage.play(scene)


def test_an_agent_comes_up_while_it_removes_what_an_earlier_one_left(
    stage: Stage, removal: HeldRemoval
) -> None:
    pods = stage.settings.pods
    for name in (".making-a", ".removing-b.0", ".removing-b.1"):
        (pods / name / "own").mkdir(parents=True)

    async def scene() -> None:
        await runs(stage, "other")
        assert [each.name for each in removal.begun] == [".removing-.making-a.0"]
        removal.let.set()
        await runs(stage, "third")
        uids = [(await stage.get(name)).uid for name in ("other", "third")]
        assert files(pods) == sorted(uids)

    stage.play(scene)


def test_a_container_starts_again_while_files_of_earlier_instances_are_removed(
    stage: Stage, removal: HeldRemoval
) -> None:
    stage.machine.cast["app"] = FakeProgram(runs=1.0, code=1)

    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: container(pod).get("restartCount", 0) >= KEPT + 1, seconds=600)
        assert [each.name for each in removal.begun] == ["0"]
        removal.let.set()
        await stage.until(lambda pod: container(pod).get("restartCount", 0) >= KEPT + 2, seconds=600)
        folder = PodDirectory(stage.settings.pods / pod.uid).container("app")
        assert len(folder.attempts()) <= KEPT + 1

    stage.play(scene)


def test_what_an_ended_pod_wrote_outside_of_volumes_goes_and_its_log_stays(stage: Stage) -> None:
    async def scene() -> None:
        await runs(stage, "hog")
        uid = (await stage.get("hog")).uid
        instance = PodDirectory(stage.settings.pods / uid).container("app").attempt(0)
        (instance / "own" / "tmp").mkdir(parents=True)
        (instance / "log").write_text("kept")
        stage.volumes.excesses[uid] = "too much"
        await stage.until(lambda pod: pod.status.get("reason") == "Evicted", "hog")
        agent = stage.agent
        assert isinstance(agent, Agent)
        for _ in range(100):
            if agent.pods[uid].released:
                break
            await asyncio.sleep(0.25)
        assert not (instance / "own").exists()
        assert (instance / "log").read_text() == "kept"

    stage.play(scene)


async def test_the_loop_goes_on_while_a_folder_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    for number in range(2000):
        (folder / str(number)).touch()
    removing = asyncio.ensure_future(DirectoryRemoval().remove(folder))
    turns = 0
    while not removing.done():
        turns += 1
        await asyncio.sleep(0)
    await removing
    assert turns > 2, "done at once, it would have been done within the first turn"
    assert files(tmp_path) == []
