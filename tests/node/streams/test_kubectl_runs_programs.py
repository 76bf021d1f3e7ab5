from __future__ import annotations

import asyncio
import os
from hashlib import sha256
from pathlib import Path

from tests.kit.kubectl import Kubectl
from tests.kit.stream_node import StreamNode
from tests.kit.waiting import eventually
from tests.node.streams.terminals import on_a_terminal


async def test_output_and_errors_come_apart(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    ran = await kubectl("exec", "web", "--", "sh", "-c", "echo out; echo err >&2")
    assert (ran.ok(), ran.err) == ("out\n", "err\n")


async def test_the_exit_code_is_the_programs(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    ran = await kubectl("exec", "web", "--", "sh", "-c", "exit 7")
    assert ran.code == 7
    assert "exit code 7" in ran.err


async def test_input_reaches_the_program_and_ends(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    ran = await kubectl("exec", "-i", "web", "--", "wc", "-c", stdin="x" * 100_000)
    assert ran.ok().strip() == "100000"


async def test_many_bytes_come_back_as_they_were(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    text = "".join(f"{number:07d}\n" for number in range(400_000))
    assert (await kubectl("exec", "-i", "web", "--", "cat", stdin=text)).ok() == text


async def test_a_program_that_is_not_there(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    ran = await kubectl("exec", "web", "--", "no-such-program")
    assert ran.code != 0
    assert "no-such-program" in ran.err


async def test_nothing_runs_in_what_has_ended(kubectl: Kubectl, node: StreamNode) -> None:
    await node.ended("web", await node.start("web", "true"))
    ran = await kubectl("exec", "web", "--", "true")
    assert ran.code != 0
    assert 'container "main" of pod "web" is not running' in ran.err


async def test_a_terminal_is_one_and_has_a_size(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    async with on_a_terminal(kubectl, "exec", "-it", "web", "--", "sh", rows=33, columns=77) as terminal:
        # Its size comes beside what is typed, as with kubelet.
        await terminal.type("until [ \"$(stty size)\" = '33 77' ]; do sleep 0.05; done; stty size\n")
        await terminal.until("33 77\r\n")
        await terminal.type("tty -s && echo yes-a''-terminal\n")
        await terminal.until("yes-a-terminal")
        terminal.resize(44, 99)
        await terminal.type("until [ \"$(stty size)\" = '44 99' ]; do sleep 0.05; done; echo re''sized\n")
        await terminal.until("resized")
        await terminal.type("exit 5\n")
        assert await terminal.code() == 5


async def test_a_person_interrupts_with_control_c(kubectl: Kubectl, node: StreamNode) -> None:
    await node.start("web", "sleep 1000")
    async with on_a_terminal(kubectl, "exec", "-it", "web", "--", "sh") as terminal:
        await terminal.type(
            "trap 'echo inter''rupted; exit 7' INT; echo wai''ting; while :; do sleep 0.1; done\n"
        )
        await terminal.until("waiting")
        await terminal.type("\x03")
        await terminal.until("interrupted")
        assert await terminal.code() == 7


async def test_who_goes_away_takes_the_program_along(
    kubectl: Kubectl, node: StreamNode, tmp_path: Path
) -> None:
    await node.start("web", "sleep 1000")
    told = tmp_path / "pid"
    script = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 1000"
    async with kubectl.started("exec", "web", "--", "sh", "-c", script) as running:
        await eventually(lambda: asyncio.to_thread(told.exists))
        running.kill()
        await running.wait()
    pid = int(told.read_text())
    await eventually(lambda: asyncio.to_thread(lambda: not Path(f"/proc/{pid}").exists()))


async def test_files_are_copied_both_ways(kubectl: Kubectl, node: StreamNode, tmp_path: Path) -> None:
    await node.start("web", "sleep 1000")
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    there = tmp_path / "there"
    (await kubectl("cp", str(tmp_path / "here"), f"web:{there}")).ok()
    assert sha256(there.read_bytes()).digest() == sha256(data).digest()
    (await kubectl("cp", f"web:{there}", str(tmp_path / "back"))).ok()
    assert sha256((tmp_path / "back").read_bytes()).digest() == sha256(data).digest()
