"""ApplicationActions of all kinds, on a modelled node whose pools grow and whose volumes move.

Actions are created by a user in the place of rules, so that each executor has something to do in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from pilothouse.api.attributes_classes import computed_class, computed_name
from pilothouse.api.kind_names import (
    ApplicationAction,
    ApplicationPolicy,
    AutopilotRule,
    KindName,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    StatefulSet,
    StorageClass,
    StoragePool,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import SELECTED_NODE
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.api.openstorage.actions import (
    EXPAND_POOL,
    FINISHED,
    MOVE,
    REBALANCE_POOL,
    RESIZE,
    RESOURCES,
    SCALE,
    SET_IOPS,
)
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.action_invariants import ACTION_INVARIANTS
from pilothouse.controllers.application_policies import application_policies
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.invariants import ObjectStates, invariant
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.modelled_tiers import DRIVER, ModelledTiers
from pilothouse.sim.scenarios.user_actions import SPACE, Do, create, given_space
from pilothouse.sim.simulated_server import SimulatedServer

_SILVER: Final = {"iops": "200", "throughput": "20Mi"}
_FAST: Final = {**_SILVER, "tier": "fast"}
_CLAIMS: Final = ("tuned", "moved", "fought", "spread")
_SET: Final = "db"
_HELD_BY: Final = "argocd"


def action_users(rng: Random) -> Sequence[UserAction]:
    """Everything is created; then actions come one after another, while others still run."""
    silver = {**computed_class(DRIVER, _SILVER), "metadata": {"name": "silver"}}
    gold = {**computed_class(DRIVER, {"iops": "900"}), "metadata": {"name": "gold"}}
    fired = [
        UserAction(rng.uniform(1, 20), f"fire {name}", do)
        for name, do in (
            (
                "tune",
                fire("tune", PersistentVolumeClaim, "tuned", SET_IOPS, _to({"iops": "300"}), iops="300"),
            ),
            ("move", fire("move", PersistentVolumeClaim, "moved", MOVE, _moved("fast"), tier="fast")),
            (
                "fight",
                fire(
                    "fight",
                    PersistentVolumeClaim,
                    "fought",
                    SET_IOPS,
                    _GOLD,
                    classes="silver,gold",
                    step="up",
                ),
            ),
            ("grow", fire("grow", StoragePool, "n1-fast", EXPAND_POOL, {"from": "100Gi", "to": "150Gi"})),
            ("even", fire("even", StoragePool, "n1-default", REBALANCE_POOL, _EVEN)),
            ("scale", fire("scale", StatefulSet, _SET, SCALE, {"from": "3", "to": "2"})),
            ("more", fire("more", StatefulSet, "web", RESOURCES, _MORE)),
            ("resize", fire("resize", PersistentVolumeClaim, "tuned", RESIZE, {"to": "12Gi"})),
        )
    ]
    rng.shuffle(fired)
    where = next(number for number, each in enumerate(fired) if each.what == "fire fight")
    fired.insert(where + 1, UserAction(rng.uniform(0.5, 1.5), "take its class back", _take_back))
    return [
        given_space(),
        UserAction(1, "create the storage class", create(StorageClass, _STORAGE)),
        *(UserAction(1, f"create class {each['metadata']['name']}", create(VolumeAttributesClass, each))
          for each in (silver, gold)),
        *(UserAction(1, f"create pool {tier}", _pool(tier)) for tier in ("default", "fast")),
        *(UserAction(1, f"create {name}", _claim(name)) for name in _CLAIMS),
        UserAction(1, "create the pod", _pod("moved")),
        UserAction(1, "create the set", _set(_SET, 3)),
        UserAction(1, "create the other set", _set("web", 1)),
        *(UserAction(1, f"create Pilot {ordinal}", _pilot(ordinal)) for ordinal in range(3)),
        UserAction(1, "create the policy", create(ApplicationPolicy, _POLICY)),
        *fired,
    ]  # fmt: skip


def fire(name: str, noun: KindName, about: str, action: str, target: dict[str, str], **parameters: str) -> Do:
    """Create an action, as a rule does."""

    async def do(api: Api) -> None:
        namespace = SPACE if noun.namespaced else ""
        found = await api.get(noun, about, namespace)
        reference = {"apiVersion": noun.api_version, "kind": noun.kind, "name": about, "uid": found.uid}
        tree: Tree = {
            "apiVersion": ApplicationAction.api_version,
            "kind": ApplicationAction.kind,
            "metadata": {"name": name, "namespace": SPACE if noun.namespaced else "kube-system"},
            "spec": {
                "rule": "r",
                "object": reference,
                "action": action,
                "target": target,
                "parameters": parameters,
            },
        }
        await api.create(ApplicationAction, tree)

    return do


def _to(changes: dict[str, str]) -> dict[str, str]:
    return {"from": "silver", "to": computed_name(DRIVER, {**_SILVER, **changes}), **changes}


def _moved(tier: str) -> dict[str, str]:
    return {"from": "default", "to": tier, "class": computed_name(DRIVER, {**_SILVER, "tier": tier})}


_GOLD: Final = {"from": "silver", "to": "gold"}
_EVEN: Final = {"moves": f"{SPACE}/spread=fast", "summary": "Rebalance summary: one volume"}
_MORE: Final = {"container": "main", "resource": "memory", "from": "64Mi", "to": "96Mi"}
_STORAGE: Final = {"metadata": {"name": "loop"}, "provisioner": DRIVER, "allowVolumeExpansion": True}
_POLICY: Final = {
    "apiVersion": ApplicationPolicy.api_version,
    "kind": ApplicationPolicy.kind,
    "metadata": {"name": "ready-made"},
    "spec": {"application": "postgres", "policies": [{"name": "volume-resize"}, {"name": "wal-held"}]},
}


def _pool(tier: str) -> Do:
    async def do(api: Api) -> None:
        name = f"n1-{tier}"
        await api.create(StoragePool, {**_typed(StoragePool), "metadata": {"name": name}})
        status = {"node": "n1", "tier": tier, "capacity": "100Gi", "expandable": True}
        await api.patch(StoragePool, name, "", {"status": status}, subresource="status")

    return do


def _claim(name: str) -> Do:
    async def do(api: Api) -> None:
        made = await api.create(
            PersistentVolumeClaim,
            {
                "metadata": {"name": name, "namespace": SPACE, "annotations": {SELECTED_NODE: "n1"}},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "loop",
                    "volumeAttributesClassName": "silver",
                    "resources": {"requests": {"storage": "8Gi"}},
                },
            },
        )
        fields = {"spec": {"volumeName": f"pvc-{made.uid}"}}
        await api.patch(PersistentVolumeClaim, name, SPACE, fields)
        status = {
            "phase": "Bound",
            "capacity": {"storage": "8Gi"},
            "currentVolumeAttributesClassName": "silver",
        }
        await api.patch(PersistentVolumeClaim, name, SPACE, {"status": status}, subresource="status")

    return do


def _pod(claim: str) -> Do:
    async def do(api: Api) -> None:
        await api.create(Pod, _pod_tree(claim))
        await api.patch(Pod, f"{claim}-0", SPACE, {"status": {"phase": "Running"}}, subresource="status")

    return do


def _pod_tree(claim: str) -> Tree:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "of-users", "uid": "of-users"}
    return {
        "metadata": {
            "name": f"{claim}-0",
            "namespace": SPACE,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "containers": [{"name": "main", "image": "host/sleep"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def _set(name: str, replicas: int) -> Do:
    resources = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    container = {"name": "main", "image": "host/sleep", "resources": resources}
    tree: Tree = {
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }
    return create(StatefulSet, tree)


def _pilot(ordinal: int) -> Do:
    metadata = {"name": f"{_SET}-{ordinal}", "namespace": SPACE}
    return create(Pilot, {**_typed(Pilot), "metadata": metadata, "spec": {}})


def _typed(noun: KindName) -> Tree:
    return {"apiVersion": noun.api_version, "kind": noun.kind}


async def _take_back(api: Api) -> None:
    """Another client has its own idea of the class."""
    fields = {"spec": {"volumeAttributesClassName": "silver"}}
    await api.patch(PersistentVolumeClaim, "fought", SPACE, fields, manager=_HELD_BY)


async def actions_settled(api: Api) -> str:
    """Every action has ended as it should, and everything is as they say."""
    for one in (await api.list(ApplicationAction)).objects:
        phase = one.status.get("phase")
        if phase not in FINISHED or (phase != "Succeeded" and one.name not in _MAY_FAIL):
            return f"{one.name} is {phase}: {(one.condition('Complete') or {}).get('message')}"
    if (await api.find(ApplicationAction, "fight", SPACE)) is None:
        return "the action fight was not created"
    for name, wanted in (("moved", _FAST), ("spread", _FAST)):
        found = await api.find(PersistentVolumeClaim, name, SPACE)
        if found is not None and found.status.get("currentVolumeAttributesClassName") != computed_name(
            DRIVER, wanted
        ):
            return f"claim {name} has {found.status.get('currentVolumeAttributesClassName')}"
    scaled = await api.get(ApplicationAction, "scale", SPACE)
    replicas = 2 if scaled.status.get("phase") == "Succeeded" else 3
    for noun, name, path, wanted_value in (
        (StatefulSet, _SET, ("spec", "replicas"), replicas),
        (StoragePool, "n1-fast", ("status", "capacity"), "150Gi"),
    ):
        namespace = SPACE if noun.namespaced else ""
        one = await api.get(noun, name, namespace)
        if one.at(*path) != wanted_value:
            return f"{noun.kind} {name} has {one.at(*path)}"
    rules = {one.name for one in (await api.list(AutopilotRule)).objects}
    if rules != {"ready-made-volume-resize", "ready-made-wal-held"}:
        return f"there are rules {rules}"
    return ""


_MAY_FAIL: Final = frozenset({"fight", "scale"})
"""Somebody else has changed what it sets; a manager has not heard of the Pilots yet."""


@invariant(PersistentVolumeClaim)
def what_another_client_has_taken_back_stays(
    facts: ObjectStates, before: Object | None, after: Object | None
) -> str | None:
    """An action gives a claim its class once."""
    path = ("spec", "volumeAttributesClassName")
    if before is None or after is None or _HELD_BY not in before.managers(*path):
        return None
    if before.at(*path) == after.at(*path):
        return None
    return f"claim {after.name} gets class {after.at(*path)} again, which {_HELD_BY} has taken back"


class _World:
    """Pods that come back, sets that follow, and Pilots that drain, beside the tiers."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def run(self) -> None:
        while True:
            with suppress(StatusError, TransportError):
                await self._step()
            await asyncio.sleep(3.0)

    async def _step(self) -> None:
        api = self._api
        for name in ("moved",):
            claim = await api.find(PersistentVolumeClaim, name, SPACE)
            if claim is not None and await api.find(Pod, f"{name}-0", SPACE) is None:
                await _pod(name)(api)
        for one in (await api.list(StatefulSet, SPACE)).objects:
            wanted = int(one.spec["replicas"])
            status = {
                "replicas": wanted,
                "readyReplicas": wanted,
                "updatedReplicas": wanted,
                "currentReplicas": wanted,
                "observedGeneration": one.generation,
                "currentRevision": f"r{one.generation}",
                "updateRevision": f"r{one.generation}",
            }
            if any(one.status.get(field) != value for field, value in status.items()):
                await api.patch(StatefulSet, one.name, SPACE, {"status": status}, subresource="status")
            if one.name == "web":
                await self._roll(one)
        for pilot in (await api.list(Pilot, SPACE)).objects:
            await self._drain(pilot.name, pilot.generation, bool(pilot.spec.get("decommission")))
        for claim in (await api.list(PersistentVolumeClaim, SPACE)).objects:
            requests = claim.at("spec", "resources", "requests")
            if claim.status.get("phase") == "Bound" and requests != claim.status.get("capacity"):
                grown: dict[str, Any] = {"status": {"capacity": requests}}
                await api.patch(PersistentVolumeClaim, claim.name, SPACE, grown, subresource="status")

    async def _roll(self, web: Object) -> None:
        """The only pod runs with what the template says."""
        template: Any = web.at("spec", "template", "spec", "containers")
        pod = await self._api.find(Pod, "web-0", SPACE)
        if pod is not None and pod.spec["containers"][0].get("resources") != template[0].get("resources"):
            await self._api.delete(Pod, pod.name, SPACE)
            return
        if pod is None:
            owner = {**owner_reference(web), "controller": True}
            metadata = {"name": "web-0", "namespace": SPACE, "ownerReferences": [owner]}
            await self._api.create(Pod, {"metadata": metadata, "spec": {"containers": list(template)}})
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            status = {"phase": "Running", "conditions": [ready]}
            await self._api.patch(Pod, "web-0", SPACE, {"status": status}, subresource="status")

    async def _drain(self, name: str, generation: int, wanted: bool) -> None:
        pilot = await self._api.get(Pilot, name, SPACE)
        said = pilot.condition("Decommissioned") or {}
        value = "True" if wanted else "False"
        if (said.get("status"), said.get("observedGeneration")) != (value, generation):
            condition = {
                "type": "Decommissioned",
                "status": value,
                "reason": "Empty" if wanted else "InService",
                "message": "",
                "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            await self._api.patch(
                Pilot, name, SPACE, {"status": {"conditions": [condition]}}, subresource="status"
            )


async def _outside(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
    tiers = ModelledTiers(server.api("tiers"), clock, rng)
    running = [asyncio.ensure_future(each.run()) for each in (tiers, _World(server.api("world")))]
    try:
        await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()


ACTIONS: Final = Scenario(
    "actions",
    (*all_executors(), application_policies, service_accounts),
    action_users,
    actions_settled,
    (*ACTION_INVARIANTS, what_another_client_has_taken_back_stays),
    nodes=0,
    companion=_outside,
)
