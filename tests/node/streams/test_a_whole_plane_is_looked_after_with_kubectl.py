"""What an administrator does to a node and its pods, with every kubectl, on a plane as `pilothouse up` runs it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.metrics.scraped import Scraped
from tests.app.up.manifests import stateful_set
from tests.cli.running import pilothouse
from tests.kit.control_planes import UpPlane, as_ordinary_user
from tests.kit.kubectl import Binary, Kubectl
from tests.kit.waiting import eventually
from tests.node.streams.terminals import on_a_terminal

PATIENCE = 30.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpPlane]:
    with UpPlane(tmp_path_factory.mktemp("up")) as plane:
        yield plane


@pytest.fixture
def kubectl(binary: Binary, up: UpPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / f"kubectl-up-{binary.version}"
    return Kubectl(binary, up.data / "admin.kubeconfig", home)


async def running(kubectl: Kubectl, pod: str = "web-0") -> dict[str, Any]:
    (await kubectl("apply", "-f", "-", stdin=stateful_set())).ok()

    async def ready() -> dict[str, Any] | None:
        got = await kubectl("get", "pod", pod, "-o", "json")
        found: dict[str, Any] = json.loads(got.out) if got.code == 0 else {}
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", ())}
        return found if conditions.get("Ready") == "True" else None

    found = await eventually(ready, seconds=60)

    async def answers() -> bool:
        # A node's server has its certificate a moment after the node is ready.
        return (await kubectl("exec", pod, "--", "true")).code == 0

    await eventually(answers)
    return found


async def test_a_cordoned_node_takes_no_more_pods_and_a_drained_one_has_none(kubectl: Kubectl) -> None:
    before = await running(kubectl)
    (await kubectl("cordon", "n1")).ok()
    try:
        assert "SchedulingDisabled" in (await kubectl("get", "nodes")).ok()
        assert "evicted" in (await kubectl("drain", "n1", "--timeout=50s")).ok()

        async def waiting() -> bool:
            got = await kubectl("get", "pod", "web-0", "-o", "json")
            if got.code != 0:
                return False
            pod = json.loads(got.out)
            return pod["metadata"]["uid"] != before["metadata"]["uid"] and "nodeName" not in pod["spec"]

        await eventually(waiting)
    finally:
        (await kubectl("uncordon", "n1")).ok()
    await running(kubectl)


async def test_folders_are_copied_both_ways(kubectl: Kubectl, tmp_path: Path) -> None:
    await running(kubectl)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(name * 1000)
    (await kubectl("cp", str(folder), "web-0:/tmp/copied")).ok()
    assert (await kubectl("exec", "web-0", "--", "cat", "/tmp/copied/a")).ok() == "a" * 1000
    (await kubectl("cp", "web-0:/tmp/copied", str(tmp_path / "back"))).ok()
    assert (tmp_path / "back" / "b").read_text() == "b" * 1000


async def test_the_instance_that_died_is_still_heard(kubectl: Kubectl) -> None:
    await running(kubectl)
    before = (await kubectl("logs", "web-0")).ok()
    (await kubectl("exec", "web-0", "--", "sh", "-c", "echo dying > /proc/1/fd/1; kill -TERM 1")).ok()

    async def said_before() -> str | None:
        got = await kubectl("logs", "web-0", "--previous")
        return got.out if got.code == 0 and "dying" in got.out else None

    assert (await eventually(said_before)).startswith(before.splitlines()[0])


async def test_a_nodes_figures_are_read_through_the_api_server(kubectl: Kubectl) -> None:
    await running(kubectl)
    told = Scraped.read((await kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/metrics")).ok().encode())
    pod = {"namespace": "default", "pod": "web-0", "container": "sh"}
    names = {name for name, labels, _ in told.samples if pod.items() <= labels.items()}
    assert {
        "container_cpu_usage_seconds_total",
        "container_memory_working_set_bytes",
        "container_memory_usage_bytes",
        "container_start_time_seconds",
    } <= names
    of_machine = {
        "node_disk_write_time_seconds_total",
        "node_cpu_usage_seconds_total",
        "node_memory_working_set_bytes",
    }
    assert of_machine <= {name for name, _, _ in told.samples}
    pods = json.loads((await kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/pods")).ok())
    assert "web-0" in {each["metadata"]["name"] for each in pods["items"]}
    [target] = json.loads((await kubectl("get", "--raw", "/pilothouse/v1/node-targets")).ok())
    assert target["labels"]["__metrics_path__"] == "/api/v1/nodes/n1/proxy/metrics"


async def test_who_may_read_figures_reads_nothing_else_of_a_node(kubectl: Kubectl) -> None:
    await running(kubectl)
    seen = ("--as=prometheus", "--as-group=system:monitoring", "--as-group=system:authenticated")
    root = "/api/v1/nodes/n1/proxy"
    assert "kubelet_running_pods" in (await kubectl("get", "--raw", f"{root}/metrics", *seen)).ok()
    for path in ("/pods", "/metrics/../pods", "/metrics/%2e%2e/pods", "/containerLogs/default/web-0/sh"):
        refused = await kubectl("get", "--raw", f"{root}{path}", *seen)
        assert refused.code == 1
        assert refused.out == ""


async def test_streams_end_with_the_server_and_pods_do_not(tmp_path: Path) -> None:
    with UpPlane(tmp_path) as plane:
        kubectl = plane.kubectl
        before = await running(kubectl)
        async with (
            kubectl.started("logs", "-f", "web-0") as following,
            kubectl.started("exec", "web-0", "--", "sh", "-c", "echo in; sleep 1000") as inside,
        ):
            for process, line in ((following, b"began\n"), (inside, b"in\n")):
                assert process.stdout is not None
                assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == line
            [server] = [role["pid"] for role in plane.report["roles"] if role["name"] == "apiserver"]
            os.kill(server, signal.SIGTERM)
            for process in (following, inside):
                await asyncio.wait_for(process.wait(), PATIENCE)

        async def back() -> bool:
            return (await kubectl("get", "--raw", "/readyz")).code == 0

        await eventually(back)
        after = await running(kubectl)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_it_is_the_same_for_an_ordinary_user(tmp_path: Path) -> None:
    with as_ordinary_user() as (folder, command, env), UpPlane(folder, command=command, env=env) as plane:
        kubectl = plane.kubectl
        await running(kubectl)
        assert (await kubectl("logs", "web-0")).ok() == "began\n"
        ran = await kubectl("exec", "-i", "web-0", "--", "sh", "-c", "cat; hostname; exit 4", stdin="typed ")
        assert (ran.code, ran.out) == (4, "typed web-0\n")
        (tmp_path / "here").write_text("copied")
        (await kubectl("cp", str(tmp_path / "here"), "web-0:/tmp/there")).ok()
        assert (await kubectl("exec", "web-0", "--", "cat", "/tmp/there")).ok() == "copied"
        async with on_a_terminal(kubectl, "exec", "-it", "web-0", "--", "sh") as terminal:
            await terminal.type("tty -s && echo yes-a''-terminal; exit 6\n")
            await terminal.until("yes-a-terminal")
            assert await terminal.code() == 6
        figures = Scraped.read(
            (await kubectl("get", "--raw", "/api/v1/nodes/n1/proxy/metrics")).ok().encode()
        )
        assert figures.value("container_memory_working_set_bytes", pod="web-0") > 0


async def test_why_begins_with_what_a_container_wrote_last(up: UpPlane) -> None:
    """It left no termination message: its log is read."""
    kubectl, program = up.kubectl, "echo started; echo 'ERROR no such region: eu-west-9' >&2; exit 3"
    container = {"name": "main", "image": "host/sh", "command": ["sh", "-c", program]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "broken"},
        "spec": {"containers": [container]},
    }
    (await kubectl("apply", "-f", "-", stdin=json.dumps(pod))).ok()

    async def lines() -> list[str] | None:
        words = ("why", "pod/broken", "--kubeconfig", str(up.data / "admin.kubeconfig"))
        told = (await asyncio.to_thread(pilothouse, *words)).stdout.splitlines()
        return told if any("exited with code 3" in line for line in told) else None

    try:
        told = await eventually(lines, seconds=PATIENCE)
        assert told[:2] == [
            "Pod default/broken:",
            "  last errors in its log: ERROR no such region: eu-west-9",
        ]
    finally:
        (await kubectl("delete", "pod", "broken", "--wait=false")).ok()
