"""``pilothouse plan`` against a server and a manager, as a user runs it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import pilothouse
from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.plan_fleet import EVERY, NEW, node, static, update
from tests.kit.waiting import eventually

from pilothouse.api.k0s.signals import read_signal
from pilothouse.api.kind_names import Node, Plan
from pilothouse.api.objects import Object
from pilothouse.app.plan_commands import follow_plan
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig of a server with a manager."""
    folder = tmp_path_factory.mktemp("plane")
    with ExitStack() as stack:
        server = PilothouseServer(folder / "server", "sqlite")
        stack.callback(server.close)
        kubeconfig = server.target.kubeconfig
        own = kubeconfig.with_name("controller-manager.kubeconfig")
        process = started(own, folder, "--no-leader-elect")
        stack.callback(process.kill)
        yield kubeconfig


@asynccontextmanager
async def client(kubeconfig: Path) -> AsyncIterator[Api]:
    async with HttpTransport.open(load(kubeconfig), SystemClock(), agent="test") as transport:
        yield Api(transport, random.Random(), manager="test")


def plan(*names: str) -> dict[str, Any]:
    command = update(workers=static(*names) if names else EVERY, forceupdate=True)
    return {
        "apiVersion": Plan.api_version,
        "kind": "Plan",
        "metadata": {"name": "autopilot"},
        "spec": {"commands": [command]},
    }


async def add_workers(api: Api, *names: str) -> None:
    for name in names:
        tree = node(name)
        await api.create(Node, tree)
        await api.patch(Node, name, "", {"status": tree["status"]}, subresource="status")


def ran(kubeconfig: Path, *words: str) -> tuple[int, str]:
    done = pilothouse("plan", *words, "--kubeconfig", str(kubeconfig))
    return done.returncode, done.stdout + done.stderr


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async def seen() -> bool | None:
        return await look() or None

    await eventually(seen, seconds=60)


async def test_a_plan_is_previewed_watched_paused_resumed_and_aborted(admin: Path, tmp_path: Path) -> None:
    assert ran(admin, "status") == (1, "There is no plan named autopilot.\n")
    file = tmp_path / "plan.json"
    async with client(admin) as api:
        await add_workers(api, "w0", "w1")

        file.write_text(json.dumps(plan()))
        code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
        assert code == 0
        assert f"1. workers to {NEW}, 1 at a time: 2 machines\n   w0, w1\n" in said
        assert await api.find(Plan, "autopilot") is None

        code, said = await asyncio.to_thread(
            ran, admin, "preview", str(file), "--simulate", "--seeds", "2", "--download", "30s"
        )
        assert code == 0
        assert "Simulated 2 runs:\n  assumed: download 30s to 30s, " in said
        assert "  ends as Completed in 2 of 2 runs: every target is updated\n" in said
        assert await api.find(Plan, "autopilot") is None
        simulated = ("--simulate", "--seeds", "1", "--failing", "100", "-o", "json")
        printed = await asyncio.to_thread(
            pilothouse, "plan", "preview", str(file), *simulated, "--kubeconfig", str(admin)
        )
        assert printed.returncode == 1
        assert "simulating 1 run …\n" in printed.stderr
        told = json.loads(printed.stdout)
        assert [run["state"] for run in told["simulation"]["runs"]] == ["ApplyFailed"]
        assert told["assumed"]["failing"] == 1

        file.write_text(json.dumps(plan("ghost")))
        code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
        assert (code, "IncompleteTargets" in said, "ghost" in said) == (1, True, True)

        await api.create(Plan, plan())

        async def signalled() -> bool:
            return read_signal((await api.get(Node, "w0")).annotations) is not None

        await until(signalled)
        code, said = await asyncio.to_thread(ran, admin, "status")
        assert code == 0
        assert "0/2 done" in said
        assert f"workers to {NEW}: 1 in progress, 1 pending" in said

        code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
        assert "IncompleteTargets" in said
        file.write_text(json.dumps(plan("w1")))
        code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
        assert (code, "a run is in progress" in said) == (0, True)

        assert (await asyncio.to_thread(ran, admin, "pause"))[0] == 0
        assert (await api.get(Plan, "autopilot")).at("spec", "rollout", "paused") is True
        assert (await asyncio.to_thread(ran, admin, "resume"))[0] == 0
        assert (await api.get(Plan, "autopilot")).at("spec", "rollout", "paused") is False
        code, said = await asyncio.to_thread(ran, admin, "abort")
        assert (code, said) == (
            0,
            "plan autopilot aborted: it ends when machines in progress have finished\n",
        )

        watching = asyncio.create_task(asyncio.to_thread(ran, admin, "status", "--watch"))
        found = await api.get(Node, "w0")
        signal = read_signal(found.annotations)
        assert signal is not None
        done = signal.advanced("Completed", signal.created).annotations()
        await api.patch(Node, "w0", "", {"metadata": {"annotations": done}})
        code, said = await watching
        assert code == 1, "it was aborted"
        assert "ApplyFailed, 1/2 done" in said
        assert "Failed (Aborted): the plan was aborted" in said

        code, said = await asyncio.to_thread(ran, admin, "abort")
        assert (code, said) == (
            0,
            "plan autopilot aborted: no run is in progress, and none starts until spec.rollout.aborted is false\n",
        )

        # Neither resume nor a file without the field ends that.
        code, said = await asyncio.to_thread(ran, admin, "resume")
        assert (code, said) == (
            0,
            "plan autopilot resumed; it is aborted, and no run starts until spec.rollout.aborted is false\n",
        )
        file.write_text(json.dumps(plan("w1")))
        code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
        assert code == 0
        assert "Held now: spec.rollout.aborted is true on the server, and stays so" in said
        allowed = plan("w1")
        allowed["spec"]["rollout"] = {"aborted": False}
        file.write_text(json.dumps(allowed))
        code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
        assert "Held now" not in said


@pytest.mark.long
async def test_a_plan_is_followed_while_its_only_server_restarts(tmp_path: Path) -> None:
    server = PilothouseServer(tmp_path / "server", "sqlite")
    kubeconfig = server.target.kubeconfig
    shown: list[Object | None] = []

    def is_marked(mark: str) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return bool(shown) and shown[-1] is not None and shown[-1].annotations.get("mark") == mark

        return look

    try:
        async with client(kubeconfig) as api:
            await api.create(Plan, plan())
            following = asyncio.create_task(follow_plan(load(kubeconfig), shown.append))
            for mark in ("ended", "killed"):
                await api.patch(Plan, "autopilot", "", {"metadata": {"annotations": {"mark": f"not {mark}"}}})
                await until(is_marked(f"not {mark}"))
                await asyncio.to_thread(server.process.end if mark == "ended" else server.process.kill)
                await asyncio.to_thread(server.revive)
                await api.patch(Plan, "autopilot", "", {"metadata": {"annotations": {"mark": mark}}})
                await until(is_marked(mark))
            await api.delete(Plan, "autopilot", "")
            assert await following is None
    finally:
        server.close()


async def test_a_plan_that_the_server_refuses_is_not_previewed(admin: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    broken = plan()
    broken["spec"]["rollout"] = {"soak": "long"}
    file.write_text(json.dumps(broken))
    code, said = await asyncio.to_thread(ran, admin, "preview", str(file))
    assert code == 1
    assert "spec.rollout.soak" in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "can't be read"),
        ("kind: Pod", "it has no Plan"),
        ("{kind: Plan, metadata: {name: foo}}", "only the plan named autopilot"),
    ],
)
def test_a_file_without_a_plan(admin: Path, tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    code, said = ran(admin, "preview", str(file))
    assert code == 1
    assert problem in said
    assert str(file) in said
