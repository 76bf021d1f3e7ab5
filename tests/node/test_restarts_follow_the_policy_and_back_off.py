"""Restart policies, and the pauses between restarts: at once, then 10 s, doubling to five minutes."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.fake_machine import FakeProgram
from tests.node.stage import Stage, app, container, is_ready, phase, reason, state

from pilothouse.api.kind_names import Secret
from pilothouse.node.lifecycle.container_instances import EndedInstance
from pilothouse.node.lifecycle.container_roles import ContainerRole, PodContainer
from pilothouse.node.lifecycle.restart_policy import (
    RestartBackoff,
    backoff_left,
    next_backoff,
    should_restart,
)


@pytest.mark.parametrize(
    ("role", "policy", "code", "again"),
    [
        (ContainerRole.MAIN, "Always", 0, True),
        (ContainerRole.MAIN, "Always", 1, True),
        (ContainerRole.MAIN, "OnFailure", 0, False),
        (ContainerRole.MAIN, "OnFailure", 1, True),
        (ContainerRole.MAIN, "Never", 0, False),
        (ContainerRole.MAIN, "Never", 1, False),
        (ContainerRole.INIT, "Always", 0, False),
        (ContainerRole.INIT, "Always", 1, True),
        (ContainerRole.INIT, "OnFailure", 1, True),
        (ContainerRole.INIT, "Never", 1, False),
        (ContainerRole.SIDECAR, "Never", 0, True),
        (ContainerRole.SIDECAR, "Never", 1, True),
    ],
)
def test_who_runs_again(role: ContainerRole, policy: str, code: int, again: bool) -> None:
    ended = EndedInstance(0, code, started=0.0, finished=1.0)
    assert should_restart(PodContainer("c", role, {}), ended, policy) is again


def test_pauses_double_up_to_five_minutes() -> None:
    pause: RestartBackoff | None = None
    now, pauses = 0.0, []
    for _ in range(8):
        pauses.append(backoff_left(pause, now, now))
        now += pauses[-1]
        pause = next_backoff(pause, now, now)
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]


def test_ten_minutes_of_running_wipe_the_slate_clean() -> None:
    pause = RestartBackoff(160.0, since=1000.0)
    assert backoff_left(pause, 1601.0, 1601.0) == 0
    assert next_backoff(pause, 1601.0, 1601.0).seconds == 10
    assert backoff_left(pause, 1599.0, 1599.0) == 160


def test_a_restart_that_was_decided_on_and_not_carried_out_waits_no_longer() -> None:
    pause = RestartBackoff(40.0, since=1000.5)
    assert backoff_left(pause, finished=1000.0, now=1001.0) == 0
    assert next_backoff(pause, finished=1000.0, now=1001.0) == pause


def test_a_container_that_fails_at_once_is_started_at_these_times(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=0.0, code=1)
        await stage.pod({"containers": [app()]})
        await asyncio.sleep(400)
        starts = [round(each.started - stage.machine.launches[0].started) for each in stage.machine.launches]
        assert starts == [0, 0, 10, 30, 70, 150, 310]

    stage.play(scene)


def test_a_container_that_waits_says_crash_loop_back_off(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=0.0, code=1)
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "CrashLoopBackOff")
        message = container(pod)["state"]["waiting"]["message"]
        assert message.startswith("back-off 10s restarting failed container=app pod=web-0_default(")
        assert container(pod)["lastState"]["terminated"]["exitCode"] == 1
        assert phase(pod) == "Running"
        assert not is_ready(pod)
        assert "BackOff" in [reason for reason, _ in await stage.events()]

    stage.play(scene)


def test_the_pause_outlives_the_agent(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=0.0, code=1)
        await stage.pod({"containers": [app()]})
        await asyncio.sleep(75)
        before = len(stage.machine.launches)
        await stage.restart_agent()
        await asyncio.sleep(60)
        assert len(stage.machine.launches) == before
        await asyncio.sleep(20)
        assert len(stage.machine.launches) == before + 1

    stage.play(scene)


def test_restarts_are_counted_over_agents(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [
            FakeProgram(runs=1.0, code=1),
            FakeProgram(runs=1.0, code=1),
            FakeProgram(),
        ]
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        await stage.restart_agent()
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 2 and is_ready(pod))
        assert state(pod) == "running"

    stage.play(scene)


def test_on_failure_succeeds_in_the_end(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [FakeProgram(runs=1.0, code=1), FakeProgram(runs=1.0, code=0)]
        await stage.pod({"restartPolicy": "OnFailure", "containers": [app()]})
        pod = await stage.until(lambda pod: phase(pod) == "Succeeded")
        assert container(pod)["restartCount"] == 1
        assert reason(pod) == "Completed"

    stage.play(scene)


def test_never_fails_at_the_first_failure(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=1.0, code=7)
        await stage.pod({"restartPolicy": "Never", "containers": [app()]})
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 7
        await asyncio.sleep(600)
        assert len(stage.machine.launches) == 1

    stage.play(scene)


def test_a_pod_of_several_has_ended_when_all_have(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=1.0, code=1)
        stage.machine.cast["two"] = FakeProgram(runs=20.0, code=0)
        await stage.pod({"restartPolicy": "Never", "containers": [app("one"), app("two")]})
        pod = await stage.until(lambda pod: state(pod, "one") == "terminated")
        assert phase(pod) == "Running"
        await stage.until(lambda pod: phase(pod) == "Failed")

    stage.play(scene)


def test_what_cant_be_started_waits_like_what_fails(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(refuses="/bin/nothing: no such program")
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "CrashLoopBackOff")
        ended = container(pod)["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
        assert "no such program" in ended["message"]
        assert ("Failed", "Error: /bin/nothing: no such program") in await stage.events()

    stage.play(scene)


def test_a_program_that_a_secret_names_is_not_told(stage: Stage) -> None:
    async def scene() -> None:
        secret = {"metadata": {"name": "keys", "namespace": "default"}, "data": {"PASSWORD": "aHVudGVyMg=="}}
        await stage.api.create(Secret, secret)
        stage.machine.cast["app"] = FakeProgram(refuses="/bin/hunter2: no such program")
        spec = app(envFrom=[{"secretRef": {"name": "keys"}}], command=["/bin/$(PASSWORD)", "x"])
        await stage.pod({"containers": [spec]})
        pod = await stage.until(
            lambda pod: bool(container(pod).get("lastState") or state(pod) == "terminated")
        )
        assert "/bin/$(PASSWORD): no such program" in str(pod.status)
        assert "hunter2" not in str(pod.status) + str(await stage.events())

    stage.play(scene)


def test_an_ended_pod_stays_ended_over_agents(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=1.0, code=0)
        await stage.pod({"restartPolicy": "Never", "containers": [app()]})
        await stage.until(lambda pod: phase(pod) == "Succeeded")
        await stage.restart_agent()
        await asyncio.sleep(30)
        assert phase(await stage.get()) == "Succeeded"
        assert len(stage.machine.launches) == 1

    stage.play(scene)
