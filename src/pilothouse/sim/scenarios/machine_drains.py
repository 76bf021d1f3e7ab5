"""Machines are drained below an Elasticsearch cluster that rolls, while people evict pods by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.k0s.signals import (
    APPLYING,
    CORDONING,
    UNCORDONING,
    Signal,
    SignalCommand,
    SignalUpdate,
    read_signal,
)
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import Node, Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.api import Api
from pilothouse.client.subresources import evict
from pilothouse.client.transport import TransportError
from pilothouse.controllers.drains.cordons import CORDONED_BY
from pilothouse.controllers.drains.drain_controller import drains
from pilothouse.controllers.invariants import PROMISES
from pilothouse.meta.errors import StatusError
from pilothouse.sim.fleet import UserAction
from pilothouse.sim.scenarios.elasticsearch_cluster import (
    ELASTIC,
    NAME,
    cluster_settled,
    pools_of,
    run_pilots,
    story,
)
from pilothouse.sim.scenarios.user_actions import SPACE, Do
from pilothouse.sim.simulated_server import SimulatedServer

_UPDATE: Final = SignalUpdate("http://updates/k0s", "v1.31.2")
_CORDONED: Final = "n2"
"""An administrator keeps pods away from this machine."""
_NEXT: Final = {"": CORDONING, APPLYING: UNCORDONING}
"""What an agent does, of which only the effect on its signal is simulated."""
_AGENT_PERIOD: Final = 5.0


def operators(rng: Random) -> Sequence[UserAction]:
    """A cluster gets another version or configuration; machines get their turns, and pods are evicted."""
    changes: list[Tree] = [
        {"version": "7.17.29"},
        {"config": {"search.max_buckets": rng.randint(1000, 9999)}},
    ]
    doing = list(story(pools_of(2), (rng.uniform(60, 120), rng.choice(changes)))(rng))
    doing.insert(1, UserAction(1, f"cordon {_CORDONED}", _cordon))
    for _ in range(rng.randint(2, 5)):
        after = rng.uniform(1, 60)
        if rng.random() < 0.5:
            node = f"n{rng.randint(0, 2)}"
            doing.append(UserAction(after, f"begin with {node}", begin_with(node)))
        else:
            pod = f"es-{NAME}-{rng.choice(('data', 'master'))}-{rng.randint(0, 2)}"
            doing.append(UserAction(after, f"evict {pod}", _evict(pod)))
    return doing


async def machines_settled(api: Api) -> str:
    """Each turn is over, and only what an administrator has cordoned is cordoned."""
    for node in (await api.list(Node)).objects:
        signal = read_signal(node.annotations)
        if signal is not None and not signal.ended:
            return f"{node.name} is at {signal.status}"
        if CORDONED_BY in node.annotations:
            return f"{node.name} is still cordoned by the plan"
        if node.spec.get("unschedulable") and node.name != _CORDONED:
            return f"{node.name} is cordoned"
    return await cluster_settled(api)


async def run_agents(server: SimulatedServer, clock: Clock, rng: Random) -> None:
    """The agents of all machines, and the pilots."""
    await together({"pilots": run_pilots(server, clock, rng), "agents": _agents(server.api("agents"), clock)})


async def _agents(api: Api, clock: Clock) -> None:
    while True:
        await asyncio.sleep(_AGENT_PERIOD)
        try:
            for node in (await api.list(Node)).objects:
                signal = read_signal(node.annotations)
                if signal is not None and (step := _NEXT.get(signal.step)):
                    await _write(api, node, signal.advanced(step, format_time(clock.now())))
        except (StatusError, TransportError):
            continue


async def _write(api: Api, node: Object, signal: Signal) -> None:
    """Refused if the node has changed."""
    metadata = {"resourceVersion": node.resource_version, "annotations": signal.annotations()}
    await api.patch(Node, node.name, "", {"metadata": metadata})


async def _cordon(api: Api) -> None:
    await api.patch(Node, _CORDONED, "", {"spec": {"unschedulable": True}})


def begin_with(name: str) -> Do:
    """Signal a machine, unless one is in progress."""

    async def begin(api: Api) -> None:
        nodes = (await api.list(Node)).objects
        signals = [read_signal(node.annotations) for node in nodes]
        if any(signal is not None and not signal.ended for signal in signals):
            return
        plan = await api.find(Plan, RUNNING_PLAN)
        if plan is None:
            plan = await api.create(Plan, _PLAN)
        await api.patch(Plan, RUNNING_PLAN, "", {"status": _STATUS}, subresource="status")
        command = SignalCommand(0, k0supdate=_UPDATE)
        created = format_time(plan.created)
        signal = Signal("id1", created, command, plan_uid=plan.uid, generation=plan.generation)
        node = next(node for node in nodes if node.name == name)
        await _write(api, node, signal)

    return begin


def _evict(name: str) -> Do:
    return lambda api: evict(api, name, SPACE, by="a user", because="to see what happens")


_COMMAND: Final = {
    "k0supdate": {
        "version": _UPDATE.version,
        "platforms": {"linux-amd64": {"url": _UPDATE.url}},
        "targets": {"workers": {"discovery": {"static": {"nodes": ["n0", "n1", "n2"]}}}},
    }
}
_PLAN: Final = {
    "apiVersion": Plan.api_version,
    "kind": Plan.kind,
    "metadata": {"name": RUNNING_PLAN},
    "spec": {"id": "id1", "commands": [_COMMAND]},
}
_STATUS: Final = {
    "state": "Schedulable",
    "runGeneration": 1,
    "spec": {"id": "id1", "commands": [_COMMAND]},
}

DRAINS = msgspec.structs.replace(
    ELASTIC,
    name="drains",
    controllers=(*ELASTIC.controllers, drains),
    users=operators,
    settled=machines_settled,
    invariants=(*ELASTIC.invariants, *PROMISES["drains"]),
    nodes=3,
    companion=run_agents,
)
