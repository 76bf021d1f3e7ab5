"""How pods end: hook, signal, kill; whose time it is that runs; deletions that are hurried, forced or repeated."""

from __future__ import annotations

import asyncio
import signal

import pytest
from tests.kit.fake_machine import Answer, FakeProgram
from tests.node.stage import Stage, app, container, is_ready, phase, reason, state

from pilothouse.api.kind_names import Pod
from pilothouse.node.lifecycle.container_roles import containers_of
from pilothouse.node.lifecycle.termination import hook_time, remaining_grace, stop_order

HOOK = {"preStop": {"exec": {"command": ["goodbye"]}}}


def signals(stage: Stage, name: str = "app") -> list[tuple[int, float]]:
    """What it was sent, in seconds since the first."""
    (only,) = stage.machine.named(name)
    return [(number, round(at - only.signals[0][0], 1)) for at, number in only.signals]


@pytest.mark.parametrize(
    ("grace", "passed", "rest"), [(30, 0, 30), (30, 10, 20), (30, 29, 2), (30, 40, 2), (1, 0, 2), (0, 0, 2)]
)
def test_two_seconds_remain_whatever_was_spent(grace: float, passed: float, rest: float) -> None:
    assert remaining_grace(grace, since=100.0, now=100.0 + passed) == rest


def test_a_hook_has_what_is_left_of_the_grace() -> None:
    assert hook_time(30, since=0.0, now=10.0) == 20
    assert hook_time(30, since=0.0, now=31.0) == 0


def test_turns_are_main_containers_then_sidecars_backwards() -> None:
    spec = {
        "initContainers": [
            {"name": "a", "restartPolicy": "Always"},
            {"name": "i"},
            {"name": "b", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "m"}],
    }
    assert stop_order(containers_of(spec)) == {"i": (), "m": (), "b": ("i", "m"), "a": ("i", "m", "b")}


def test_a_container_that_takes_no_notice_is_killed_when_its_grace_is_over(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        await stage.pod({"terminationGracePeriodSeconds": 12, "containers": [app()]})
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone()
        assert signals(stage) == [(signal.SIGTERM, 0), (signal.SIGKILL, 12)]

    stage.play(scene)


def test_the_default_grace_is_thirty_seconds(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone()
        assert signals(stage) == [(signal.SIGTERM, 0), (signal.SIGKILL, 30)]

    stage.play(scene)


def test_a_deletion_may_allow_less(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.delete(grace=5)
        await stage.until_gone()
        assert signals(stage) == [(signal.SIGTERM, 0), (signal.SIGKILL, 5)]

    stage.play(scene)


def test_a_second_deletion_hurries_the_first(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        await stage.pod({"terminationGracePeriodSeconds": 600, "containers": [app()]})
        await stage.until(is_ready)
        await stage.delete()
        await asyncio.sleep(10)
        await stage.delete(grace=3)
        await stage.until_gone(seconds=20)
        (_, term), (_, kill) = signals(stage)
        assert (term, round(kill)) == (0, 13)

    stage.play(scene)


def test_a_second_deletion_with_more_time_changes_nothing(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.delete(grace=10)
        await asyncio.sleep(1)
        await stage.delete(grace=300)
        await stage.until_gone()
        assert signals(stage) == [(signal.SIGTERM, 0), (signal.SIGKILL, 10)]

    stage.play(scene)


def test_a_pod_that_was_deleted_by_force_ends_all_the_same(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=3.0)
        pod = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.delete(grace=0)
        assert await stage.find() is None
        await asyncio.sleep(10)
        assert stage.machine.running == []
        assert signals(stage)[0][0] == signal.SIGTERM
        assert not (stage.settings.pods / pod.uid).exists()

    stage.play(scene)


def test_one_of_the_same_name_waits_until_the_first_has_ended(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=8.0)
        first = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.delete(grace=0)
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "PodTerminating")
        assert first.uid in container(pod)["state"]["waiting"]["message"]
        assert len(stage.machine.launches) == 1
        await stage.until(is_ready)
        old, new = stage.machine.launches
        assert old.ended is not None
        assert new.started >= old.ended.finished

    stage.play(scene)


def test_the_hook_comes_before_the_signal_and_out_of_the_grace(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        stage.machine.answer("app", ("goodbye",), lambda: Answer(0, seconds=8.0))
        await stage.pod({"terminationGracePeriodSeconds": 20, "containers": [app(lifecycle=HOOK)]})
        await stage.until(is_ready)
        began = stage.clock.now()
        await stage.delete()
        await stage.until_gone()
        (only,) = stage.machine.launches
        assert [round(at - began) for at, _ in only.entered] == [0]
        assert [(number, round(at - began)) for at, number in only.signals] == [(15, 8), (9, 20)]

    stage.play(scene)


def test_a_hook_that_hangs_leaves_two_seconds(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        stage.machine.answer("app", ("goodbye",), lambda: Answer(0, seconds=1000.0))
        await stage.pod({"terminationGracePeriodSeconds": 10, "containers": [app(lifecycle=HOOK)]})
        await stage.until(is_ready)
        began = stage.clock.now()
        await stage.delete()
        await stage.until_gone()
        (only,) = stage.machine.launches
        assert [(number, round(at - began)) for at, number in only.signals] == [(15, 10), (9, 12)]
        assert "FailedPreStopHook" in [reason for reason, _ in await stage.events()]

    stage.play(scene)


def test_a_hook_that_fails_does_not_keep_the_pod(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("goodbye",), lambda: Answer(1, "no such database"))
        await stage.pod({"containers": [app(lifecycle=HOOK)]})
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone(seconds=5)
        assert (
            "FailedPreStopHook",
            "PreStopHook failed: exit code 1: no such database",
        ) in await stage.events()

    stage.play(scene)


def test_a_hook_may_sleep(stage: Stage) -> None:
    async def scene() -> None:
        hook = {"preStop": {"sleep": {"seconds": 7}}}
        await stage.pod({"containers": [app(lifecycle=hook)]})
        await stage.until(is_ready)
        began = stage.clock.now()
        await stage.delete()
        await stage.until_gone()
        (only,) = stage.machine.launches
        assert [round(at - began) for at, _ in only.signals] == [7]

    stage.play(scene)


def test_hurrying_cuts_the_hook_short(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("goodbye",), lambda: Answer(0, seconds=500.0))
        await stage.pod({"terminationGracePeriodSeconds": 600, "containers": [app(lifecycle=HOOK)]})
        await stage.until(is_ready)
        await stage.delete()
        await asyncio.sleep(5)
        await stage.delete(grace=1)
        await stage.until_gone(seconds=10)

    stage.play(scene)


def test_hurrying_counts_also_for_what_a_probe_has_condemned(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        stage.machine.answer("app", ("check",), lambda: 1)
        probe = {"exec": {"command": ["check"]}, "failureThreshold": 1}
        await stage.pod({"terminationGracePeriodSeconds": 600, "containers": [app(livenessProbe=probe)]})
        await stage.until(is_ready)
        await asyncio.sleep(5)
        await stage.delete(grace=3)
        await stage.until_gone(seconds=15)
        assert [number for number, _ in signals(stage)] == [signal.SIGTERM, signal.SIGKILL]

    stage.play(scene)


def test_without_grace_there_is_no_hook(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"terminationGracePeriodSeconds": 0, "containers": [app(lifecycle=HOOK)]})
        await stage.until(is_ready)
        (only,) = stage.machine.launches
        await stage.delete()
        await stage.until_gone()
        await asyncio.sleep(5)
        assert only.entered == []
        assert stage.machine.running == []

    stage.play(scene)


def test_the_stop_signal_is_the_containers_own(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"os": {"name": "linux"}, "containers": [app(lifecycle={"stopSignal": "SIGINT"})]})
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone()
        assert signals(stage) == [(signal.SIGINT, 0)]

    stage.play(scene)


def test_a_pod_that_is_deleted_before_it_started_is_gone_at_once(stage: Stage) -> None:
    async def scene() -> None:
        stage.images.missing.add("app:1")
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: reason(pod) == "ErrImageNeverPull")
        await stage.delete()
        await stage.until_gone(seconds=5)
        assert stage.machine.launches == []

    stage.play(scene)


def test_nothing_is_started_in_a_pod_that_is_being_deleted(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"one": FakeProgram(stops_in=5.0), "app": FakeProgram()}
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        await stage.until(lambda pod: state(pod, "one") == "running")
        await stage.delete()
        await stage.until_gone()
        assert [each.name for each in stage.machine.launches] == ["one"]

    stage.play(scene)


def test_a_container_that_ends_by_itself_meanwhile_is_not_started_again(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"quick": FakeProgram(stops_in=0.0), "slow": FakeProgram(stops_in=10.0)}
        await stage.pod({"containers": [app("quick"), app("slow")]})
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone()
        assert len(stage.machine.launches) == 2

    stage.play(scene)


def test_one_that_is_being_started_when_the_deletion_comes_is_stopped(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(starts_in=5.0)
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: reason(pod) == "ContainerCreating")
        await stage.delete()
        await stage.until_gone()
        assert stage.machine.running == []

    stage.play(scene)


def test_the_last_status_says_how_it_ended(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=1.0, stop_code=143)
        await stage.pod({"containers": [app()]}, finalizers=["example.com/look"])
        await stage.until(is_ready)
        await stage.delete()
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 143
        assert not is_ready(pod)
        await stage.api.patch(Pod, "web-0", "default", {"metadata": {"finalizers": None}})
        await stage.until_gone()

    stage.play(scene)


def test_the_grace_goes_on_running_while_there_is_no_agent(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(stops_in=None)
        await stage.pod({"terminationGracePeriodSeconds": 30, "containers": [app()]})
        await stage.until(is_ready)
        began = stage.clock.now()
        await stage.delete()
        await asyncio.sleep(5)
        await stage.kill_agent()
        await asyncio.sleep(15)
        stage.start_agent()
        await stage.until_gone()
        (only,) = stage.machine.launches
        assert round(only.signals[-1][0] - began) == 30

    stage.play(scene)


def test_the_active_deadline_ends_a_pod_that_takes_too_long(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"activeDeadlineSeconds": 60, "restartPolicy": "Never", "containers": [app()]})
        await stage.until(is_ready)
        await asyncio.sleep(50)
        assert phase(await stage.get()) == "Running"
        pod = await stage.until(lambda pod: phase(pod) == "Failed", seconds=20)
        assert pod.status["reason"] == "DeadlineExceeded"
        assert stage.machine.running == []

    stage.play(scene)


def test_the_active_deadline_holds_over_agents(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"activeDeadlineSeconds": 60, "containers": [app()]})
        await stage.until(is_ready)
        await stage.kill_agent()
        await asyncio.sleep(100)
        stage.start_agent()
        pod = await stage.until(lambda pod: phase(pod) == "Failed", seconds=10)
        assert pod.status["reason"] == "DeadlineExceeded"

    stage.play(scene)


def test_a_pod_that_takes_too_much_is_evicted_and_stays_so(stage: Stage) -> None:
    async def scene() -> None:
        pod = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        stage.volumes.excesses[pod.uid] = 'Usage of EmptyDir volume "tmp" exceeds the limit "1Mi".'
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert pod.status["reason"] == "Evicted"
        assert "exceeds the limit" in pod.status["message"]
        assert stage.machine.running == []
        await stage.restart_agent()
        await asyncio.sleep(30)
        assert phase(await stage.get()) == "Failed"
        assert len(stage.machine.launches) == 1

    stage.play(scene)


def test_a_pod_that_somebody_else_calls_failed_is_stopped(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        told = {"status": {"phase": "Failed", "reason": "Preempted"}}
        await stage.api.patch(Pod, "web-0", "default", told, subresource="status")
        await asyncio.sleep(10)
        assert stage.machine.running == []
        assert phase(await stage.get()) == "Failed"

    stage.play(scene)
