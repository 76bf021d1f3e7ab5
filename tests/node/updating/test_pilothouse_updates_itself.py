"""The agent is part of what it replaces: it restarts itself, and what was begun goes on in the next process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.payload_server import PayloadServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.kit.program_trees import entry, installed, payload
from tests.kit.waiting import eventually
from tests.node.updating.machine import UpdatedMachine
from tests.node.updating.tree_agent import DIES_AT, Behaviour, agent_program

from pilothouse.base.clock import SystemClock
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.node.updating.installed_tree import InstalledTree

WORKS = ["Accepted", "Downloaded", "Keeping", "Swapping", "Restarting", "Checking", "Verified"]
LIES = ["Reverting", "Reverted", "Ended"]
QUICK = ("after Swapping",)
"""The others take minutes together."""
POINTS = [
    pytest.param(point, reports, marks=() if point in QUICK else pytest.mark.long)
    for reports, phases in (("v2.0.0", WORKS), ("v0.9.0", LIES))
    for phase in phases
    for point in (f"before {phase}", f"after {phase}")
]
CHAIN = ["Downloading", "Cordoning", "ApplyingUpdate", "Restart", "UnCordoning", "Completed"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path_factory.mktemp("server"), "memory")
    yield server
    server.close()


def tree(version: str, behaviour: Behaviour = "works", *, reports: str = "", healthy: bool = True) -> bytes:
    health = entry(
        "bin/health", f"#!/bin/sh\n{'exit 0' if healthy else 'echo not well >&2; exit 1'}\n".encode()
    )
    return payload(version, agent_program(version, behaviour=behaviour, reports=reports), entries=[health])


class OwnMachine:
    """A machine whose agent is in a tree; a service manager starts it again whenever it ends."""

    def __init__(self, machine: UpdatedMachine, files: InstalledTree, root: Path) -> None:
        self.machine = machine
        self.files = files
        self.root = root
        self.pids: list[int] = []

    async def supervise(self, server: PilothouseServer) -> None:
        machine = self.machine
        profile = machine.folder / "profile.json"
        text = {
            "tree": str(self.root),
            "health": ["{path}/bin/health"],
            "healthFor": "100ms",
            "healthWithin": "500ms",
        }
        profile.write_text(json.dumps(text))
        argv = [str(self.root / "bin" / "pilothouse"), "node", "--kubeconfig", str(server.target.kubeconfig)]
        argv += ["--data", str(machine.data), "--profile", str(profile)]
        while True:
            process = Process.start("agent", argv, log=machine.folder / "agent.log")
            self.pids.append(process.pid)
            try:
                await asyncio.to_thread(process.popen.wait)
            finally:
                process.kill()

    def starts(self) -> list[str]:
        file = self.root / "starts"
        return file.read_text().split() if file.exists() else []

    async def update(self, version: str, content: bytes) -> str:
        """Order a version; returns the step and the reason with which its turn ends."""
        self.machine.serve(version, content)
        await self.machine.order(version)
        await self.machine.signal()
        ended = await self.machine.until("Completed", "Failed", "FailedDownload")
        assert ended.status is not None
        return f"{ended.step}: {ended.status.reason}" if ended.status.reason else ended.step


@asynccontextmanager
async def own_machine(
    folder: Path, server: PilothouseServer, *, dies_at: str = ""
) -> AsyncIterator[OwnMachine]:
    root = folder / "root"
    async with HttpTransport.open(load(server.target.kubeconfig), SystemClock(), agent="tester") as transport:
        with PayloadServer.running() as payloads:
            machine = UpdatedMachine(transport, folder, payloads, "worker")
            await machine.create_objects()
            machine.start_leader()
            own = OwnMachine(machine, await installed(root, "v1.0.0", tree("v1.0.0")), root)
            if dies_at:
                machine.data.mkdir(parents=True, exist_ok=True)
                (machine.data / DIES_AT).write_text(dies_at)
            supervisor = asyncio.create_task(own.supervise(server))
            try:
                yield own
            finally:
                supervisor.cancel()
                await asyncio.gather(supervisor, return_exceptions=True)
                await machine.close()
                await machine.delete_objects()


async def test_an_agent_goes_on_as_the_version_that_it_has_installed(
    tmp_path: Path, server: PilothouseServer
) -> None:
    async with own_machine(tmp_path, server) as own:
        assert await own.update("v2.0.0", tree("v2.0.0")) == "Completed"
        assert await own.machine.noted("Completed") == CHAIN
        assert own.starts() == ["v1.0.0", "v2.0.0"]
        # It replaced itself in place: its service manager has not noticed.
        assert len(own.pids) == 1
        assert await own.files.digest() == own.machine.digest("v2.0.0")
        assert not (own.root / "trial.json").exists()
        node = await own.machine.api.get(own.machine.noun, "m1")
        assert node.annotations["autopilot.k0sproject.io/version"] == "v2.0.0"
        # And back, when the run is rolled back.
        await own.machine.patch_plan({"rollingBack": True})
        await own.machine.signal(rollback=True)
        await own.machine.until("Completed")
        assert own.starts() == ["v1.0.0", "v2.0.0", "v1.0.0"]


@pytest.mark.parametrize("behaviour", ["crashes", pytest.param("syntax error", marks=pytest.mark.long)])
async def test_a_version_that_does_not_start_is_taken_back_by_the_launcher(
    tmp_path: Path, server: PilothouseServer, behaviour: Behaviour
) -> None:
    async with own_machine(tmp_path, server) as own:
        ended = await own.update("v2.0.0", tree("v2.0.0", behaviour))
        assert ended == "Failed: node was started 3 times, and did not prove to work; back at v1.0.0"
        if behaviour == "crashes":
            assert own.starts() == ["v1.0.0", "v2.0.0", "v2.0.0", "v2.0.0", "v1.0.0"]
        assert (await own.machine.noted("Failed"))[-2:] == ["Restart", "Failed"]

        async def removed() -> bool:
            return len(list((own.root / "versions").iterdir())) == 1

        await eventually(removed)


async def test_a_version_that_reports_another_one_takes_itself_back(
    tmp_path: Path, server: PilothouseServer
) -> None:
    async with own_machine(tmp_path, server) as own:
        ended = await own.update("v2.0.0", tree("v2.0.0", reports="v0.9.0"))
        assert ended == "Failed: it reports the version v0.9.0, not v2.0.0; back at v1.0.0"
        assert own.starts() == ["v1.0.0", "v2.0.0", "v1.0.0"]
        assert len(own.pids) == 1


@pytest.mark.long
async def test_a_version_that_stays_unhealthy_takes_itself_back(
    tmp_path: Path, server: PilothouseServer
) -> None:
    async with own_machine(tmp_path, server) as own:
        ended = await own.update("v2.0.0", tree("v2.0.0", healthy=False))
        assert ended.startswith("Failed: it is not healthy: ")
        assert "not well" in ended
        assert ended.endswith("; back at v1.0.0")
        # What worked is still kept: the next update returns to it, too.
        ended = await own.update("v3.0.0", tree("v3.0.0", "crashes"))
        assert ended.endswith("; back at v1.0.0")
        assert await own.update("v4.0.0", tree("v4.0.0")) == "Completed"


async def test_a_payload_that_is_no_tree_is_refused_before_the_drain(
    tmp_path: Path, server: PilothouseServer
) -> None:
    async with own_machine(tmp_path, server) as own:
        ended = await own.update("v2.0.0", b"#!/bin/sh\n")
        assert ended.startswith("FailedDownload: ")
        assert "can't be unpacked: .payload.update is not a readable tar or zip archive" in ended
        assert await own.machine.noted("FailedDownload") == ["Downloading", "FailedDownload"]
        assert own.starts() == ["v1.0.0"]


@pytest.mark.long
async def test_an_agent_that_is_killed_on_trial_goes_on(tmp_path: Path, server: PilothouseServer) -> None:
    async with own_machine(tmp_path, server) as own:
        own.machine.serve("v2.0.0", tree("v2.0.0"))
        await own.machine.order("v2.0.0")
        await own.machine.signal()

        async def is_on_trial() -> bool:
            return own.starts() == ["v1.0.0", "v2.0.0"]

        await eventually(is_on_trial)
        # Its interpreter has hardly begun.
        os.kill(own.pids[-1], signal.SIGKILL)
        await own.machine.until("Completed")
        assert await own.machine.noted("Completed") == CHAIN
        assert own.starts() == ["v1.0.0", "v2.0.0", "v2.0.0"]
        assert len(own.pids) == 2


@pytest.mark.parametrize(("point", "reports"), POINTS)
async def test_an_agent_that_is_killed_at_any_phase_is_succeeded(
    tmp_path: Path, server: PilothouseServer, point: str, reports: str
) -> None:
    async with own_machine(tmp_path, server, dies_at=point) as own:
        ended = await own.update("v2.0.0", tree("v2.0.0", reports=reports))
        assert not (own.machine.data / DIES_AT).exists(), "it was killed"
        assert len(own.pids) == 2
        works = reports == "v2.0.0"
        assert ended == (
            "Completed" if works else "Failed: it reports the version v0.9.0, not v2.0.0; back at v1.0.0"
        )
        assert await own.machine.noted(ended.partition(":")[0]) == (
            CHAIN if works else [*CHAIN[:4], "Failed"]
        )
        assert own.starts()[-1] == ("v2.0.0" if works else "v1.0.0")
        assert (await own.files.digest() == own.machine.digest("v2.0.0")) is works
        assert not (own.root / "trial.json").exists()
