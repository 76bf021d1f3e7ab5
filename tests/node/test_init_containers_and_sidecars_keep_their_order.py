"""Init containers one after the other; sidecars come up before what follows them, and stop after the main containers."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.fake_machine import Answer, FakeProgram
from tests.node.stage import Stage, app, container, is_ready, phase, reason, state

from pilothouse.api.objects import Object
from pilothouse.node.containers.container_index import ContainerNotFound

EXEC = {"exec": {"command": ["check"]}}


def sidecar(name: str = "proxy", **more: object) -> dict[str, object]:
    return app(name, restartPolicy="Always", **more)


def names(stage: Stage) -> list[str]:
    return [each.name for each in stage.machine.launches]


def test_init_containers_run_one_after_the_other(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"one": FakeProgram(runs=2.0), "two": FakeProgram(runs=2.0)}
        await stage.pod({"initContainers": [app("one"), app("two")], "containers": [app()]})
        await stage.until(is_ready)
        one, two, main = stage.machine.launches
        assert [one.name, two.name, main.name] == ["one", "two", "app"]
        assert one.ended is not None
        assert two.started >= one.ended.finished
        assert two.ended is not None
        assert main.started >= two.ended.finished

    stage.play(scene)


def test_until_then_the_pod_is_pending_and_says_so(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=20.0)
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        pod = await stage.until(lambda pod: state(pod, "one") == "running")
        assert phase(pod) == "Pending"
        assert reason(pod) == "PodInitializing"
        condition = pod.condition("Initialized")
        assert condition is not None
        assert condition["status"] == "False"
        assert condition["message"] == "containers with incomplete status: [one]"
        pod = await stage.until(is_ready)
        assert pod.is_true("Initialized")
        assert reason(pod, "one") == "Completed"
        assert container(pod, "one")["ready"] is True

    stage.play(scene)


def test_an_init_container_that_is_about_to_start_waits_as_with_kubelet(stage: Stage) -> None:
    """Else `kubectl get pods` would say ``Init:ContainerCreating``, which no Kubernetes does."""

    async def scene() -> None:
        stage.volumes.takes = 5.0
        stage.machine.cast["one"] = FakeProgram(runs=5.0, starts_in=5.0)
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        seen = set()

        def began(pod: Object) -> bool:
            seen.add(reason(pod, "one") if state(pod, "one") == "waiting" else "")
            return state(pod, "one") == "running"

        await stage.until(began)
        assert seen == {"", "PodInitializing"}

    stage.play(scene)


def test_whoever_asks_for_the_log_meanwhile_is_told_the_same(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=20.0)
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        pod = await stage.until(lambda pod: state(pod, "one") == "running")
        assert stage.agent is not None
        with pytest.raises(ContainerNotFound, match="is waiting to start: PodInitializing"):
            stage.agent.whereabouts.find(pod.namespace, pod.name, "app")

    stage.play(scene)


def test_a_pod_that_failed_before_its_main_containers_shows_them_as_not_begun(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=0.0, code=1)
        await stage.pod({"initContainers": [app("one")], "containers": [app()], "restartPolicy": "Never"})
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert reason(pod) == "PodInitializing"

    stage.play(scene)


def test_an_init_container_that_fails_is_tried_again_with_pauses(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=0.0, code=1)
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod, "one") == "CrashLoopBackOff")
        assert phase(pod) == "Pending"
        assert "app" not in names(stage)

    stage.play(scene)


def test_with_never_its_failure_is_the_pods(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=0.0, code=1)
        spec = {"restartPolicy": "Never", "initContainers": [app("one"), app("two")], "containers": [app()]}
        await stage.pod(spec)
        await stage.until(lambda pod: phase(pod) == "Failed")
        assert names(stage) == ["one"]

    stage.play(scene)


def test_init_containers_do_not_run_again_when_a_main_one_is_restarted(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {
            "one": FakeProgram(runs=1.0),
            "app": [FakeProgram(runs=5.0, code=1), FakeProgram()],
        }
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        assert names(stage) == ["one", "app", "app"]

    stage.play(scene)


def test_nor_when_the_agent_is(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=1.0)
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        await stage.until(is_ready)
        await stage.restart_agent()
        await asyncio.sleep(30)
        assert names(stage) == ["one", "app"]

    stage.play(scene)


def test_an_agent_that_dies_between_init_containers_goes_on_with_the_next(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"one": FakeProgram(runs=1.0), "two": FakeProgram(runs=10.0)}
        await stage.pod({"initContainers": [app("one"), app("two")], "containers": [app()]})
        await stage.until(lambda pod: state(pod, "two") == "running")
        await stage.restart_agent()
        await stage.until(is_ready)
        assert names(stage) == ["one", "two", "app"]

    stage.play(scene)


def test_a_sidecar_comes_up_before_what_follows_it(stage: Stage) -> None:
    async def scene() -> None:
        up = asyncio.Event()
        stage.machine.answer("proxy", ("check",), lambda: 0 if up.is_set() else 1)
        probe = {**EXEC, "periodSeconds": 1, "failureThreshold": 100}
        await stage.pod({"initContainers": [sidecar(startupProbe=probe), app("two")], "containers": [app()]})
        stage.machine.cast["two"] = FakeProgram(runs=1.0)
        await asyncio.sleep(20)
        assert names(stage) == ["proxy"]
        up.set()
        await stage.until(is_ready)
        assert names(stage) == ["proxy", "two", "app"]

    stage.play(scene)


def test_a_sidecar_that_ends_is_started_again_whatever_the_policy(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["proxy"] = [FakeProgram(runs=5.0, code=0), FakeProgram()]
        await stage.pod({"restartPolicy": "Never", "initContainers": [sidecar()], "containers": [app()]})
        await stage.until(lambda pod: container(pod, "proxy").get("restartCount") == 1)
        assert len(stage.machine.named("app")) == 1

    stage.play(scene)


def test_a_sidecar_counts_for_readiness(stage: Stage) -> None:
    async def scene() -> None:
        well = asyncio.Event()
        stage.machine.answer("proxy", ("check",), lambda: 0 if well.is_set() else 1)
        spec = {
            "initContainers": [sidecar(readinessProbe={**EXEC, "periodSeconds": 1})],
            "containers": [app()],
        }
        await stage.pod(spec)
        pod = await stage.until(lambda pod: container(pod).get("ready"))
        assert not is_ready(pod)
        well.set()
        await stage.until(is_ready)

    stage.play(scene)


def test_a_sidecar_does_not_keep_a_finished_pod_alive(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"app": FakeProgram(runs=5.0), "proxy": FakeProgram(stops_in=2.0)}
        await stage.pod({"restartPolicy": "Never", "initContainers": [sidecar()], "containers": [app()]})
        await stage.until(lambda pod: phase(pod) == "Succeeded")
        assert stage.machine.running == []
        assert len(stage.machine.named("proxy")) == 1

    stage.play(scene)


def test_sidecars_stop_after_the_main_containers_in_reverse_order(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {
            "app": FakeProgram(stops_in=5.0),
            "first": FakeProgram(stops_in=1.0),
            "second": FakeProgram(stops_in=3.0),
        }
        spec = {"initContainers": [sidecar("first"), sidecar("second")], "containers": [app()]}
        await stage.pod(spec)
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone()
        told = {each.name: each.signals[0][0] for each in stage.machine.launches}
        ends = {each.name: each.ended.finished for each in stage.machine.launches if each.ended}
        assert told["second"] >= ends["app"]
        assert told["first"] >= ends["second"]

    stage.play(scene)


def test_a_sidecar_still_has_two_seconds_when_the_main_one_used_up_the_grace(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast |= {"app": FakeProgram(stops_in=None), "proxy": FakeProgram(stops_in=None)}
        spec = {
            "terminationGracePeriodSeconds": 10,
            "initContainers": [sidecar()],
            "containers": [app()],
        }
        await stage.pod(spec)
        await stage.until(is_ready)
        await stage.delete()
        await stage.until_gone()
        (proxy,) = stage.machine.named("proxy")
        assert [number for _, number in proxy.signals] == [15, 9]
        assert round(proxy.signals[1][0] - proxy.signals[0][0]) == 2

    stage.play(scene)


def test_a_sidecar_that_wont_come_up_is_restarted_by_its_startup_probe(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("proxy", ("check",), lambda: Answer(1, "not yet"))
        probe = {**EXEC, "periodSeconds": 2, "failureThreshold": 3}
        await stage.pod({"initContainers": [sidecar(startupProbe=probe)], "containers": [app()]})
        await stage.until(lambda pod: container(pod, "proxy").get("restartCount") == 1)
        assert stage.machine.named("app") == []

    stage.play(scene)
