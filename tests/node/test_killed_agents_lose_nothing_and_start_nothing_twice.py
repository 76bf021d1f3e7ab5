"""An agent that is killed, at any point, and the next one that takes up what it left. Here with played programs; see
``test_an_agent_is_killed_at_every_point`` for real ones."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from tests.kit.fake_machine import FakeProgram
from tests.node.stage import Stage, app, container, is_ready, phase, state

POINTS = [0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0]


def assert_never_two(stage: Stage) -> None:
    """No two instances of a container at the same time."""
    for name in {each.name for each in stage.machine.launches}:
        instances = stage.machine.named(name)
        for earlier, later in itertools.pairwise(instances):
            assert earlier.ended is not None, f"{name} has two instances"
            assert earlier.ended.finished <= later.started


@pytest.mark.parametrize("point", POINTS)
def test_while_a_pod_comes_up(stage: Stage, point: float) -> None:
    async def scene() -> None:
        stage.machine.cast |= {
            "one": FakeProgram(runs=1.0, starts_in=0.3),
            "proxy": FakeProgram(starts_in=0.3),
            "app": FakeProgram(starts_in=0.3),
        }
        hooks = {"postStart": {"exec": {"command": ["hello"]}}}
        spec = {
            "initContainers": [app("one"), app("proxy", restartPolicy="Always")],
            "containers": [app(lifecycle=hooks)],
        }
        await stage.pod(spec)
        await asyncio.sleep(point)
        await stage.restart_agent()
        await stage.until(is_ready)
        await asyncio.sleep(20)
        assert_never_two(stage)
        assert [each.name for each in stage.machine.launches] == ["one", "proxy", "app"]
        pod = await stage.get()
        assert [container(pod, name)["restartCount"] for name in ("one", "proxy", "app")] == [0, 0, 0]

    stage.play(scene)


@pytest.mark.parametrize("point", POINTS)
def test_while_a_pod_goes(stage: Stage, point: float) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"proxy": FakeProgram(stops_in=1.0), "app": FakeProgram(stops_in=1.5)}
        hooks = {"preStop": {"sleep": {"seconds": 1}}}
        spec = {
            "initContainers": [app("proxy", restartPolicy="Always")],
            "containers": [app(lifecycle=hooks)],
        }
        pod = await stage.pod(spec)
        await stage.until(is_ready)
        await stage.delete()
        await asyncio.sleep(point)
        await stage.restart_agent()
        await stage.until_gone()
        await asyncio.sleep(5)
        assert stage.machine.running == []
        assert len(stage.machine.launches) == 2
        assert not (stage.settings.pods / pod.uid).exists()

    stage.play(scene)


@pytest.mark.parametrize("point", POINTS)
def test_while_a_container_is_restarted(stage: Stage, point: float) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [
            FakeProgram(runs=0.5, code=1),
            FakeProgram(runs=0.5, code=1),
            FakeProgram(starts_in=0.2),
        ]
        await stage.pod({"containers": [app()]})
        await asyncio.sleep(point)
        await stage.restart_agent()
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 2 and is_ready(pod))
        assert state(pod) == "running"
        assert len(stage.machine.launches) == 3
        assert_never_two(stage)

    stage.play(scene)


def test_an_end_that_nobody_saw_is_found(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=30.0, code=4, says="out of disk")
        await stage.pod({"restartPolicy": "Never", "containers": [app()]})
        await stage.until(is_ready)
        await stage.kill_agent()
        await asyncio.sleep(60)
        stage.start_agent()
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        ended = container(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["message"]) == (4, "out of disk")

    stage.play(scene)


def test_a_pod_that_was_forced_away_meanwhile_is_ended_with_its_own_grace(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        pod = await stage.pod({"terminationGracePeriodSeconds": 7, "containers": [app()]})
        await stage.until(is_ready)
        await stage.kill_agent()
        await stage.delete(grace=0)
        stage.start_agent()
        await asyncio.sleep(20)
        (only,) = stage.machine.launches
        assert [number for _, number in only.signals] == [15, 9]
        assert round(only.signals[1][0] - only.signals[0][0]) == 7
        assert not (stage.settings.pods / pod.uid).exists()
        assert pod.uid in stage.volumes.released

    stage.play(scene)


def test_a_hook_that_was_done_is_not_done_again(stage: Stage) -> None:
    async def scene() -> None:
        hooks = {"postStart": {"exec": {"command": ["hello"]}}}
        await stage.pod({"containers": [app(lifecycle=hooks)]})
        await stage.until(is_ready)
        await stage.restart_agent()
        await asyncio.sleep(20)
        (only,) = stage.machine.launches
        assert [argv for _, argv in only.entered] == [("hello",)]

    stage.play(scene)


def test_two_agents_never_have_the_same_folder(stage: Stage) -> None:
    async def scene() -> None:
        from pilothouse.node.agent import DataInUse

        await asyncio.sleep(1)
        first = stage.agent
        assert first is not None
        second = stage.new_agent()
        with pytest.raises(DataInUse, match="another node agent uses"):
            await second.run()

    stage.play(scene)


def test_a_server_that_is_down_holds_up_no_container(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [FakeProgram(runs=20.0, code=1), FakeProgram()]
        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.server.stop()
        await asyncio.sleep(60)
        assert len(stage.machine.launches) == 2
        await stage.server.start()
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        assert is_ready(pod)

    stage.play(scene)


def test_a_part_that_breaks_is_told_and_the_pod_taken_up_again(stage: Stage) -> None:
    async def scene() -> None:
        adopt, failures = stage.machine.adopt, [3]

        async def broken(folder: Path) -> object:
            if failures[0]:
                failures[0] -= 1
                raise ValueError("a record that can't be read")
            return await adopt(folder)

        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        stage.machine.adopt = broken  # type: ignore[method-assign,assignment]  # A part that breaks.
        await stage.restart_agent()
        await stage.until(lambda pod: failures[0] == 0)
        await stage.delete()
        await stage.until_gone()
        assert stage.machine.running == []
        told = "error syncing pod: ValueError: a record that can't be read"
        assert ("FailedSync", told) in await stage.events()

    stage.play(scene)
