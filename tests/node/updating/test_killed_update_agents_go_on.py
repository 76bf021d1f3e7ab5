"""An update agent is killed with SIGKILL at each phase of its journal; the next one brings the turn to its end."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.managed_programs import Behaviour, program
from tests.kit.payload_server import PayloadServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.node.updating.machine import UpdatedMachine, updated_machine

from pilothouse.base.clock import SystemClock
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

CHAIN = ["Downloading", "Cordoning", "ApplyingUpdate", "Restart", "UnCordoning", "Completed"]
WORKS = ["Accepted", "Downloaded", "Keeping", "Swapping", "Restarting", "Checking", "Verified"]
FAILS = ["Reverting", "Reverted", "Ended"]
QUICK = ("after Swapping", "before Checking", "after Reverting")
"""The others take minutes together."""
POINTS = [
    pytest.param(point, behaviour, marks=() if point in QUICK else pytest.mark.long)
    for behaviour, phases in (("works", WORKS), ("crashes", FAILS))
    for phase in phases
    for point in (f"before {phase}", f"after {phase}")
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path_factory.mktemp("server"), "memory")
    yield server
    server.close()


def start(machine: UpdatedMachine, server: PilothouseServer, at: str = "") -> Process:
    profile = machine.folder / "profile.json"
    profile.write_text(json.dumps(machine.profile_tree()))
    argv = [sys.executable, "-m", "tests.node.updating.dying_update_agent"]
    argv += ["--kubeconfig", str(server.target.kubeconfig), "--data", str(machine.data)]
    argv += ["--profile", str(profile), *(("--at", at) if at else ())]
    return Process.start("update agent", argv, log=machine.folder / "agent.log")


@pytest.mark.parametrize(("point", "behaviour"), POINTS)
async def test_a_killed_agent_is_succeeded_k0s_A22(
    tmp_path: Path, server: PilothouseServer, point: str, behaviour: Behaviour
) -> None:
    clock = SystemClock()
    async with HttpTransport.open(load(server.target.kubeconfig), clock, agent="tester") as transport:
        with PayloadServer.running() as payloads:
            machine = UpdatedMachine(transport, tmp_path, payloads, "worker")
            machine.install(program("v1.0.0"))
            await machine.create_objects()
            machine.start_leader()
            agent = start(machine, server, point)
            try:
                await machine.answers("v1.0.0")
                machine.serve("v2.0.0", program("v2.0.0", behaviour=behaviour))
                await machine.order("v2.0.0")
                await machine.signal()
                # It dies by its own hand, in the middle of the turn.
                assert await asyncio.to_thread(agent.popen.wait, 30) == -9
                agent = start(machine, server)
                ended = await machine.until("Completed", "Failed", "FailedDownload")
                assert ended.step == ("Completed" if behaviour == "works" else "Failed"), ended
                steps = await machine.noted(ended.step)
                assert steps == (CHAIN if behaviour == "works" else [*CHAIN[:4], "Failed"])
                await machine.answers("v2.0.0" if behaviour == "works" else "v1.0.0")
                kept = machine.path.with_name(".db.kept").read_bytes()
                assert kept == program("v1.0.0")
                assert machine.left_beside() == []
            finally:
                await asyncio.to_thread(agent.kill)
                await machine.close()
                await machine.delete_objects()


@pytest.mark.parametrize("step", ["Downloading", "Cordoning", "UnCordoning"])
async def test_a_lost_journal_does_not_strand_the_machine(tmp_path: Path, step: str) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.holds = {step}
        machine.serve("v2.0.0", program("v2.0.0"), stall_after=100, faults=1 if step == "Downloading" else 0)
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until(step)
        await machine.stop_agent()
        (machine.data / "program.json").unlink(missing_ok=True)
        machine.start_agent()
        if step != "Downloading":
            await machine.move({"Cordoning": "ApplyingUpdate", "UnCordoning": "Completed"}[step])
        await machine.until("Completed")
        assert await machine.noted("Completed") == CHAIN
        await machine.answers("v2.0.0")


async def test_a_damaged_journal_is_put_aside(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, agent=False) as machine:
        machine.data.mkdir()
        (machine.data / "program.json").write_text("{")
        machine.start_agent()
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("Completed")
        assert (machine.data / "program.json.unreadable").read_text() == "{"


async def test_a_conflict_when_the_restart_is_reported_replaces_nothing_twice_k0s_A23(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        inodes: list[int] = []

        async def disturb() -> None:
            inodes.append(machine.path.stat().st_ino)
            await machine.annotate({"example.com/touched": str(len(inodes))})

        machine.transport.before["Restart"] = disturb
        await machine.signal()
        await machine.until("Completed")
        assert await machine.noted("Completed") == CHAIN
        assert inodes == [machine.path.stat().st_ino]
        assert 409 in machine.transport.statuses
        assert machine.left_beside() == []
