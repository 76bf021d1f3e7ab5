"""Volumes that get other classes and tiers, and pools that are expanded and rebalanced, while pods use them
and users change the same claims and pools."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from pilothouse.api.attributes_classes import computed_class, current_class, requested_class
from pilothouse.api.kind_names import (
    ConfigMap,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StatefulSet,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import LOOP, RETURNED, VOLUME_MOVE
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import EXPAND_POOL, MOVE, REBALANCE_POOL, SET_IOPS
from pilothouse.client.api import Api
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.action_invariants import ACTION_INVARIANTS
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.metered_volumes import MODEL
from pilothouse.sim.scenarios.fired_actions import actions_ended, fire, fire_on_claim
from pilothouse.sim.scenarios.user_actions import SPACE, Do, create, delete, given_space
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.tiered_volumes import CAPACITY, TIERS, TieredVolumes

_CLAIMS: Final = ("data-db-0", "data-db-1")
_CLASSES: Final = {"silver": {"iops": "200"}, "gold": {"iops": "400"}}
_STEP: Final = {"classes": "silver,gold", "step": "up"}


def move_users(rng: Random) -> Sequence[UserAction]:
    """A set of two with a budget: its volumes and pools are acted on, and changed by hand meanwhile."""
    doing = begin()
    doing += [_action(rng, number) for number in range(rng.randint(3, 7))]
    return [*doing, *end_well()]


def every_action_on_volumes(rng: Random) -> Sequence[UserAction]:
    """Each action once, one after the other, without any other change."""
    return [
        *begin(),
        UserAction(20, "set classes", fire_on_claim("a-class", _CLAIMS[0], SET_IOPS, to="gold", **_STEP)),
        UserAction(20, "set IOPS", fire_on_claim("a-iops", _CLAIMS[1], SET_IOPS, iops="300")),
        UserAction(20, "move", fire_on_claim("a-move", _CLAIMS[0], MOVE, tier="fast")),
        UserAction(50, "expand", _expand("an-expansion", "n0-fast", "12Gi")),
        UserAction(0, "rebalance", _rebalance("a-rebalance", *(f"{one}=default" for one in _CLAIMS))),
        *end_well(),
        UserAction(450, "look at the classes", lambda api: api.list(VolumeAttributesClass)),
    ]


def begin() -> list[UserAction]:
    """Create the namespace, the classes, the pools, and a set of two with a budget."""
    return [
        given_space(),
        UserAction(1, "create the model", create(ConfigMap, _model())),
        *(UserAction(0, f"create the class {name}", create(VolumeAttributesClass, _class(name)))
          for name in _CLASSES),
        *(UserAction(0, f"create the pool n0-{tier}", create(StoragePool, _pool(tier))) for tier in TIERS),
        UserAction(0, "create the budget", create(PodDisruptionBudget, _budget())),
        UserAction(0, "create the set", create(StatefulSet, _set())),
    ]  # fmt: skip


def end_well() -> list[UserAction]:
    """The node follows, and everything has the time that it takes. Claims whose volume went back wait for
    another class than the one that made it move."""
    return [
        UserAction(1, "the node follows", model(volumes="follow", unready="")),
        UserAction(40, "ask for the classes that returned volumes have", _settle_for_what_is),
        UserAction(90, "look at the claims", lambda api: api.list(PersistentVolumeClaim, SPACE)),
    ]


def _action(rng: Random, number: int) -> UserAction:
    after, name, claim = rng.uniform(1, 40), f"a-{number}", rng.choice(_CLAIMS)
    tier, pool = rng.choice(TIERS), f"n0-{rng.choice(TIERS)}"
    kinds = (
        "move",
        "move",
        "class",
        "iops",
        "expand",
        "rebalance",
        "reset",
        "shrink",
        "volumes",
        "pods",
        "pod",
    )
    match rng.choice(kinds):
        case "move":
            return UserAction(
                after, f"move {claim} to {tier}", fire_on_claim(name, claim, MOVE, tier=tier, keep="1m")
            )
        case "class":
            other = rng.choice(tuple(_CLASSES))
            do = fire_on_claim(name, claim, SET_IOPS, to=other, **_STEP)
            return UserAction(after, f"give {claim} the class {other}", do)
        case "iops":
            iops = rng.choice(("300", "500"))
            do = fire_on_claim(name, claim, SET_IOPS, iops=iops)
            return UserAction(after, f"give {claim} {iops} IOPS", do)
        case "expand":
            size = rng.choice(("9Gi", "12Gi", "16Gi"))
            return UserAction(after, f"expand {pool} to {size}", _expand(name, pool, size))
        case "rebalance":
            return UserAction(
                after, f"move both volumes to {tier}", _rebalance(name, *(f"{one}={tier}" for one in _CLAIMS))
            )
        case "reset":
            other = rng.choice(tuple(_CLASSES))
            return UserAction(after, f"ask for {other} of {claim}", ask(claim, other))
        case "shrink":
            return UserAction(after, f"ask for {CAPACITY} of {pool}", _resize(pool))
        case "volumes":
            how = rng.choice(("refuse", "follow"))
            return UserAction(after, f"the node: {how}", model(volumes=how))
        case "pods":
            where = rng.choice((*TIERS, ""))
            return UserAction(after, f"pods are not ready on: {where or 'no tier'}", model(unready=where))
        case _:
            pod = claim.removeprefix("data-")
            return UserAction(after, f"delete pod {pod}", delete(Pod, pod, SPACE))


def _expand(name: str, pool: str, size: str) -> Do:
    return fire(name, StoragePool, pool, EXPAND_POOL, {"from": CAPACITY, "to": size})


def _rebalance(name: str, *moves: str) -> Do:
    target = {"moves": ",".join(f"{SPACE}/{each}" for each in moves)}
    return fire(name, StoragePool, "n0-default", REBALANCE_POOL, target)


def ask(claim: str, attributes: str) -> Do:
    """Ask for another class of a claim, by hand."""
    fields = {"spec": {"volumeAttributesClassName": attributes}}
    return lambda api: api.patch(PersistentVolumeClaim, claim, SPACE, fields)


def _resize(pool: str) -> Do:
    return lambda api: api.patch(StoragePool, pool, "", {"spec": {"capacity": CAPACITY}})


def model(**data: str) -> Do:
    """What the node and the pods are to do."""
    return lambda api: api.patch(ConfigMap, MODEL, SPACE, {"data": data})


async def _settle_for_what_is(api: Api) -> None:
    for claim in (await api.list(PersistentVolumeClaim, SPACE)).objects:
        if _has_returned(claim):
            fields = {"spec": {"volumeAttributesClassName": current_class(claim)}}
            await api.patch(PersistentVolumeClaim, claim.name, SPACE, fields)


def _has_returned(claim: Object) -> bool:
    move = claim.condition(VOLUME_MOVE) or {}
    return (move.get("status"), move.get("reason")) == ("False", RETURNED)


async def moves_settled(api: Api) -> str:
    """All actions have ended, each volume has the class that is asked for, in one copy, and all pods run."""
    if problem := await actions_ended(api):
        return problem
    for claim in (await api.list(PersistentVolumeClaim, SPACE)).objects:
        if current_class(claim) != requested_class(claim):
            return f"claim {claim.name} has class {current_class(claim)}, not {requested_class(claim)}"
        if claim.condition(VOLUME_MOVE) is not None:
            return f"claim {claim.name} says {claim.condition(VOLUME_MOVE)}"
    for pool in (await api.list(StoragePool)).objects:
        if not pool.condition("Expanded") or not pool.is_true("Expanded"):
            return f"pool {pool.name} is asked for {pool.spec} and says {pool.status}"
    ready = [pod.name for pod in (await api.list(Pod, SPACE)).objects if pod.is_true("Ready")]
    return "" if len(ready) == len(_CLAIMS) else f"only {ready} are ready"


def _model() -> Tree:
    return {"metadata": {"name": MODEL, "namespace": SPACE}, "data": {}}


def _class(name: str) -> Tree:
    return {**computed_class(LOOP, _CLASSES[name]), "metadata": {"name": name}}


def _pool(tier: str) -> Tree:
    meta = {"name": f"n0-{tier}"}
    return {"apiVersion": StoragePool.api_version, "kind": StoragePool.kind, "metadata": meta, "spec": {}}


def _budget() -> Tree:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    return {"metadata": {"name": "db", "namespace": SPACE}, "spec": spec}


def _set() -> Tree:
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"nodeName": "n0", "containers": [{"name": "db", "image": "db:1"}]},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "volumeAttributesClassName": "silver",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "metadata": {"name": "db", "namespace": SPACE},
        "spec": {
            "replicas": len(_CLAIMS),
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


async def _run_volumes(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
    await TieredVolumes(server.api("volumes"), clock, rng, namespace=SPACE).run()


MOVES: Final = Scenario(
    "moves",
    (*all_executors(), stateful_sets, disruption_budgets, garbage, service_accounts),
    move_users,
    moves_settled,
    (*ACTION_INVARIANTS, *PROMISES["stateful-sets"], *PROMISES["garbage"]),
    nodes=0,
    companion=_run_volumes,
)
