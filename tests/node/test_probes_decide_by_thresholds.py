"""Startup, liveness and readiness probes: thresholds, gating, delays, time limits, and what an agent's restart must not change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.fake_machine import Answer
from tests.node.stage import Stage, app, container, is_ready

from pilothouse.node.lifecycle.probe_results import FAILED, PASSED, UNKNOWN, ProbeScore, with_result

EXEC: dict[str, Any] = {"exec": {"command": ["check"]}}
READY: dict[str, Any] = {"exec": {"command": ["ready"]}}


def asked(stage: Stage, argv: str = "check", name: str = "app") -> list[float]:
    """When it was asked, in seconds since the first start of the container."""
    first = stage.machine.named(name)[0].started
    return [
        round(at - first, 1)
        for each in stage.machine.named(name)
        for at, said in each.entered
        if said == (argv,)
    ]


@pytest.mark.parametrize(
    ("before", "results", "probe", "verdict"),
    [
        (PASSED, [False, False], {}, True),
        (PASSED, [False, False, False], {}, False),
        (PASSED, [False, False, True, False, False], {}, True),
        (FAILED, [True], {}, True),
        (FAILED, [True, True], {"successThreshold": 3}, False),
        (FAILED, [True, True, True], {"successThreshold": 3}, True),
        (FAILED, [True, False, True, True], {"successThreshold": 3}, False),
        (PASSED, [False], {"failureThreshold": 1}, False),
        (UNKNOWN, [False, False], {}, None),
        (UNKNOWN, [True], {}, True),
    ],
)
def test_a_verdict_needs_as_many_in_a_row(
    before: ProbeScore, results: list[bool], probe: dict[str, Any], verdict: bool | None
) -> None:
    score = before
    for result in results:
        score = with_result(score, result, probe)
    assert score.verdict is verdict


def test_a_pod_is_not_ready_before_its_probe_says_so(stage: Stage) -> None:
    async def scene() -> None:
        well = asyncio.Event()
        stage.machine.answer("app", ("check",), lambda: 0 if well.is_set() else Answer(1, "still loading"))
        await stage.pod({"containers": [app(readinessProbe={**EXEC, "periodSeconds": 5})]})
        await asyncio.sleep(30)
        pod = await stage.get()
        assert not is_ready(pod)
        condition = pod.condition("Ready")
        assert condition is not None
        assert condition["message"] == "containers with unready status: [app]"
        assert ("Unhealthy", "Readiness probe failed: still loading") in await stage.events()
        well.set()
        await stage.until(is_ready)

    stage.play(scene)


def test_an_unready_container_is_not_restarted(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("check",), lambda: 1)
        await stage.pod({"containers": [app(readinessProbe={**EXEC, "periodSeconds": 1})]})
        await asyncio.sleep(120)
        assert container(await stage.get())["restartCount"] == 0

    stage.play(scene)


def test_readiness_is_lost_after_the_threshold_and_regained(stage: Stage) -> None:
    async def scene() -> None:
        sick = asyncio.Event()
        stage.machine.answer("app", ("check",), lambda: 1 if sick.is_set() else 0)
        probe = {**EXEC, "periodSeconds": 10, "failureThreshold": 3}
        await stage.pod({"containers": [app(readinessProbe=probe)]})
        await stage.until(is_ready)
        sick.set()
        await asyncio.sleep(19)
        assert is_ready(await stage.get())
        await stage.until(lambda pod: not is_ready(pod), seconds=15)
        sick.clear()
        await stage.until(is_ready, seconds=15)

    stage.play(scene)


def test_periods_are_kept(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app(livenessProbe={**EXEC, "periodSeconds": 7})]})
        await asyncio.sleep(30)
        assert asked(stage) == [0, 7, 14, 21, 28]

    stage.play(scene)


def test_the_initial_delay_is_waited_for(stage: Stage) -> None:
    async def scene() -> None:
        probe = {**EXEC, "initialDelaySeconds": 12, "periodSeconds": 5}
        await stage.pod({"containers": [app(livenessProbe=probe)]})
        await asyncio.sleep(20)
        assert asked(stage) == [12, 17]

    stage.play(scene)


def test_a_container_that_is_not_alive_is_restarted(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer(
            "app", ("check",), lambda: Answer(1 if len(stage.machine.launches) == 1 else 0, "dead")
        )
        await stage.pod({"containers": [app(livenessProbe={**EXEC, "periodSeconds": 10})]})
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        first, second = stage.machine.named("app")
        assert round(second.started - first.started) == 20
        assert is_ready(await stage.until(is_ready))
        events = await stage.events()
        assert ("Unhealthy", "Liveness probe failed: dead") in events
        assert ("Killing", "Container app failed liveness probe, will be restarted") in events
        assert pod.status["containerStatuses"][0]["lastState"]["terminated"]

    stage.play(scene)


def test_a_probe_that_cannot_be_asked_says_nothing_about_the_container(stage: Stage) -> None:
    async def scene() -> None:
        missing = asyncio.Event()
        stage.machine.answer(
            "app", ("check",), lambda: Answer(refuses="check: no such file") if missing.is_set() else 0
        )
        probe = {**EXEC, "periodSeconds": 1, "failureThreshold": 1}
        await stage.pod({"containers": [app(livenessProbe=probe, readinessProbe=probe)]})
        await stage.until(is_ready)
        missing.set()
        await asyncio.sleep(30)
        pod = await stage.get()
        assert is_ready(pod)
        assert container(pod)["restartCount"] == 0
        assert len(asked(stage)) > 30, "it is asked on"
        events = await stage.events()
        for which in ("Liveness", "Readiness"):
            told = f"{which} probe errored and resulted in unknown state: check: no such file"
            assert ("Unhealthy", told) in events

    stage.play(scene)


def test_a_probe_may_have_a_grace_of_its_own(stage: Stage) -> None:
    async def scene() -> None:
        from tests.kit.fake_machine import FakeProgram

        stage.machine.cast["app"] = [FakeProgram(stops_in=None), FakeProgram()]
        stage.machine.answer("app", ("check",), lambda: 1 if len(stage.machine.launches) == 1 else 0)
        probe = {**EXEC, "failureThreshold": 1, "terminationGracePeriodSeconds": 4}
        await stage.pod({"terminationGracePeriodSeconds": 60, "containers": [app(livenessProbe=probe)]})
        await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        (term, _), (kill, _) = stage.machine.named("app")[0].signals
        assert round(kill - term) == 4

    stage.play(scene)


def test_nothing_else_is_asked_before_the_startup_probe_has_passed(stage: Stage) -> None:
    async def scene() -> None:
        up = asyncio.Event()
        stage.machine.answer("app", ("check",), lambda: 0 if up.is_set() else 1)
        spec = app(
            startupProbe={**EXEC, "periodSeconds": 5, "failureThreshold": 100},
            livenessProbe={"exec": {"command": ["alive"]}, "periodSeconds": 1},
            readinessProbe={**READY, "periodSeconds": 1},
        )
        await stage.pod({"containers": [spec]})
        await asyncio.sleep(60)
        assert asked(stage, "alive") == []
        assert asked(stage, "ready") == []
        assert container(await stage.get())["started"] is False
        up.set()
        await stage.until(is_ready, seconds=7)
        assert container(await stage.get())["started"] is True

    stage.play(scene)


def test_a_startup_probe_is_asked_no_more_once_it_has_passed(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app(startupProbe={**EXEC, "periodSeconds": 1})]})
        await stage.until(is_ready)
        await asyncio.sleep(30)
        assert len(asked(stage)) == 1

    stage.play(scene)


def test_a_container_that_never_comes_up_is_restarted_in_the_time_that_it_has(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("check",), lambda: 1)
        probe = {**EXEC, "periodSeconds": 10, "failureThreshold": 6}
        await stage.pod({"containers": [app(startupProbe=probe)]})
        await stage.until(lambda pod: container(pod).get("restartCount") == 1, seconds=90)
        first, second = stage.machine.named("app")
        assert round(second.started - first.started) == 50
        told = "Container app failed startup probe, will be restarted"
        assert ("Killing", told) in await stage.events()

    stage.play(scene)


def test_a_probe_that_takes_too_long_has_failed(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("check",), lambda: Answer(0, seconds=3.0))
        await stage.pod(
            {"containers": [app(readinessProbe={**EXEC, "periodSeconds": 5, "timeoutSeconds": 2})]}
        )
        await asyncio.sleep(30)
        assert not is_ready(await stage.get())
        assert ("Unhealthy", "Readiness probe failed: timed out after 2s") in await stage.events()

    stage.play(scene)


def test_a_pod_that_ends_is_asked_on_and_nobody_is_warned_that_it_is_not_ready(stage: Stage) -> None:
    async def scene() -> None:
        from tests.kit.fake_machine import FakeProgram

        well = asyncio.Event()
        well.set()
        stage.machine.cast["app"] = [FakeProgram(stops_in=30)]
        stage.machine.answer(
            "app", ("check",), lambda: 0 if well.is_set() else Answer(1, "it is being stopped")
        )
        await stage.pod(
            {
                "terminationGracePeriodSeconds": 60,
                "containers": [app(readinessProbe={**EXEC, "periodSeconds": 5})],
            }
        )
        await stage.until(is_ready)
        await stage.delete()
        well.clear()
        await stage.until(lambda pod: not is_ready(pod), seconds=25)
        assert [reason for reason, _ in await stage.events() if reason == "Unhealthy"] == []

    stage.play(scene)


def test_one_that_takes_less_has_not(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("check",), lambda: Answer(0, seconds=1.5))
        await stage.pod(
            {"containers": [app(readinessProbe={**EXEC, "periodSeconds": 5, "timeoutSeconds": 2})]}
        )
        await stage.until(is_ready, seconds=5)

    stage.play(scene)


def test_a_ready_pod_stays_ready_when_the_agent_is_restarted(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app(readinessProbe={**EXEC, "periodSeconds": 10})]})
        before = await stage.until(is_ready)
        since = (before.condition("Ready") or {})["lastTransitionTime"]
        await stage.restart_agent()
        for _ in range(60):
            await asyncio.sleep(0.5)
            pod = await stage.get()
            assert is_ready(pod)
        assert (pod.condition("Ready") or {})["lastTransitionTime"] == since

    stage.play(scene)


def test_an_unready_pod_stays_unready_until_it_is_asked(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("check",), lambda: 1)
        await stage.pod({"containers": [app(readinessProbe={**EXEC, "periodSeconds": 10})]})
        await asyncio.sleep(15)
        await stage.restart_agent()
        for _ in range(60):
            await asyncio.sleep(0.5)
            assert not is_ready(await stage.get())

    stage.play(scene)


def test_a_container_that_had_come_up_is_not_asked_again_whether_it_has(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app(startupProbe={**EXEC, "periodSeconds": 1})]})
        await stage.until(is_ready)
        stage.machine.answer("app", ("check",), lambda: 1)
        await stage.restart_agent()
        await asyncio.sleep(60)
        pod = await stage.get()
        assert is_ready(pod)
        assert container(pod)["restartCount"] == 0

    stage.play(scene)


def test_a_restarted_agent_does_not_ask_everybody_at_once(stage: Stage) -> None:
    async def scene() -> None:
        spec = {"containers": [app(readinessProbe={**EXEC, "periodSeconds": 30})]}
        for number in range(8):
            await stage.pod(spec, f"web-{number}")
        for number in range(8):
            await stage.until(is_ready, f"web-{number}")
        await stage.kill_agent()
        for each in stage.machine.launches:
            each.entered.clear()
        began = stage.clock.now()
        stage.start_agent()
        await asyncio.sleep(31)
        moments = sorted(each.entered[0][0] - began for each in stage.machine.launches)
        assert moments[-1] - moments[0] > 5

    stage.play(scene)


def test_a_dying_pod_is_asked_for_its_readiness_only(stage: Stage) -> None:
    async def scene() -> None:
        from tests.kit.fake_machine import FakeProgram

        stage.machine.cast["app"] = FakeProgram(stops_in=20.0)
        spec = app(livenessProbe={**EXEC, "periodSeconds": 1}, readinessProbe={**READY, "periodSeconds": 1})
        await stage.pod({"containers": [spec]})
        await stage.until(is_ready)
        await asyncio.sleep(3)
        await stage.delete()
        await asyncio.sleep(2)
        (only,) = stage.machine.launches
        only.entered.clear()
        await asyncio.sleep(10)
        assert {argv for _, argv in only.entered} == {("ready",)}

    stage.play(scene)


def test_a_new_instance_begins_unready_and_unasked(stage: Stage) -> None:
    async def scene() -> None:
        from tests.kit.fake_machine import FakeProgram

        stage.machine.cast["app"] = [FakeProgram(runs=20.0, code=1), FakeProgram()]
        stage.machine.answer("app", ("check",), lambda: 0 if len(stage.machine.launches) == 1 else 1)
        await stage.pod({"containers": [app(readinessProbe={**EXEC, "periodSeconds": 5})]})
        await stage.until(is_ready)
        await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        assert not is_ready(await stage.get())

    stage.play(scene)
