"""How containers end, of themselves or because they have to: what is told of it, and that nothing stays."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.kit.waiting import eventually
from tests.node.real import FOREVER, is_there, printed, real_node, running_with, shell
from tests.node.stage import container, is_ready, phase, reason


async def test_a_server_runs_until_it_is_deleted(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        pod = await node.pod({"containers": [shell(FOREVER)]})
        await node.until(is_ready)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []

        async def gone() -> bool:
            return not is_there(node.settings.pods / pod.uid)

        await eventually(gone)


async def test_the_exit_code_and_the_last_words_are_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "echo bye >/dev/termination-log; exit 3"
        await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        ended = container(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "bye\n")


async def test_last_words_may_come_from_the_log(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        failing = shell("echo one; echo two >&2; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
        await node.pod({"restartPolicy": "Never", "containers": [failing]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert set(container(pod)["state"]["terminated"]["message"].split()) == {"one", "two"}


async def test_last_words_are_cut_to_four_kilobytes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "head -c 9000 /dev/zero | tr '\\0' x > /tmp/words; exit 1"
        failing = shell(script, terminationMessagePath="/tmp/words")
        await node.pod({"restartPolicy": "Never", "containers": [failing]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["message"] == "x" * 4096


async def test_an_end_by_a_signal_is_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "sh -c 'kill -SEGV $$$$'; exit $?"
        await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 128 + signal.SIGSEGV


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        missing = {"name": "app", "image": "host/x", "command": ["/no/such/program"]}
        await node.pod({"containers": [missing]})
        pod = await node.until(lambda pod: container(pod).get("lastState", {}).get("terminated"))
        ended = container(pod)["lastState"]["terminated"]
        assert ended["reason"] == "StartError"
        assert "/no/such/program" in ended["message"]


async def test_too_much_memory_kills_and_says_so(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        greedy = {
            "name": "app",
            "image": "host/python3",
            "command": ["python3", "-c", "x = bytearray(200 * 2**20); print(len(x))"],
            "resources": {"limits": {"memory": "32Mi"}},
        }
        await node.pod({"restartPolicy": "Never", "containers": [greedy]})
        pod = await node.until(lambda pod: phase(pod) in ("Failed", "Succeeded"))
        if lacking := pod.condition("pilothouse.io/LimitsEnforced"):
            pytest.skip(f"this machine can't limit memory: {lacking['message']}")
        assert reason(pod) == "OOMKilled"
        assert container(pod)["state"]["terminated"]["exitCode"] == 137


async def test_what_a_container_left_running_ends_with_it(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mark = f"3{os.getpid() % 10000:05d}.5"
        await printed(node, f"sleep {mark} & sleep {mark} & exit 0")

        async def gone() -> bool:
            return not running_with(mark)

        await eventually(gone)


async def test_a_container_that_takes_no_notice_is_killed(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap '' TERM; while :; do sleep 0.05; done"
        await node.pod({"terminationGracePeriodSeconds": 1, "containers": [shell(script)]})
        await node.until(is_ready)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []


async def test_a_container_that_stands_still_is_killed_in_time(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"terminationGracePeriodSeconds": 1, "containers": [shell(FOREVER)]})
        await node.until(is_ready)
        (one,) = await node.left()
        os.kill(one.pid, signal.SIGSTOP)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []


async def test_the_stop_signal_is_the_manifests(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap 'exit 33' QUIT; touch /dev/shm/up; while :; do sleep 0.05; done"
        probe = {"exec": {"command": ["test", "-e", "/dev/shm/up"]}, "periodSeconds": 1}
        own = shell(script, lifecycle={"stopSignal": "SIGQUIT"}, startupProbe=probe)
        await node.pod({"os": {"name": "linux"}, "containers": [own]}, finalizers=["example.com/look"])
        await node.until(is_ready)
        await node.delete()
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 33
