"""A machine that was started anew: nothing of before runs, init containers run again, and what is counted goes on."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.kit.fake_machine import FakeProgram
from tests.node.stage import Stage, app, container, is_ready, phase

from pilothouse.api.kind_names import Lease, Pod


async def power_cut(stage: Stage) -> None:
    """Everything ends at once, and the agent comes back in another boot."""
    await stage.kill_agent()
    for each in stage.machine.running:
        each.end(137, 9)
    for folder in stage.settings.pods.iterdir():
        (folder / "boot").write_text("another-boot")
    stage.start_agent()


def test_init_containers_run_again_before_the_main_ones(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["one"] = FakeProgram(runs=1.0)
        await stage.pod({"initContainers": [app("one")], "containers": [app()]})
        await stage.until(is_ready)
        await power_cut(stage)
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        assert [each.name for each in stage.machine.launches] == ["one", "app", "one", "app"]
        assert container(pod, "one")["restartCount"] == 1

    stage.play(scene)


def test_a_pod_that_is_never_restarted_has_failed(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"restartPolicy": "Never", "containers": [app()]})
        await stage.until(is_ready)
        await power_cut(stage)
        await stage.until(lambda pod: phase(pod) == "Failed")
        assert len(stage.machine.launches) == 1

    stage.play(scene)


def test_a_pod_that_had_succeeded_stays_so(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = FakeProgram(runs=1.0)
        await stage.pod({"restartPolicy": "OnFailure", "containers": [app()]})
        await stage.until(lambda pod: phase(pod) == "Succeeded")
        await power_cut(stage)
        await asyncio.sleep(30)
        assert phase(await stage.get()) == "Succeeded"
        assert len(stage.machine.launches) == 1

    stage.play(scene)


def test_the_address_is_kept(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        before = await stage.until(is_ready)
        await power_cut(stage)
        pod = await stage.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        assert pod.status["podIP"] == before.status["podIP"]

    stage.play(scene)


def test_a_pod_with_fields_that_cant_be_honoured_fails_and_names_them(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        await stage.pod({"hostPID": True, "containers": [app()]})
        pod = await stage.until(lambda pod: phase(pod) == "Failed")
        assert pod.status["reason"] == "UnhonouredFields"
        assert "spec.hostPID: Forbidden" in pod.status["message"]
        assert stage.machine.launches == []
        await stage.delete()
        await stage.until_gone()

    # As a real Kubernetes, which knows nothing of our nodes.
    monkeypatch.setattr("pilothouse.sim.simulated_server.refused_fields", lambda kind, obj: [])
    stage.play(scene)


def test_the_lease_is_renewed_every_ten_seconds(stage: Stage) -> None:
    async def scene() -> None:
        assert stage.agent is not None
        await stage.agent.registration.registered()
        await asyncio.sleep(1)
        moments = []
        for _ in range(5):
            lease = await stage.api.get(Lease, "n1", "kube-node-lease")
            moments.append(lease.moment("spec", "renewTime"))
            await asyncio.sleep(10)
        gaps = [later - earlier for earlier, later in pairwise(moments) if earlier and later]
        assert [round(gap) for gap in gaps] == [10, 10, 10, 10]

    stage.play(scene)


def test_a_pod_that_is_gone_is_forgotten_by_the_whereabouts(stage: Stage) -> None:
    async def scene() -> None:
        pod = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        assert stage.agent is not None
        assert [each.uid for each in stage.agent.container_index.pods()] == [pod.uid]
        await stage.delete()
        await stage.until_gone()
        await asyncio.sleep(1)
        assert stage.agent.container_index.pods() == []
        assert await stage.api.find(Pod, "web-0", "default") is None

    stage.play(scene)


def test_records_that_were_cut_short_are_done_without(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["app"] = [FakeProgram(runs=5.0, code=1), FakeProgram()]
        pod = await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        folder = stage.settings.pods / pod.uid
        for name in ("pod.json", "ending.json", "containers/app/pause.json"):
            (folder / name).write_bytes(b"")
        await power_cut(stage)
        await stage.until(lambda pod: container(pod).get("restartCount") == 2 and is_ready(pod))
        await stage.delete()
        await stage.until_gone()

    stage.play(scene)


def test_a_folder_of_which_nothing_is_known_is_cleared_away(stage: Stage) -> None:
    async def scene() -> None:
        pod = await stage.pod({"containers": [app()]})
        await stage.until(is_ready)
        await stage.kill_agent()
        await stage.delete(grace=0)
        (stage.settings.pods / pod.uid / "pod.json").write_bytes(b"")
        stage.start_agent()
        await asyncio.sleep(5)
        assert stage.machine.running == []
        assert not (stage.settings.pods / pod.uid).exists()
        assert pod.uid in stage.volumes.released
        assert pod.uid in stage.addresses.released

    stage.play(scene)
