"""A node is ready once API servers can call it for logs and exec, and what was ready is asked for anew after a start."""

from __future__ import annotations

import asyncio

from tests.node.stage import NODE, Stage, app, is_ready

from pilothouse.api.kind_names import Node, Pod
from pilothouse.apiserver.registry.node_status_reset import withdraw_reports
from pilothouse.app.node_announcement import announce_readiness
from pilothouse.node.agent import Agent


async def ready(stage: Stage) -> tuple[str, str]:
    """What the Node says of itself, and why."""
    node = await stage.api.find(Node, NODE)
    told = (node.condition("Ready") if node is not None else None) or {}
    return str(told.get("status")), str(told.get("message"))


def test_it_says_what_it_waits_for(stage: Stage) -> None:
    async def scene() -> None:
        stage.serving_problem = "the certificate of its own server is not issued yet"
        agent = stage.start_agent()
        await agent.registration.registered()
        assert await ready(stage) == ("False", stage.serving_problem)
        stage.serving_problem = ""
        agent.registration.refresh()
        # Not at the next heartbeat: pods wait for it.
        await asyncio.sleep(0.5)
        assert await ready(stage) == ("True", "kubelet is posting ready status")

    stage.play(scene, agent=False)


def announced(stage: Stage, agent: Agent) -> tuple[list[str], asyncio.Task[None]]:
    """The lines of a node whose certificate is issued once its own server can be called."""
    lines: list[str] = []

    async def issued() -> None:
        while stage.serving_problem:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)

    saying = announce_readiness(agent.registration, issued, stage.settings, lines.append)
    return lines, asyncio.ensure_future(saying)


def test_it_is_announced_as_ready_once_the_api_has_it_so(stage: Stage) -> None:
    async def scene() -> None:
        stage.serving_problem = "the certificate of its own server is not issued yet"
        agent = stage.start_agent()
        lines, saying = announced(stage, agent)
        await agent.registration.registered()
        await asyncio.sleep(2)
        assert lines == []
        stage.serving_problem = ""
        await saying
        assert lines == [f"node {NODE} is ready at {stage.settings.address}"]
        assert await ready(stage) == ("True", "kubelet is posting ready status")

    stage.play(scene, agent=False)


def test_one_that_takes_long_says_why(stage: Stage) -> None:
    async def scene() -> None:
        stage.serving_problem = "the certificate of its own server is not issued yet"
        agent = stage.start_agent()
        lines, saying = announced(stage, agent)
        await asyncio.sleep(60)
        assert lines == [f"node {NODE} is not ready: {stage.serving_problem}"]
        stage.serving_problem = ""
        await saying
        assert lines[1:] == [f"node {NODE} is ready at {stage.settings.address}"]

    stage.play(scene, agent=False)


def test_news_are_told_though_the_lease_is_renewed_meanwhile(stage: Stage) -> None:
    async def scene() -> None:
        agent = stage.start_agent()
        await agent.registration.registered()
        for turn in range(40):
            stage.serving_problem = f"{turn}"
            agent.registration.refresh()
            await asyncio.sleep(0.5)
            assert await ready(stage) == ("False", f"{turn}")

    stage.play(scene, agent=False)


def test_a_pod_whose_readiness_was_taken_back_is_asked_at_once(stage: Stage) -> None:
    async def scene() -> None:
        probe = {"exec": {"command": ["check"]}, "periodSeconds": 600}
        await stage.pod({"containers": [app(readinessProbe=probe)]})
        await stage.until(is_ready)
        await stage.kill_agent()
        core = stage.server.core
        assert core is not None
        await withdraw_reports(core, NODE, stage.clock)
        assert not is_ready(await stage.api.get(Pod, "web-0", "default"))
        stage.start_agent()
        await stage.until(is_ready, seconds=5)

    stage.play(scene)
