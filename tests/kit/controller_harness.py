"""Controllers stepped by hand: a world in memory, intents carried out one by one, a kubelet and a collector that are asked to.

    yard = ControllerHarness()
    web = yard.add(manifest)
    yard.step(stateful_sets, web)                   # decide once and carry it out; returns the intents
    yard.step(stateful_sets, web, crash_after=1)    # …and stop after the first write
    yard.run_pods()                                 # each pod gets one step further in its life
    yard.settle(stateful_sets, web)                 # all of it, until nobody writes any more

A write goes through under the conditions that ``runtime.intents`` names; what is refused ends the step, as it would with the
real runtime. Time stands still unless ``yard.now`` is moved, or ``settle`` has nothing else to wait for.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pilothouse.api import kind_names
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.apply.patches import merge_patch
from pilothouse.meta.conditions import with_condition
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.intents import (
    Create,
    Delete,
    Intent,
    PatchObject,
    RequeueAfter,
    SetStatus,
    Update,
    Wait,
)
from pilothouse.runtime.snapshot import Snapshot, StaticView

NOUNS = {
    (noun.api_version, noun.kind): noun
    for noun in (
        kind_names.StatefulSet,
        kind_names.Pod,
        kind_names.PersistentVolumeClaim,
        kind_names.ControllerRevision,
        kind_names.PodDisruptionBudget,
        kind_names.PersistentVolume,
        kind_names.StorageClass,
        kind_names.Node,
        kind_names.Lease,
        kind_names.Pilot,
        kind_names.ElasticsearchCluster,
        kind_names.CassandraCluster,
        kind_names.Service,
        kind_names.Secret,
        kind_names.ServiceAccount,
        kind_names.Role,
        kind_names.RoleBinding,
    )
}
WRITES = (Create, Update, PatchObject, SetStatus, Delete)
_MOST_ROUNDS = 400


class Refused(Exception):
    """The world was not as the intent's author had seen it."""


class ControllerHarness:
    """Objects, and what may be done to them."""

    def __init__(self, *, now: float = 1_000_000.0) -> None:
        self.now = now
        self.trees: dict[KindName, dict[tuple[str, str], Tree]] = {noun: {} for noun in NOUNS.values()}
        self._version = 0
        self.watch: Callable[[Intent], None] = lambda intent: None
        """Called before each write."""

    def add(self, tree: Tree) -> Object:
        """Put an object there, as its creation would."""
        noun = NOUNS[tree["apiVersion"], tree["kind"]]
        tree = copy.deepcopy(tree)
        meta = tree["metadata"]
        if noun.namespaced:
            meta.setdefault("namespace", "default")
        key = (meta.get("namespace", ""), meta["name"])
        if key in self.trees[noun]:
            raise Refused(f"{noun.kind} {key} exists")
        meta |= {"uid": f"uid-{self._version}", "creationTimestamp": format_time(self.now), "generation": 1}
        if noun == kind_names.Pod:
            tree.setdefault("status", {"phase": "Pending"})
        return self._put(noun, tree)

    def _put(self, noun: KindName, tree: Tree) -> Object:
        self._version += 1
        tree["metadata"]["resourceVersion"] = str(self._version)
        self.trees[noun][tree["metadata"].get("namespace", ""), tree["metadata"]["name"]] = tree
        return Object.of(tree)

    def get(self, noun: KindName, name: str, namespace: str = "default") -> Object | None:
        tree = self.trees[noun].get((namespace if noun.namespaced else "", name))
        return None if tree is None else Object.of(tree)

    def all(self, noun: KindName) -> list[Object]:
        return [Object.of(tree) for _, tree in sorted(self.trees[noun].items())]

    def names(self, noun: KindName) -> list[str]:
        return [one.name for one in self.all(noun)]

    def pod(self, name: str) -> Object:
        """A pod that has to be there."""
        return Object.of(self.trees[kind_names.Pod]["default", name])

    def status(self, one: Object) -> Tree:
        """The status that an object has by now."""
        tree = self.trees[NOUNS[one.api_version, one.kind]][one.namespace, one.name]
        return tree.get("status") or {}

    def edit(self, one: Object, **spec: Any) -> Object:
        """Change fields of the spec, as a user would."""
        return self.change(one, lambda tree: tree["spec"].update(spec))

    def change(self, one: Object, how: Callable[[Tree], Any]) -> Object:
        """Change an object as it is by now."""
        noun = NOUNS[one.api_version, one.kind]
        tree = copy.deepcopy(self.trees[noun][one.namespace, one.name])
        spec = copy.deepcopy(tree.get("spec"))
        how(tree)
        if tree.get("spec") != spec:
            tree["metadata"]["generation"] += 1
        return self._put(noun, tree)

    def delete(self, one: Object) -> None:
        """Ask for the end of an object. A pod takes its time; others go."""
        noun = NOUNS[one.api_version, one.kind]
        if noun == kind_names.Pod or one.finalizers:
            if not one.deleting:
                self.change(
                    one, lambda tree: tree["metadata"].update(deletionTimestamp=format_time(self.now))
                )
        else:
            self.remove(one)

    def remove(self, one: Object) -> None:
        del self.trees[NOUNS[one.api_version, one.kind]][one.namespace, one.name]
        self._version += 1

    def world(self) -> Snapshot:
        return Snapshot(
            {noun: StaticView(map(copy.deepcopy, trees.values())) for noun, trees in self.trees.items()},
            now=self.now,
        )

    def decide(self, controller: Controller, one: Object) -> list[Intent]:
        """What the controller would do now."""
        seen = self.get(controller.primary, one.name, one.namespace)
        return [] if seen is None else controller(Object.of(copy.deepcopy(seen.tree)), self.world())

    def step(self, controller: Controller, one: Object, *, crash_after: int | None = None) -> list[Intent]:
        """Decide, and carry it out: all of it, or so many writes."""
        intents = self.decide(controller, one)
        writes = [intent for intent in intents if isinstance(intent, WRITES)]
        for intent in writes[:crash_after]:
            self.watch(intent)
            try:
                self.carry_out(intent)
            except Refused:
                break
        return intents

    def carry_out(self, intent: Intent) -> None:
        """Do it, if the world is as its author has seen it. Raises Refused."""
        match intent:
            case Create():
                self.add(intent.object)
            case Update():
                self._still(intent.seen, exact=True)
                self.change(intent.seen, lambda tree: _become(tree, copy.deepcopy(intent.object)))
            case PatchObject():
                seen = self._still(intent.seen, exact=intent.exact)
                wanted = intent.provided
                if wanted is not None:
                    there = self.get(wanted.noun, wanted.name, wanted.namespace)
                    if there is None or there.deleting or there.uid != wanted.uid:
                        raise Refused(f"{wanted.name} is not there")
                for other in intent.unless:
                    found = self.get(other.noun, other.name, other.namespace)
                    if found is not None and found.uid == other.uid:
                        raise Refused(f"{other.name} is there after all")
                self.change(seen, lambda tree: _become(tree, merge_patch(tree, intent.fields)))
            case SetStatus():
                self._still(intent.seen, exact=True)
                self.change(intent.seen, lambda tree: tree.update(status=dict(intent.status)))
            case Delete():
                self.delete(self._still(intent.seen, exact=intent.exact))
            case _:
                raise TypeError(f"{intent} can't be carried out here")

    def _still(self, seen: Object, *, exact: bool) -> Object:
        found = self.get(NOUNS[seen.api_version, seen.kind], seen.name, seen.namespace)
        if found is None or found.uid != seen.uid or (exact and found != seen):
            raise Refused(f"{seen} has changed")
        return found

    def run_pods(self, *, broken: Callable[[Object], bool] = lambda pod: False) -> bool:
        """Each pod goes one step: it goes if it should, else it runs and, unless broken, gets ready. False if none moved."""
        moved = False
        for pod in self.all(kind_names.Pod):
            if pod.deleting:
                self.remove(pod)
                moved = True
            elif pod.status.get("phase") in ("Pending", "Running"):
                moved = self.set_ready(pod, not broken(pod)) or moved
        return moved

    def set_ready(self, pod: Object, ready: bool) -> bool:
        """Have a pod run, and be ready or not. False if it was so."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        before = pod.status.get("conditions")
        conditions = with_condition(before, condition, now=format_time(self.now))
        if conditions == before and pod.status.get("phase") == "Running":
            return False
        self.change(pod, lambda tree: tree["spec"].setdefault("nodeName", "n1"))
        self.change(pod, lambda tree: tree.update(status={"phase": "Running", "conditions": conditions}))
        return True

    def fail(self, pod: Object, phase: str = "Failed") -> None:
        """Have a pod end."""
        self.change(pod, lambda tree: tree.update(status={"phase": phase}))

    def collect(self) -> bool:
        """Delete what has owners of which none is there. False if there was nothing to do."""
        uids = {tree["metadata"]["uid"] for trees in self.trees.values() for tree in trees.values()}
        dangling = [
            Object.of(tree)
            for trees in self.trees.values()
            for tree in trees.values()
            if tree["metadata"].get("ownerReferences")
            and not any(owner["uid"] in uids for owner in tree["metadata"]["ownerReferences"])
        ]
        for one in dangling:
            self.delete(one)
        return any(not one.deleting for one in dangling)

    def settle(self, controller: Controller, one: Object) -> list[Intent]:
        """Let all of them work until nobody has anything to do. The last decision, which writes nothing."""
        for _ in range(_MOST_ROUNDS):
            intents = self.step(controller, one)
            wrote = any(isinstance(intent, WRITES) for intent in intents)
            moved = self.run_pods()
            collected = self.collect()
            if wrote or moved or collected:
                continue
            later = [intent.seconds for intent in intents if isinstance(intent, RequeueAfter)]
            if not later:
                return intents
            self.now += min(later)
        raise AssertionError(f"no end after {_MOST_ROUNDS} rounds; the last: {intents}")


def made(intents: list[Intent], kind: str = "Pod") -> list[str]:
    """The names of what is to be made."""
    creates = (intent.object for intent in intents if isinstance(intent, Create))
    return [tree["metadata"]["name"] for tree in creates if tree["kind"] == kind]


def ended(intents: list[Intent], kind: str = "Pod") -> list[str]:
    """The names of what is to be deleted."""
    deletes = (intent.seen for intent in intents if isinstance(intent, Delete))
    return [seen.name for seen in deletes if seen.kind == kind]


def reasons(intents: list[Intent]) -> list[str]:
    """What is waited for."""
    return [wait.reason for wait in waits(intents)]


def waits(intents: list[Intent]) -> list[Wait]:
    return [intent for intent in intents if isinstance(intent, Wait)]


def _become(tree: Tree, new: Tree) -> None:
    tree.clear()
    tree.update(new)
