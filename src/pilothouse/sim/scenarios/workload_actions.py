"""A set whose pods have Pilots is scaled and gets other resources, by actions and by hand; actions are posted
to webhooks, and policies become rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import (
    ApplicationAction,
    ApplicationPolicy,
    AutopilotRule,
    Pilot,
    Pod,
    StatefulSet,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import RESOURCES, SCALE
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.api.policies.expansion import expand
from pilothouse.client.api import Api
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.action_invariants import ACTION_INVARIANTS
from pilothouse.controllers.application_policies import application_policies
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.piloted_sets import PilotedSets
from pilothouse.sim.scenarios.fired_actions import actions_ended, fire
from pilothouse.sim.scenarios.user_actions import SPACE, Do, create, delete, given_space
from pilothouse.sim.simulated_server import SimulatedServer

NAME: Final = "db"
_POST: Final = "openstorage.io.action.workload/webhook"
_POLICY: Final = "databases"


def workload_users(rng: Random) -> Sequence[UserAction]:
    """A set of three is acted on, and changed by hand meanwhile."""
    doing = begin()
    doing += [_action(rng, number) for number in range(rng.randint(3, 7))]
    return [*doing, *end_well()]


def every_action_on_workloads(rng: Random) -> Sequence[UserAction]:
    """Each action once, one after the other, without any other change."""
    return [
        *begin(),
        UserAction(30, "scale up", fire_scale("a-growth", lambda _: 4)),
        UserAction(30, "scale down", fire_scale("a-shrinkage", lambda _: 2)),
        UserAction(80, "resize", _fire_resources("a-resize", "1536Mi")),
        UserAction(40, "post", _fire_post("a-post")),
        UserAction(10, "change the policies", _put_policies(("volume-resize", "80"))),
        *end_well(),
    ]


def begin() -> list[UserAction]:
    """Create the namespace, the set and the policies."""
    policies = _policies(("volume-resize", "70"), ("slow-volume", ""))
    meta = {"name": _POLICY}
    tree = {"apiVersion": ApplicationPolicy.api_version, "kind": ApplicationPolicy.kind, "metadata": meta}
    return [
        given_space(),
        UserAction(1, "create the set", create(StatefulSet, _set())),
        UserAction(1, "create the policies", create(ApplicationPolicy, {**tree, "spec": policies})),
    ]


def end_well() -> list[UserAction]:
    """Everything has the time that it takes."""
    return [UserAction(150, "look at the actions", lambda api: api.list(ApplicationAction))]


def _action(rng: Random, number: int) -> UserAction:
    after, name = rng.uniform(1, 60), f"a-{number}"
    kinds = ("up", "down", "down", "resources", "post", "reset", "memory", "policies", "rule")
    match rng.choice(kinds):
        case "up":
            return UserAction(after, "scale up by 1", fire_scale(name, lambda replicas: min(5, replicas + 1)))
        case "down":
            step = rng.randint(1, 2)
            do = fire_scale(name, lambda replicas: max(1, replicas - step))
            return UserAction(after, f"scale down by {step}", do)
        case "resources":
            size = rng.choice(("1536Mi", "2Gi", "3Gi"))
            return UserAction(after, f"give it {size}", _fire_resources(name, size))
        case "post":
            return UserAction(after, "post", _fire_post(name))
        case "reset":
            by = rng.choice((0, 1))
            return UserAction(after, f"scale it by hand by {by}", scale_by_hand(by))
        case "memory":
            size = rng.choice(("1Gi", "4Gi"))
            return UserAction(after, f"give it {size} by hand", _resize_by_hand(size))
        case "policies":
            threshold = str(rng.randint(60, 90))
            others = (("slow-volume", ""),) if rng.random() < 0.5 else ()
            return UserAction(
                after, f"a threshold of {threshold}", _put_policies(("volume-resize", threshold), *others)
            )
        case _:
            rule = f"{_POLICY}-{rng.choice(('volume-resize', 'slow-volume'))}"
            do = rng.choice((delete(AutopilotRule, rule), _edit_rule(rule)))
            return UserAction(after, f"change the rule {rule}", do)


def fire_scale(name: str, to: Callable[[int], int]) -> Do:
    """Scale the set from what it has."""

    def target(found: Object) -> Tree:
        replicas = int(found.spec["replicas"])
        return {"from": str(replicas), "to": str(to(replicas))}

    return fire(name, StatefulSet, NAME, SCALE, target)


def _fire_resources(name: str, to: str) -> Do:
    def target(found: Object) -> Tree:
        memory = _containers(found)[0]["resources"]["limits"]["memory"]
        return {"container": "db", "resource": "memory", "from": memory, "to": to}

    return fire(name, StatefulSet, NAME, RESOURCES, target)


def _fire_post(name: str) -> Do:
    return fire(name, StatefulSet, NAME, _POST, {}, name="tickets")


def scale_by_hand(by: int) -> Do:
    """As somebody else's controller: what the set had when it looked, and so many more."""

    async def do(api: Api) -> None:
        found = await api.get(StatefulSet, NAME, SPACE)
        running = [one for one in (await api.list(ApplicationAction, SPACE)).objects
                   if one.spec["action"] == SCALE and one.status.get("phase") == "Running"]  # fmt: skip
        replicas = int(found.spec["replicas"]) + by
        if not by and running:
            replicas = int(running[0].at("spec", "target", "from"))
        await api.patch(StatefulSet, NAME, SPACE, {"spec": {"replicas": replicas}})

    return do


def _resize_by_hand(size: str) -> Do:
    async def do(api: Api) -> None:
        found = await api.get(StatefulSet, NAME, SPACE)
        (container,) = _containers(found)
        changed = {**container, "resources": {"limits": {"memory": size}}}
        fields = {"spec": {"template": {"spec": {"containers": [changed]}}}}
        await api.patch(StatefulSet, NAME, SPACE, fields)

    return do


def _put_policies(*policies: tuple[str, str]) -> Do:
    return lambda api: api.patch(ApplicationPolicy, _POLICY, "", {"spec": _policies(*policies)})


def _edit_rule(name: str) -> Do:
    return lambda api: api.patch(AutopilotRule, name, "", {"spec": {"pollInterval": 77}})


def _policies(*policies: tuple[str, str]) -> Tree:
    listed = [
        {"name": name, **({"parameters": {"threshold": threshold}} if threshold else {})}
        for name, threshold in policies
    ]
    return {"application": "postgres", "selector": {"matchLabels": {"app": "db"}}, "policies": listed}


async def workloads_settled(api: Api) -> str:
    """All actions have ended, the set has its pods, none is drained, and rules are as policies have them."""
    if problem := await actions_ended(api):
        return problem
    found = await api.find(StatefulSet, NAME, SPACE)
    if found is None:
        return "the set was not created"
    memory = _memory(_containers(found))
    names = {f"{NAME}-{number}" for number in range(found.spec["replicas"])}
    pods = {pod.name: pod for pod in (await api.list(Pod, SPACE)).objects}
    if set(pods) != names:
        return f"there are {sorted(pods)}, and {sorted(names)} are wanted"
    for name, pod in pods.items():
        if not pod.is_true("Ready") or _memory(pod.spec["containers"]) != memory:
            return f"pod {name} is {pod.status.get('phase')} with {_memory(pod.spec['containers'])}"
    for pilot in (await api.list(Pilot, SPACE)).objects:
        if pilot.name in names and pilot.spec.get("decommission"):
            return f"{pilot.name} stays, and is decommissioned"
    return await _rules_settled(api)


async def _rules_settled(api: Api) -> str:
    policy = await api.get(ApplicationPolicy, _POLICY)
    wanted = {each.name: _rule(each.spec) for each in expand(policy.name, policy.spec).rules}
    rules = {rule.name: _rule(rule.spec) for rule in (await api.list(AutopilotRule)).objects}
    differing = sorted(name for name in {*wanted, *rules} if wanted.get(name) != rules.get(name))
    return f"the rules {differing} are not as their policies have them" if differing else ""


def _rule(spec: Any) -> AutopilotRuleSpec:
    """A spec with all defaults."""
    return msgspec.convert(spec, AutopilotRuleSpec)


def _containers(found: Object) -> list[Tree]:
    return list(found.at("spec", "template", "spec", "containers"))


def _memory(containers: Sequence[Tree]) -> str:
    return str(containers[0]["resources"]["limits"]["memory"])


def _set() -> Tree:
    labels = {"app": NAME}
    container = {"name": "db", "image": "db:1", "resources": {"limits": {"memory": "1Gi"}}}
    return {
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {
            "replicas": 3,
            "serviceName": NAME,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeName": "n0", "containers": [container]},
            },
        },
    }


async def _run_sets(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
    await PilotedSets(server.api("pilots"), SPACE, NAME, clock, rng).run()


WORKLOADS: Final = Scenario(
    "workloads",
    (*all_executors(), application_policies, stateful_sets, garbage, service_accounts),
    workload_users,
    workloads_settled,
    (*ACTION_INVARIANTS, *PROMISES["stateful-sets"], *PROMISES["garbage"]),
    nodes=1,
    companion=_run_sets,
)
