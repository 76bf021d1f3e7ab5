"""Imports: a pod that waits for an image, or could not run with the one there was, starts with the new one at once; what runs is left alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.kit.fake_machine import Answer, FakeProgram
from tests.kit.node_parts import PlainImage
from tests.node.stage import NODE, Stage, app, container, is_ready, reason, state

from pilothouse.api.kind_names import Node
from pilothouse.api.node_images import DATA_FOLDER
from pilothouse.api.objects import Object

PROMPT = 3.0
"""Seconds within which an import is noticed, of virtual time; else a pod waits up to 30 s, or five minutes."""
PROBE = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 3}


def imported(stage: Stage, number: int) -> None:
    """As ``pilothouse image import app:1`` would have it."""
    stage.images.missing.discard("app:1")
    stage.images.known["app:1"] = PlainImage(root=Path(f"/images/bundles/{number}"))
    stage.images.imports += 1


def restarts(pod: Object) -> int:
    return int(container(pod).get("restartCount", 0))


def test_a_pod_that_waits_for_its_image_starts_as_soon_as_it_is_imported(stage: Stage) -> None:
    async def scene() -> None:
        stage.images.missing.add("app:1")
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: reason(pod) == "ErrImageNeverPull")
        await asyncio.sleep(200)
        imported(stage, 1)
        await stage.until(is_ready, seconds=PROMPT)

    stage.play(scene)


def test_a_container_that_crashes_starts_anew_with_the_next_image_and_does_not_wait(stage: Stage) -> None:
    async def scene() -> None:
        imported(stage, 1)
        stage.machine.cast["app"] = FakeProgram(runs=1.0, code=1)
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: reason(pod) == "CrashLoopBackOff" and restarts(pod) >= 3, seconds=300)
        stage.machine.cast["app"] = FakeProgram()
        imported(stage, 2)
        await stage.until(is_ready, seconds=PROMPT)

    stage.play(scene)


def test_another_image_does_not_hurry_a_container_that_crashes(stage: Stage) -> None:
    async def scene() -> None:
        imported(stage, 1)
        stage.machine.cast["app"] = FakeProgram(runs=1.0, code=1)
        await stage.pod({"containers": [app()]})
        before = await stage.until(
            lambda pod: reason(pod) == "CrashLoopBackOff" and restarts(pod) >= 3, seconds=300
        )
        stage.images.known["other:1"] = PlainImage(root=Path("/images/bundles/other"))
        stage.images.imports += 1
        await asyncio.sleep(10)
        assert restarts(await stage.get()) == restarts(before)

    stage.play(scene)


def test_a_container_that_was_never_ready_is_started_anew_with_the_new_image(stage: Stage) -> None:
    async def scene() -> None:
        imported(stage, 1)
        stage.machine.otherwise = lambda: 1
        await stage.pod({"containers": [app(readinessProbe=PROBE)]})
        await stage.until(lambda pod: state(pod) == "running")
        await asyncio.sleep(30)
        await stage.restart_agent()  # What it runs with is known to the next agent, too.
        await asyncio.sleep(30)
        assert restarts(await stage.get()) == 0
        imported(stage, 2)
        await stage.until(lambda pod: restarts(pod) == 1 and state(pod) == "running", seconds=PROMPT)
        stage.machine.otherwise = Answer
        await stage.until(is_ready)
        assert any("its image app:1 was imported again" in message for _, message in await stage.events())

    stage.play(scene)


def test_a_container_that_has_been_ready_is_left_alone(stage: Stage) -> None:
    async def scene() -> None:
        imported(stage, 1)
        await stage.pod({"containers": [app(readinessProbe=PROBE)]})
        await stage.until(is_ready)
        stage.machine.otherwise = lambda: 1
        await stage.until(lambda pod: not is_ready(pod))
        await stage.restart_agent()
        await asyncio.sleep(5)
        imported(stage, 2)
        await asyncio.sleep(60)
        assert restarts(await stage.get()) == 0

    stage.play(scene)


def test_a_container_without_probes_or_that_runs_only_once_is_left_alone(stage: Stage) -> None:
    async def scene() -> None:
        imported(stage, 1)
        stage.machine.otherwise = lambda: 1
        await stage.pod({"containers": [app()]}, "plain")
        await stage.pod({"containers": [app(readinessProbe=PROBE)], "restartPolicy": "Never"}, "once")
        for name in ("plain", "once"):
            await stage.until(lambda pod: state(pod) == "running", name)
        imported(stage, 2)
        await asyncio.sleep(60)
        for name in ("plain", "once"):
            pod = await stage.get(name)
            assert (restarts(pod), state(pod)) == (0, "running")

    stage.play(scene)


def test_a_node_lists_the_images_that_it_has(stage: Stage) -> None:
    async def scene() -> None:
        await asyncio.sleep(5)
        found = await stage.api.get(Node, NODE)
        assert not found.status.get("images")
        assert found.annotations[DATA_FOLDER] == str(stage.settings.data.parent)
        imported(stage, 1)
        await asyncio.sleep(PROMPT)
        found = await stage.api.get(Node, NODE)
        assert found.status["images"] == [{"names": ["app:1"], "sizeBytes": 1}]
        stage.images.known.clear()
        stage.images.imports += 1
        await asyncio.sleep(PROMPT)
        found = await stage.api.get(Node, NODE)
        assert not found.status.get("images")
        quiet = found.resource_version
        await asyncio.sleep(60)
        assert (await stage.api.get(Node, NODE)).resource_version == quiet, "nothing new, nothing written"

    stage.play(scene)
