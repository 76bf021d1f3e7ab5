"""What a pod says while it waits, and what it needs to be ready: reasons that a person can act on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit.fake_machine import Answer, FakeProgram
from tests.kit.node_parts import PlainImage, missing_claim
from tests.node.stage import Stage, app, container, is_ready, phase, reason

from pilothouse.api.kind_names import ConfigMap, Node, Pod, Secret
from pilothouse.api.objects import Object


def waiting(pod: Object, name: str = "app") -> str:
    return str(container(pod, name)["state"]["waiting"].get("message") or "")


def test_a_missing_image_names_the_command_that_brings_it(stage: Stage) -> None:
    async def scene() -> None:
        stage.images.missing.add("app:1")
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "ErrImageNeverPull")
        assert "pilothouse image import app:1" in waiting(pod)
        assert phase(pod) == "Pending"
        stage.images.missing.clear()
        await stage.until(is_ready)

    stage.play(scene)


def test_an_image_folder_that_cant_be_read_is_told(stage: Stage) -> None:
    async def scene() -> None:
        def broken(reference: str) -> PlainImage:
            raise PermissionError(13, "Permission denied", "/images/names")

        stage.images.resolve = broken  # type: ignore[method-assign]  # A part that breaks.
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "CreateContainerError")
        assert waiting(pod) == "Permission denied: /images/names"

    stage.play(scene)


def test_a_volume_that_is_not_ready_is_waited_for(stage: Stage) -> None:
    async def scene() -> None:
        stage.volumes.problem = missing_claim()
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "FailedMount")
        assert waiting(pod) == 'persistentvolumeclaim "data" not found'
        condition = pod.condition("PodReadyToStartContainers")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "FailedMount")
        assert ("FailedMount", 'persistentvolumeclaim "data" not found') in await stage.events()
        stage.volumes.problem = None
        pod = await stage.until(is_ready)
        assert pod.is_true("PodReadyToStartContainers")

    stage.play(scene)


def test_what_is_waited_for_is_asked_about_less_and_less_often_but_always(stage: Stage) -> None:
    async def scene() -> None:
        stage.volumes.problem = missing_claim()
        await stage.pod({"containers": [app()]})
        await asyncio.sleep(3600)
        stage.volumes.problem = None
        await stage.until(is_ready, seconds=31)

    stage.play(scene)


def test_a_missing_config_map_is_named(stage: Stage) -> None:
    async def scene() -> None:
        reference = {"configMapKeyRef": {"name": "settings", "key": "mode"}}
        await stage.pod({"containers": [app(env=[{"name": "MODE", "valueFrom": reference}])]})
        pod = await stage.until(lambda pod: reason(pod) == "CreateContainerConfigError")
        assert waiting(pod) == 'configmap "settings" not found'
        made = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"other": "x"}}
        await stage.api.create(ConfigMap, made)
        pod = await stage.until(lambda pod: "key mode" in waiting(pod))
        await stage.api.patch(ConfigMap, "settings", "default", {"data": {"mode": "fast"}})
        await stage.until(is_ready)
        assert stage.machine.launches[0].launch.env["MODE"] == "fast"

    stage.play(scene)


def test_an_image_without_an_entrypoint_is_named_with_what_gives_it_one(stage: Stage) -> None:
    async def scene() -> None:
        stage.images.known["files:1"] = PlainImage(entrypoint=())
        container = {"name": "app", "image": "files:1"}
        await stage.pod({"containers": [container]})
        pod = await stage.until(lambda pod: reason(pod) == "CreateContainerConfigError")
        assert 'image "files:1" has no entrypoint' in waiting(pod)
        assert "set command" in waiting(pod)
        assert "`pilothouse image import --entrypoint`" in waiting(pod)

    stage.play(scene)


def test_a_missing_secret_is_named(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app(envFrom=[{"secretRef": {"name": "keys"}}])]})
        pod = await stage.until(lambda pod: reason(pod) == "CreateContainerConfigError")
        assert waiting(pod) == 'secret "keys" not found'
        made = {"metadata": {"name": "keys", "namespace": "default"}, "data": {"TOKEN": "c2VjcmV0"}}
        await stage.api.create(Secret, made)
        await stage.until(is_ready)
        assert stage.machine.launches[0].launch.env["TOKEN"] == "secret"

    stage.play(scene)


def test_a_disk_that_takes_nothing_is_told_and_waited_for(stage: Stage) -> None:
    async def scene() -> None:
        await asyncio.sleep(1)
        pods = stage.settings.pods
        pods.rmdir()
        pods.write_text("no folder can be made here")
        await stage.pod({"containers": [app()]})
        pod = await stage.until(lambda pod: reason(pod) == "NodeStorageError")
        assert "failed to make pod data directories" in waiting(pod)
        assert stage.machine.launches == []
        pods.unlink()
        pods.mkdir()
        await stage.until(is_ready)

    stage.play(scene)


def test_a_pod_that_the_disk_never_took_can_be_deleted(stage: Stage) -> None:
    async def scene() -> None:
        await asyncio.sleep(1)
        stage.settings.pods.rmdir()
        stage.settings.pods.write_text("no folder can be made here")
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: reason(pod) == "NodeStorageError")
        await stage.delete()
        await stage.until_gone(seconds=5)

    stage.play(scene)


def test_a_pod_ends_though_its_folder_takes_nothing_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        await stage.until(is_ready)

        def full(path: Path, content: bytes) -> None:
            raise OSError(28, "No space left on device", str(path))

        monkeypatch.setattr("pilothouse.node.pods.pod_directories.write_atomically", full)
        await stage.delete()
        await stage.until_gone(seconds=10)
        assert stage.machine.running == []

    stage.play(scene)


def test_limits_that_are_not_enforced_are_a_condition_of_the_pod(stage: Stage) -> None:
    async def scene() -> None:
        stage.groups.complaints = ("memory is not enforced: /sys/fs/cgroup is not ours to write",)
        await stage.pod({"containers": [app(resources={"limits": {"memory": "64Mi"}})]})
        pod = await stage.until(is_ready)
        condition = pod.condition("pilothouse.io/LimitsEnforced")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "NotEnforced")
        assert "container app: memory is not enforced" in condition["message"]

    stage.play(scene)


def test_a_pod_whose_limits_hold_says_nothing_about_them(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app(resources={"limits": {"memory": "64Mi", "cpu": "500m"}})]})
        pod = await stage.until(is_ready)
        assert pod.condition("pilothouse.io/LimitsEnforced") is None
        whole, limits = stage.groups.made.values()
        assert (limits.memory, limits.cpu, limits.cpu_request) == (64 * 2**20, 0.5, 0.5)
        assert (whole.memory, whole.cpu, whole.cpu_request) == (None, None, 0.5), (
            "pods weigh what they ask for"
        )

    stage.play(scene)


def test_groups_that_are_denied_keep_no_pod_from_running(stage: Stage) -> None:
    async def scene() -> None:
        def denied(name: str) -> object:
            class Group:
                folders = ()

                def make(self, limits: object) -> tuple[str, ...]:
                    raise PermissionError(13, "Permission denied", f"/sys/fs/cgroup/{name}")

                async def remove(self) -> None:
                    return None

            return Group()

        stage.groups.group = denied  # type: ignore[method-assign,assignment]  # A part that breaks.
        await stage.pod({"containers": [app(resources={"limits": {"cpu": "1"}})]})
        pod = await stage.until(is_ready)
        condition = pod.condition("pilothouse.io/LimitsEnforced") or {}
        assert "cpu is not enforced: Permission denied" in condition["message"]

    stage.play(scene)


def test_readiness_gates_are_waited_for(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"readinessGates": [{"conditionType": "example.com/Tuned"}], "containers": [app()]})
        pod = await stage.until(lambda pod: pod.is_true("ContainersReady"))
        condition = pod.condition("Ready") or {}
        assert condition["reason"] == "ReadinessGatesNotReady"
        assert 'readiness gate "example.com/Tuned" does not exist' in condition["message"]
        gate = {"type": "example.com/Tuned", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        others = [*pod.status["conditions"], gate]
        await stage.api.patch(
            Pod, "web-0", "default", {"status": {"conditions": others}}, subresource="status"
        )
        pod = await stage.until(is_ready)
        assert pod.is_true("example.com/Tuned")

    stage.play(scene)


def test_conditions_of_others_stay(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [FakeProgram(runs=10.0, code=1), FakeProgram()]
        await stage.pod({"containers": [app()]})
        pod = await stage.until(is_ready)
        other = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        conditions = [*pod.status["conditions"], other]
        told = {"status": {"conditions": conditions}}
        await stage.api.patch(Pod, "web-0", "default", told, subresource="status")
        await stage.until(lambda pod: container(pod).get("restartCount") == 1)
        assert (await stage.get()).is_true("DisruptionTarget")

    stage.play(scene)


def test_an_unchanged_pod_is_written_once(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod(
            {"containers": [app(readinessProbe={"exec": {"command": ["ok"]}, "periodSeconds": 1})]}
        )
        before = await stage.until(is_ready)
        await asyncio.sleep(300)
        assert (await stage.get()).revision == before.revision

    stage.play(scene)


def test_an_agent_that_takes_up_a_pod_writes_nothing_new(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        before = await stage.until(is_ready)
        await stage.restart_agent()
        await asyncio.sleep(60)
        assert (await stage.get()).revision == before.revision

    stage.play(scene)


def test_termination_messages_are_told(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=1.0, code=1, says="the port is taken")
        await stage.pod({"restartPolicy": "Never", "containers": [app()]})
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["message"] == "the port is taken"

    stage.play(scene)


def test_too_much_memory_is_called_so(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=1.0, code=137, oom=True)
        await stage.pod({"restartPolicy": "Never", "containers": [app()]})
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert reason(pod) == "OOMKilled"

    stage.play(scene)


def test_a_failed_post_start_hook_ends_the_container(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("hello",), lambda: Answer(1, "no"))
        hooks = {"postStart": {"exec": {"command": ["hello"]}}}
        await stage.pod({"restartPolicy": "Never", "containers": [app(lifecycle=hooks)]})
        pod = await stage.until(lambda pod: phase(pod) in ("Failed", "Succeeded"))
        assert not container(pod)["ready"]
        assert ("FailedPostStartHook", "PostStartHook failed: exit code 1: no") in await stage.events()

    stage.play(scene)


def test_a_container_is_not_ready_before_its_hook_is_done(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.answer("app", ("hello",), lambda: Answer(0, seconds=20.0))
        hooks = {"postStart": {"exec": {"command": ["hello"]}}}
        await stage.pod({"containers": [app(lifecycle=hooks)]})
        await asyncio.sleep(15)
        assert not is_ready(await stage.get())
        await stage.until(is_ready, seconds=10)

    stage.play(scene)


def test_a_node_that_is_deleted_comes_back(stage: Stage) -> None:
    async def scene() -> None:
        assert stage.agent is not None
        await stage.agent.registration.registered()
        await stage.api.delete(Node, "n1")
        await asyncio.sleep(15)
        assert (await stage.api.get(Node, "n1")).is_true("Ready")

    stage.play(scene)


def test_a_node_that_was_called_lost_says_that_it_is_there(stage: Stage) -> None:
    async def scene() -> None:
        assert stage.agent is not None
        await stage.agent.registration.registered()
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
        node = await stage.api.get(Node, "n1")
        conditions = [each for each in node.status["conditions"] if each["type"] != "Ready"]
        told = {
            "status": {"conditions": [*conditions, {**lost, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        }
        await stage.api.patch(Node, "n1", "", told, subresource="status")
        await asyncio.sleep(12)
        assert (await stage.api.get(Node, "n1")).is_true("Ready")

    stage.play(scene)


def test_a_cordon_and_taints_are_left_alone(stage: Stage) -> None:
    async def scene() -> None:
        assert stage.agent is not None
        await stage.agent.registration.registered()
        taint = {"key": "example.com/maintenance", "effect": "NoSchedule"}
        await stage.api.patch(Node, "n1", "", {"spec": {"unschedulable": True, "taints": [taint]}})
        await asyncio.sleep(700)
        node = await stage.api.get(Node, "n1")
        assert node.spec["unschedulable"] is True
        assert node.spec["taints"] == [taint]

    stage.play(scene)
