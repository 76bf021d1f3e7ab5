"""What a running manager and the commands say about a plan: figures, budgets, reasons, and what it may not update."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.running import pilothouse
from tests.kit.managers import shown, started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.plan_fleet import EVERY, control_node, node, static, update
from tests.kit.processes import Process
from tests.kit.waiting import eventually

from pilothouse.api.k0s.signals import read_signal
from pilothouse.api.kind_names import ControlNode, Node, Plan, Pod, PodDisruptionBudget
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

BUDGET: Tree = {
    "apiVersion": PodDisruptionBudget.api_version,
    "kind": PodDisruptionBudget.kind,
    "metadata": {"name": "db", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
}


class Plane(NamedTuple):
    kubeconfig: Path
    manager: Process


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """A server, and a manager that lets no plan update controllers."""
    with ExitStack() as stack:
        server = PilothouseServer(tmp_path / "server", "sqlite")
        stack.callback(server.close)
        kubeconfig = server.target.kubeconfig
        own = kubeconfig.with_name("controller-manager.kubeconfig")
        manager = started(own, tmp_path, "--no-leader-elect", "--exclude-from-plans=controller")
        stack.callback(manager.kill)
        yield Plane(kubeconfig, manager)


@asynccontextmanager
async def client(kubeconfig: Path) -> AsyncIterator[Api]:
    async with HttpTransport.open(load(kubeconfig), SystemClock(), agent="test") as transport:
        yield Api(transport, random.Random(), manager="test")


def plan(command: Tree) -> Tree:
    metadata = {"name": "autopilot"}
    return {
        "apiVersion": Plan.api_version,
        "kind": "Plan",
        "metadata": metadata,
        "spec": {"commands": [command]},
    }


async def with_status(api: Api, tree: Tree) -> None:
    noun = {"Node": Node, "Pod": Pod}[tree["kind"]]
    metadata = tree["metadata"]
    await api.create(noun, tree)
    status = {"status": tree["status"]}
    await api.patch(noun, metadata["name"], metadata.get("namespace", ""), status, subresource="status")


def database_pod(name: str, machine: str) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "db"}},
        "spec": {"nodeName": machine, "containers": [{"name": "db", "image": "db"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


async def said(plane: Plane, *words: str, until: Callable[[str], bool]) -> str:
    """What a command prints once it says so."""

    last = ""

    async def look() -> bool:
        nonlocal last
        done = await asyncio.to_thread(pilothouse, *words, "--kubeconfig", str(plane.kubeconfig))
        assert (done.returncode, done.stderr) == (0, "")
        last = done.stdout
        return until(last)

    try:
        await eventually(look, seconds=60)
    except AssertionError:
        pytest.fail(f"{' '.join(words)} prints:\n{last}")
    return last


async def figures(plane: Plane, *lines: str) -> None:
    """Wait until the manager's page of metrics has these lines."""

    async def look() -> bool:
        status, text = await asyncio.to_thread(shown, plane.manager, "/metrics")
        return status == 200 and set(lines) <= set(text.splitlines())

    await eventually(look)


async def test_a_plan_is_counted_and_explained_while_a_budget_holds_it(plane: Plane) -> None:
    async with client(plane.kubeconfig) as api:
        for name in ("w0", "w1"):
            await with_status(api, node(name))
        await with_status(api, database_pod("db-0", "w0"))
        await api.create(PodDisruptionBudget, BUDGET)
        table = await said(plane, "disruptions", until=lambda text: "0        1/1" in text)
        assert [line.split() for line in table.splitlines()] == [
            ["NAMESPACE", "BUDGET", "ALLOWED", "HEALTHY", "POD", "STATE", "BY", "SINCE", "WHY"],
            ["default", "db", "0", "1/1", "-"],
        ]
        await api.create(Plan, plan(update(workers=EVERY, forceupdate=True)))

        async def signalled() -> Object | None:
            found = await api.get(Node, "w0")
            return found if read_signal(found.annotations) is not None else None

        found = await eventually(signalled)
        signal = read_signal(found.annotations)
        assert signal is not None
        cordoning = signal.advanced("Cordoning", signal.created).annotations()
        await api.patch(Node, "w0", "", {"metadata": {"annotations": cordoning}})

        waiting = "Plan autopilot:\n  waiting (for "
        explained = await said(plane, "why", "plan/autopilot", until=lambda text: waiting in text)
        assert "workers in progress: w0 (Cordoning)\n" in explained
        held = "pod default/db-0: disruption budget db needs 1 healthy pods and has 1"
        await said(plane, "plan", "status", until=lambda text: held in text)
        command = 'plan="autopilot",command="0/k0supdate",part="workers"'
        await figures(
            plane,
            'pilothouse_plan_state{plan="autopilot",state="SchedulableWait"} 1',
            'pilothouse_plan_state{plan="autopilot",state="Completed"} 0',
            f'pilothouse_plan_targets{{{command},state="SignalSent"}} 1',
            f'pilothouse_plan_targets{{{command},state="SignalPending"}} 1',
            f'pilothouse_plan_targets_in_progress{{{command},step="Cordoning"}} 1',
        )


async def test_a_plan_for_machines_that_the_manager_excludes_is_restricted(plane: Plane) -> None:
    async with client(plane.kubeconfig) as api:
        await api.create(ControlNode, control_node("c0"))
        await api.create(Plan, plan(update(controllers=static("c0"), forceupdate=True)))
        explained = await said(plane, "why", "plan/autopilot", until=lambda text: "Restricted" in text)
        assert "the controller-manager excludes controllers from plans (--exclude-from-plans)" in explained
        found = await api.get(Plan, "autopilot")
        assert found.status["state"] == "Restricted"
        assert read_signal((await api.get(ControlNode, "c0")).annotations) is None
        await figures(plane, 'pilothouse_plan_state{plan="autopilot",state="Restricted"} 1')
