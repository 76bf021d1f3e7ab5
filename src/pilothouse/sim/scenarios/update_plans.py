"""Plans that update controllers and workers, while users edit, pause, abort, delete and repeat them.

Rollouts have waves, limits, windows and gates that open and shut, and clocks jump by up to ten minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from pilothouse.api.k0s.signals import read_signal
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import ControlNode, Node, Plan, Pod, PodDisruptionBudget
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api
from pilothouse.controllers.control_node_silence import control_node_silence
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.drains.cordons import CORDONED_BY
from pilothouse.controllers.drains.drain_controller import drains
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import every
from pilothouse.controllers.plans.plan_controller import plans
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.scenarios.user_actions import SPACE, Do, create, delete, given_space, pod
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.update_machines import UpdateMachines, UpdateTiming, fresh_machines

CONTROLLERS: Final = ("c0", "c1", "c2")
WORKERS: Final = ("n0", "n1", "n2")
CORDONED: Final = "n2"
"""The node that a user cordons."""
_GATE: Final[Tree] = {"name": "calm", "apiVersion": "v1", "kind": "ConfigMap", "expression": "true"}
_RUNNING: Final = ("Schedulable", "SchedulableWait")


def plan_users(rng: Random) -> Sequence[UserAction]:
    """A plan is created, and then whatever users do to a plan that runs."""
    doing = [given_space()]
    for number in range(rng.randint(1, 4)):
        doing.append(UserAction(1, f"create pod p{number}", create(Pod, pod(f"p{number}", cpu=1))))
    if rng.random() < 0.5:
        budget: Tree = {
            "metadata": {"name": "web", "namespace": SPACE},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        doing.append(UserAction(1, "create the budget web", create(PodDisruptionBudget, budget)))
    if rng.random() < 0.5:
        doing.append(UserAction(5, f"cordon {CORDONED}", _cordon))
    doing.append(UserAction(10, "create the plan", create(Plan, _plan(rng, "v1.31.0"))))
    for number in range(rng.randint(0, 4)):
        doing.append(_plan_action(rng, f"v1.{32 + number}.0"))
    doing.append(UserAction(1, "resume the plan", _rollout(paused=False, aborted=False)))
    return doing


def _plan_action(rng: Random, version: str) -> UserAction:
    after = rng.uniform(1, 90)
    match rng.choice(("edit", "pause", "resume", "abort", "again", "delete")):
        case "edit":
            spec = _plan(rng, version)["spec"]
            return UserAction(
                after,
                f"edit the plan to {version}",
                lambda api: api.patch(Plan, RUNNING_PLAN, "", {"spec": spec}),
            )
        case "pause":
            return UserAction(after, "pause the plan", _rollout(paused=True))
        case "resume":
            return UserAction(after, "resume the plan", _rollout(paused=False))
        case "abort":
            return UserAction(after, "abort the plan", _rollout(aborted=True))
        case "delete":
            return UserAction(after, "delete the plan", delete(Plan, RUNNING_PLAN))
        case _:
            return UserAction(after, f"create the plan for {version}", create(Plan, _plan(rng, version)))


def _rollout(**fields: bool) -> Do:
    return lambda api: api.patch(Plan, RUNNING_PLAN, "", {"spec": {"rollout": fields}})


async def _cordon(api: Api) -> None:
    await api.patch(Node, CORDONED, "", {"spec": {"unschedulable": True}})


def _plan(rng: Random, version: str) -> Tree:
    everything: Tree = {"discovery": {"selector": {}}}
    workers = {**everything, "limits": {"concurrent": rng.choice((1, 2, "50%"))}}
    update = {
        "version": version,
        "platforms": {"linux-amd64": {"url": "https://updates.example.com/k0s"}},
        "targets": {"controllers": everything, "workers": workers},
        "forceupdate": rng.random() < 0.2,
    }
    rollout: Tree = {
        "nodeDeadline": "10m",
        "maxFailures": rng.choice((0, 0, 1)),
        "onNotReady": rng.choice(("end", "wait")),
        "onFailure": rng.choice(("stop", "rollback")),
        "drain": {"forceAfter": "30s"},
    }
    if rng.random() < 0.4:
        rollout["soak"] = "20s"
    if rng.random() < 0.4:
        rollout["maxUnavailable"] = rng.choice((1, 2, "50%"))
    if rng.random() < 0.4:
        first = rng.choice(WORKERS)
        rollout["waves"] = [{"name": "first", "selector": {"labels": f"kubernetes.io/hostname={first}"}}]
    if rng.random() < 0.4:
        rollout["windows"] = _windows(rng.randrange(10))
    if rng.random() < 0.4:
        rollout["gates"] = [{**_GATE, "when": rng.choice(("before", "during", "after"))}]
    return {
        "apiVersion": Plan.api_version,
        "kind": Plan.kind,
        "metadata": {"name": RUNNING_PLAN},
        "spec": {"id": "id123", "commands": [{"k0supdate": update}], "rollout": rollout},
    }


def _windows(minute: int) -> list[Tree]:
    """Windows around midnight, when a simulation begins, with pauses that are too short to count as rest."""
    starts = [f"{hour:02}:{minute + ten:02}" for hour in (23, 0, 1, 2) for ten in range(0, 60, 10)]
    return [{"startTime": start, "length": "9m20s"} for start in starts]


async def plans_settled(api: Api) -> str:
    """The plan has ended; if it is complete, every machine runs its version. No machine is left half-way."""
    nodes = (await api.list(Node)).objects
    controllers = (await api.list(ControlNode)).objects
    if len(controllers) != len(CONTROLLERS):
        return f"there are {len(controllers)} controllers"
    for each in controllers:
        if not each.is_true("Ready"):
            return f"controller {each.name} is taken for silent: {each.condition('Ready')}"
    for node in nodes:
        if CORDONED_BY in node.annotations:
            return f"node {node.name} is still cordoned by a plan"
    for machine in (*controllers, *nodes):
        signal = read_signal(machine.annotations)
        if signal is not None and signal.step and not signal.ended:
            return f"{machine.name} is left at {signal.step}"
    plan = await api.find(Plan, RUNNING_PLAN)
    if plan is None:
        return ""
    state = plan.status.get("state") or ""
    aborted = plan.at("spec", "rollout", "aborted", default=False)
    if state in _RUNNING and _waits_for_uncordoning(plan, nodes):
        return ""
    if state in _RUNNING or (not state and not aborted):
        return f"the plan has not ended: {plan.status}"
    if state == "Completed":
        version = plan.at("status", "spec", "commands")[0]["k0supdate"]["version"]
        for each in controllers:
            if each.status.get("k0sVersion") != version:
                return f"the plan is complete, and {each.name} runs {each.status.get('k0sVersion')}"
    return ""


def _waits_for_uncordoning(plan: Object, nodes: Sequence[Object]) -> bool:
    """Whether the plan says that the node of that user takes the last place of ``maxUnavailable``."""
    progressing = plan.condition("Progressing") or {}
    cordoned = any(node.name == CORDONED and node.spec.get("unschedulable") for node in nodes)
    return cordoned and progressing.get("reason") == "TooManyUnavailable"


def _machines(server: SimulatedServer, clock: LoopClock, rng: Random) -> UpdateMachines:
    machines = fresh_machines(CONTROLLERS, WORKERS)
    return UpdateMachines(server.api("machines"), machines, clock, rng, timing=UpdateTiming(shutting=0.2))


PLANS = Scenario(
    "plans",
    (plans(), drains, control_node_silence, disruption_budgets, scheduling, garbage, service_accounts),
    plan_users,
    plans_settled,
    every(),
    nodes=len(WORKERS),
    clock_jump=600.0,
    outside=_machines,
)
