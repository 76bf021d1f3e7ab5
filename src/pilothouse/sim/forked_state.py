"""The state of a live cluster, forked: the objects that decide how a plan goes.

    state = ForkedState.of(objects, plan, answers, now=clock.now())
    await state.load(server.store)               # before the simulated server starts

Objects keep their names and uids. The plan has no status, and a generation that no signal has. A budget keeps
what it demands at the moment of the fork: the replicas from which it is computed may belong to a controller
that is not simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION, PlanAnswers
from pilothouse.api.kind_names import (
    ControlNode,
    KindName,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StorageClass,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.storage import codec
from pilothouse.controllers.disruptions import is_computed
from pilothouse.sim.simulated_server import kinds
from pilothouse.sim.update_machines import UpdateMachine
from pilothouse.store.memory import MemoryStore

FORKED: Final = (
    Namespace,
    Node,
    ControlNode,
    Pod,
    PodDisruptionBudget,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
"""The kinds whose objects are forked."""


class ForkedState(msgspec.Struct, frozen=True):
    now: float
    objects: tuple[Object, ...]
    entries: tuple[tuple[str, bytes], ...]
    """The keys and values of the store."""
    answers: PlanAnswers
    """What an observer finds out at this moment."""

    @classmethod
    def of(cls, objects: Iterable[Object], plan: Object, answers: PlanAnswers, *, now: float) -> ForkedState:
        found = tuple(objects)
        catalog = KindCatalog(kinds())
        trees = [(one.noun, _forked(one)) for one in found]
        trees.append((plan.noun, _without_status(plan)))
        entries = tuple(_entry(catalog, noun, tree) for noun, tree in trees)
        return cls(now, found, entries, answers)

    async def load(self, store: MemoryStore) -> None:
        """Write everything into an empty store."""
        for key, value in self.entries:
            await store.create(key, value)

    def machines(self) -> list[UpdateMachine]:
        """The machines, with what they run; a controller that is not ready now never gets ready."""
        defects = {one.name: one.message or "not ready" for one in self.answers.readiness if not one.ready}
        machines = []
        for one in self.objects:
            if one.noun == ControlNode:
                version = one.at("status", "k0sVersion", default="")
                machines.append(
                    UpdateMachine(ControlNode, one.name, version, defect=defects.get(one.name, ""))
                )
            elif one.noun == Node:
                kubelet = one.at("status", "nodeInfo", "kubeletVersion", default="")
                version = one.annotations.get(RUNNING_VERSION) or kubelet
                machines.append(UpdateMachine(Node, one.name, version))
        return machines


def store_entry(noun: KindName, tree: Tree) -> tuple[str, bytes]:
    """The key and the value of an object in the store."""
    return _entry(KindCatalog(kinds()), noun, tree)


def _entry(catalog: KindCatalog, noun: KindName, tree: Tree) -> tuple[str, bytes]:
    served = catalog.find(noun.group, noun.version, noun.plural)
    if served is None:
        raise ValueError(f"the simulated server has no {noun.resource}")
    metadata = tree["metadata"]
    stored = codec.convert(served.resource, tree, served.resource.storage)
    return served.key(metadata.get("namespace", ""), metadata["name"]), codec.encode(stored)


def _forked(one: Object) -> Tree:
    tree: Tree = {**one.tree, "apiVersion": one.noun.api_version, "kind": one.noun.kind}
    if one.noun == PodDisruptionBudget and is_computed(one):
        demand = {"minAvailable": one.status.get("desiredHealthy", 0), "maxUnavailable": None}
        spec = {name: value for name, value in {**one.spec, **demand}.items() if value is not None}
        tree["spec"] = spec
    return tree


def _without_status(plan: Object) -> Tree:
    metadata = {**plan.tree["metadata"], "generation": plan.generation + 1}
    tree: Tree = {
        **plan.tree,
        "apiVersion": plan.noun.api_version,
        "kind": plan.noun.kind,
        "metadata": metadata,
    }
    tree.pop("status", None)
    return tree
