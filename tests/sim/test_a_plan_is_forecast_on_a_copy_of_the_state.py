"""``plan_forecast``: the objects of a server are copied into a simulation, and the plan runs there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from tests.kit.plan_fleet import EVERY, NEW, control_node, node, update

from pilothouse.api.k0s.v1beta2 import GateAnswer, PlanAnswers, ReadinessAnswer
from pilothouse.api.kind_names import KNOWN, ControlNode, Node, Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api
from pilothouse.sim.forked_state import FORKED, ForkedState
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.plan_forecast import ForecastTiming, PlanForecast, forecast
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.update_machines import UpdateTiming

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def pod(name: str, on: str) -> Tree:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u1", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"app": "db"},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": on, "containers": [{"name": "db", "image": "db"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def budget(*, needed: int) -> Tree:
    status = {
        "observedGeneration": 1,
        "desiredHealthy": needed,
        "currentHealthy": 3,
        "disruptionsAllowed": 3 - needed,
        "expectedPods": 3,
    }
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"maxUnavailable": 3 - needed, "selector": {"matchLabels": {"app": "db"}}},
        "status": status,
    }


def cluster(*, needed: int = 2) -> list[Tree]:
    """Three controllers, three workers, and a database with a budget."""
    workers = [node(f"w{number}") for number in range(3)]
    for each in workers:
        each["status"] |= {"allocatable": ROOM, "capacity": ROOM}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}},
        *(control_node(f"c{number}") for number in range(3)),
        *workers,
        *(pod(f"db-{number}", f"w{number}") for number in range(3)),
        budget(needed=needed),
    ]


def forked(trees: Sequence[Tree], *, not_ready: str = "", **rollout: Any) -> ForkedState:
    """The state of a server with these objects, and a plan over all of them."""
    command = update(controllers=EVERY, workers=EVERY)
    spec = {"commands": [command], "rollout": rollout}
    plan = {"apiVersion": Plan.api_version, "kind": "Plan", "metadata": {"name": "autopilot"}, "spec": spec}
    readiness = tuple(
        ReadinessAnswer(name=name, ready=name != not_ready, message="asked") for name in ("c0", "c1", "c2")
    )
    answers = PlanAnswers(
        number=1, readiness=readiness, gates=(GateAnswer(name="calm", open=False, message="shut"),)
    )

    async def copied(api: Api) -> ForkedState:
        for tree in trees:
            await create(api, tree)
        objects = [one for noun in FORKED for one in (await api.list(noun)).objects]
        wanted: Object = await api.create(Plan, plan, dry_run=True)
        return ForkedState.of(objects, wanted, answers, now=1_800_000_000.0)

    async def main() -> ForkedState:
        server = SimulatedServer(LoopClock(loop), seed=0)
        async with server.running():
            return await copied(server.api("test"))

    with SeededLoop(0) as loop:
        return loop.run_until_complete(main())


async def create(api: Api, tree: Tree) -> None:
    noun = KNOWN[tree["apiVersion"], tree["kind"]]
    metadata = tree["metadata"]
    namespace = metadata.get("namespace", "")
    await api.create(noun, tree)
    if status := tree.get("status"):
        await api.patch(noun, metadata["name"], namespace, {"status": status}, subresource="status")


def forecast_of(state: ForkedState, *, seeds: int = 1, seconds: float = 100.0, **timing: Any) -> PlanForecast:
    machines = UpdateTiming(**{"answer": (0.0, 1.0), "failing": 0.0, **timing})
    return forecast(state, seeds=seeds, timing=ForecastTiming(machines), until=time.monotonic() + seconds)


def test_a_plan_completes_without_costing_quorum_or_budget() -> None:
    found = forecast_of(forked(cluster()), seeds=2)
    assert [(run.state, run.description) for run in found.runs] == [
        ("Completed", "every target is updated")
    ] * 2
    assert (found.controllers, found.fewest_controllers) == (3, 2)
    [shown] = found.budgets
    assert (shown.name, shown.needed, shown.now, shown.fewest) == ("shop/db", 2, 3, 2)
    assert 0 < found.median_seconds <= found.worst_seconds
    assert len({run.seconds for run in found.runs}) > 1, "each seed takes its own time"


def test_a_seed_is_the_same_run_again() -> None:
    state = forked(cluster())
    assert forecast_of(state) == forecast_of(state)


def test_longer_downloads_take_longer() -> None:
    state = forked(cluster())
    quick, slow = (forecast_of(state, download=(each, each)) for each in (1.0, 100.0))
    assert slow.worst_seconds - quick.worst_seconds > 5 * 99, "six machines, one after the other"


def test_a_budget_that_allows_nothing_is_where_it_stops() -> None:
    found = forecast_of(forked(cluster(needed=3), nodeDeadline="5m"))
    [run] = found.runs
    assert run.state == "ApplyFailed"
    assert run.description.startswith("worker w0: it took longer than its nodeDeadline of 5m")
    assert "pod shop/db-0: disruption budget db needs 3 healthy pods and has 3" in run.description
    assert found.budgets[0].fewest == 3


def test_a_controller_that_is_not_ready_now_stays_so() -> None:
    found = forecast_of(forked(cluster(), not_ready="c1"))
    [run] = found.runs
    assert (run.state, run.description) == (
        "InconsistentTargets",
        "not every controller is ready: c1 (asked)",
    )
    assert found.fewest_controllers == 2


def test_a_gate_that_is_shut_is_what_it_waits_for() -> None:
    gate = {"name": "calm", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true", "when": "before"}
    state = forked(cluster(), gates=[gate], planDeadline="10m")
    [run] = forecast_of(state).runs
    assert (run.state, run.description) == (
        "ApplyFailed",
        "the plan has taken longer than its planDeadline of 10m",
    )


def test_time_that_is_up_leaves_fewer_runs() -> None:
    found = forecast_of(forked(cluster()), seeds=5, seconds=0.0)
    assert len(found.runs) < found.seeds == 5
    assert found.fewest_controllers == 3, "nothing was seen"


def test_what_other_plans_have_left_on_machines_does_not_count() -> None:
    """The plan of the copy has a generation that no signal has."""
    state = forked(cluster())
    plan = next(value for key, value in state.entries if "/plans/" in key)
    tree = msgspec.json.decode(plan)
    assert tree["metadata"]["generation"] == 2
    assert "status" not in tree
    assert {one.noun for one in state.objects} >= {ControlNode, Node}
    assert NEW not in {machine.version for machine in state.machines()}
