"""What is run inside a container that runs already, as by `kubectl exec` and exec probes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.containers import ENV, PLAIN_VIEW, Box, alive_with, needs_root, with_mounts
from tests.kit.waiting import eventually

from pilothouse.supervise.containers import Container
from pilothouse.supervise.launch_spec import LaunchError, Mount, ProcessUser

AGENT = """
import asyncio, sys, pathlib
from pilothouse.supervise.containers import adopt

async def main():
    container = await adopt(pathlib.Path(sys.argv[1]))
    await container.enter(["sleep", "1000"], env={"PATH": "/bin", "MARK": sys.argv[2]})
    print("up", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def spawn_agent(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", AGENT, *arguments], stdout=subprocess.PIPE)


async def run(container: Container, script: str, **fields: Any) -> tuple[int, str, str]:
    entered = await container.enter(["/bin/sh", "-c", script], **fields)
    assert entered.stderr is not None
    out, err, code = await asyncio.gather(entered.stdout.read(), entered.stderr.read(), entered.exited())
    await entered.close()
    return code, out.decode(), err.decode()


async def test_output_and_exit_code_come_back(box: Box) -> None:
    container = await box.run("sleep", "1000")
    assert await run(container, "echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")
    assert await run(container, "kill -9 $$") == (137, "", "")
    assert box.lines(container) == [], "the container's own log is its own program's"


async def test_it_has_the_environment_and_folder_of_the_container(box: Box, tmp_path: Path) -> None:
    container = await box.run("sleep", "1000", env=ENV | {"COLOUR": "red"}, cwd=str(tmp_path))
    assert await run(container, "echo $COLOUR; pwd") == (0, f"red\n{tmp_path}\n", "")
    assert await run(container, "echo $COLOUR; pwd", env={"COLOUR": "blue"}, cwd="/") == (0, "blue\n/\n", "")


async def test_it_sees_what_the_container_sees(views: Box, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello\n")
    view = with_mounts(PLAIN_VIEW, hostname="db-0", mounts=(Mount(str(tmp_path), "/data"),))
    container = await views.run("sleep", "1000", view=view)
    assert await run(container, "cat /data/file; hostname; cat /proc/1/comm") == (
        0,
        "hello\ndb-0\nsleep\n",
        "",
    )


async def test_input_is_passed_in(box: Box) -> None:
    container = await box.run("sleep", "1000")
    entered = await container.enter(["sort"], stdin=True)
    assert entered.stdin is not None
    entered.stdin.write(b"b\na\n")
    await entered.stdin.drain()
    entered.stdin.close()
    assert await entered.stdout.read() == b"a\nb\n"
    assert await entered.exited() == 0
    await entered.close()


async def test_much_passes_both_ways(box: Box) -> None:
    container = await box.run("sleep", "1000")
    entered = await container.enter(["cat"], stdin=True)
    sent = os.urandom(3_000_000)

    async def type_in() -> None:
        assert entered.stdin is not None
        entered.stdin.write(sent)
        await entered.stdin.drain()
        entered.stdin.close()

    _, received = await asyncio.gather(type_in(), entered.stdout.read())
    assert received == sent
    await entered.close()


async def test_without_input_there_is_none(box: Box) -> None:
    container = await box.run("sleep", "1000")
    assert await run(container, "cat; echo done") == (0, "done\n", "")


async def test_it_is_killed_as_readily_as_the_container_when_memory_runs_out(box: Box) -> None:
    container = await box.run("sleep", "1000", oom_score_adj=700)
    entered = await container.enter(["cat", "/proc/self/oom_score_adj"])
    assert await entered.stdout.read() == b"700\n"
    await entered.close()


async def test_a_terminal_is_one(box: Box) -> None:
    container = await box.run("sleep", "1000")
    entered = await container.enter(["/bin/sh"], tty=True, stdin=True)
    entered.resize(33, 77)
    assert entered.stdin is not None
    assert entered.stderr is None
    entered.stdin.write(b"tty > /dev/null && stty size; exit 5\n")
    assert b"33 77\r\n" in await entered.stdout.read()
    assert await entered.exited() == 5
    await entered.close()


async def test_control_c_interrupts_what_runs_in_a_terminal(box: Box) -> None:
    container = await box.run("sleep", "1000")
    entered = await container.enter(
        ["/bin/sh", "-c", "trap 'echo interrupted; exit 9' INT; echo up; while :; do sleep 0.05; done"],
        tty=True,
        stdin=True,
    )
    assert entered.stdin is not None
    assert await entered.stdout.readline() == b"up\r\n"
    entered.stdin.write(b"\x03")
    assert b"interrupted" in await entered.stdout.read()
    assert await entered.exited() == 9
    await entered.close()


async def test_what_cannot_be_run_is_told(box: Box) -> None:
    container = await box.run("sleep", "1000")
    with pytest.raises(LaunchError, match="no-such: there is no such program") as failed:
        await container.enter(["no-such"])
    assert failed.value.reason == "ProgramNotFound"
    with pytest.raises(LaunchError) as failed:
        await container.enter(["/bin/true"], cwd="/no/such")
    assert failed.value.reason == "WorkingDirectoryRefused"


async def test_nothing_runs_in_a_container_that_has_ended(box: Box) -> None:
    container = await box.shell("exit 0")
    await container.exited()
    with pytest.raises(LaunchError, match="has ended") as failed:
        await container.enter(["/bin/true"])
    assert failed.value.reason == "NotRunning"


async def test_it_ends_with_the_container(views: Box) -> None:
    container = await views.run("sleep", "1000")
    entered = await container.enter(["sleep", "1000"])
    await container.stop(signal.SIGKILL, 0)
    async with asyncio.timeout(60):
        assert await entered.exited() == 137
    await entered.close()


async def test_it_ends_when_told(box: Box, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    container = await box.run("sleep", "1000")
    entered = await container.enter(["sleep", "1000"], env=ENV | {"MARK": marker})
    assert len(alive_with(marker)) == 1
    await entered.close()

    async def gone() -> bool:
        return alive_with(marker) == []

    await eventually(gone)


async def test_it_ends_with_the_agent(box: Box, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    container = await box.run("sleep", "1000")
    agent = spawn_agent(str(container.folder), marker.replace("/", "+"))
    assert agent.stdout is not None
    assert await asyncio.to_thread(agent.stdout.readline) == b"up\n"
    agent.kill()
    await asyncio.to_thread(agent.wait)
    agent.stdout.close()

    async def gone() -> bool:
        return alive_with("MARK=" + marker.replace("/", "+")) == []

    await eventually(gone)


@needs_root
async def test_it_runs_as_the_containers_user(box: Box) -> None:
    container = await box.run("sleep", "1000", user=ProcessUser(1234, 2345, (3456,)), capabilities=("CHOWN",))
    assert await run(container, "id -u; id -G; grep CapBnd /proc/self/status") == (
        0,
        "1234\n2345 3456\nCapBnd:\t0000000000000001\n",
        "",
    )


async def test_many_at_once(box: Box) -> None:
    container = await box.run("sleep", "1000")
    codes = await asyncio.gather(*(run(container, f"exit {number}") for number in range(12)))
    assert [code for code, _, _ in codes] == list(range(12))
