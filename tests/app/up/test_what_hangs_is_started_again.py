"""A process that exists and no longer answers is killed and started again; one that answers, or could not be asked, is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.app.up.manifests import stateful_set
from tests.app.up.watching import lives, node_is_ready, pod_once, program_of
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.app.child_liveness import ASK, Heartbeat, Liveness
from pilothouse.app.processes import ProcessSpec, ProcessSupervisor

CHILD = """
import asyncio, socket, ssl, sys, time
from pilothouse.app.parent_pipe import when_closed
from pilothouse.node.server.listener import NodeListener

async def main():
    door = socket.create_server(("127.0.0.1", 0))
    listener = NodeListener(door, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), asyncio.Protocol)
    when_closed(int(sys.argv[1]), lambda: sys.exit(0), is_healthy=lambda: not listener.is_deaf())
    print("ready", flush=True)
    if sys.argv[2] == "accepts":
        await listener.__aenter__()
    if sys.argv[2] in ("accepts", "deaf"):
        knocking = socket.create_connection(door.getsockname())
    if sys.argv[2] == "blocks":
        time.sleep(600)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@asynccontextmanager
async def kept(tmp_path: Path, how: str, said: list[str]) -> AsyncIterator[ProcessSupervisor]:
    argv = (sys.executable, "-c", CHILD, "{lifeline}", how)
    role = ProcessSpec("child", lambda: argv, liveness=Liveness(period=0.3))
    keeper = ProcessSupervisor(role, tmp_path / "child.log", said.append, lambda: None)
    running = asyncio.create_task(keeper.run())
    try:
        await asyncio.wait_for(keeper.ready(), 60)
        yield keeper
    finally:
        await keeper.stop(0)
        await asyncio.wait_for(running, 60)


async def test_a_loop_that_is_stuck_is_killed_and_its_stack_is_in_the_log(tmp_path: Path) -> None:
    said: list[str] = []
    async with kept(tmp_path, "blocks", said) as keeper:
        first = keeper.health.pid

        async def another() -> bool:
            return keeper.health.starts > 1

        await eventually(another, seconds=60)
        assert not lives(first)
        assert keeper.health.last_end.startswith("hung: no answer for")
    assert any("has not answered for" in line and str(first) in line for line in said)
    log = (tmp_path / "child.log").read_text()
    assert "Current thread" in log
    assert "in main" in log


async def test_a_node_that_accepts_no_connection_is_killed_though_its_loop_runs(tmp_path: Path) -> None:
    said: list[str] = []
    async with kept(tmp_path, "deaf", said) as keeper:

        async def another() -> bool:
            return keeper.health.starts > 1

        await eventually(another, seconds=60)
        assert keeper.health.last_end.startswith("hung: no answer for")


@pytest.mark.parametrize("how", ["answers", "accepts"])
async def test_a_loop_that_answers_is_left_alone(tmp_path: Path, how: str) -> None:
    said: list[str] = []
    async with kept(tmp_path, how, said) as keeper:
        asked = asyncio.get_running_loop().time() + 10 * 0.3

        async def long_enough() -> bool:
            return asyncio.get_running_loop().time() > asked

        await eventually(long_enough)
        assert (keeper.health.starts, keeper.health.state) == (1, "running")
    assert not any("has not answered" in line for line in said)


async def test_periods_in_which_the_parent_did_not_run_count_for_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        heartbeat = Heartbeat(ours, Liveness(period=0.02, failures=2), lambda: False)
        hung = asyncio.create_task(heartbeat.hung())
        await asyncio.sleep(0)
        for _ in range(10):
            # As if this process had been stopped: nothing of its loop runs.
            time.sleep(0.1)  # noqa: ASYNC251
            for _ in range(5):
                await asyncio.sleep(0)
        assert not hung.done()
        assert theirs.recv(100).startswith(ASK * 5)
        # From here on it runs, and silence counts.
        assert await asyncio.wait_for(hung, 30) >= 0.04


@pytest.mark.long
@pytest.mark.parametrize("name", ["apiserver", "controller-manager", "node"])
async def test_a_role_that_is_stopped_is_replaced_and_no_pod_notices(tmp_path: Path, name: str) -> None:
    with UpPlane(tmp_path, "--liveness-period", "1s") as plane:
        await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
        pod = await pod_once(plane)
        pid = program_of(plane, pod)
        stopped = plane.role(name)["pid"]
        os.kill(stopped, signal.SIGSTOP)
        try:

            async def back() -> bool:
                role = plane.role(name)
                return bool(role["pid"] != stopped and role["state"] == "running")

            await eventually(back, seconds=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
        assert f"{name} has not answered for 3 s, though its process {stopped} exists" in plane.output
        shown = plane.run("status", "--once").stdout
        assert "LAST EXIT" in shown
        assert "hung: no answer for 3 s" in shown
        assert not lives(stopped)
        await node_is_ready(plane)
        assert (await pod_once(plane))["metadata"]["uid"] == pod["metadata"]["uid"]
        assert lives(pid)
        await plane.kubectl("scale", "statefulset", "web", "--replicas=2")
        await pod_once(plane, name="web-1")
