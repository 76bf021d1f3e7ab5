"""Objects in memory, and a transport through which the real client writes them.

    objects = MemoryObjects()
    web = objects.add(manifest)
    api = Api(MemoryTransport(objects), random.Random(0), manager="test")
    await api.patch(StatefulSet, "web", "default", {"spec": {"replicas": 2}})

The transport refuses what an API server refuses: a name that is taken, a uid or a resourceVersion other than
the stored one. A write to the object leaves its status alone, a write to ``/status`` everything else; a write
that changes nothing makes no version. There is no validation and no admission: a test may hold any object.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from pilothouse.api import kind_names
from pilothouse.api.disruption_target import (
    EVICTED,
    EVICTED_BECAUSE,
    EVICTED_BY,
    covering,
    disruption_condition,
)
from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader
from pilothouse.meta import errors
from pilothouse.meta.apply.patches import merge_patch
from pilothouse.meta.conditions import with_condition
from pilothouse.meta.errors import StatusError
from pilothouse.meta.fields import FieldError

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
        kind_names.Plan,
        kind_names.ControlNode,
        kind_names.ApplicationPolicy,
        kind_names.AutopilotRule,
        kind_names.AutopilotRuleObject,
    )
}
_RESOURCES = {(noun.api_version, noun.plural): noun for noun in NOUNS.values()}


class MemoryObjects:
    """The objects of a few kinds, and the edits that users and other components make."""

    def __init__(self, *, now: float = 1_000_000.0) -> None:
        self.now = now
        self.trees: dict[KindName, dict[tuple[str, str], Tree]] = {noun: {} for noun in NOUNS.values()}
        self.version = 0
        """Moves with every change."""

    def add(self, tree: Tree) -> Object:
        """Create an object. Raises ``StatusError`` if its name is taken."""
        noun = NOUNS[tree["apiVersion"], tree["kind"]]
        tree = copy.deepcopy(tree)
        meta = tree["metadata"]
        if noun.namespaced:
            meta.setdefault("namespace", "default")
        if (meta.get("namespace", ""), meta["name"]) in self.trees[noun]:
            raise errors.already_exists(noun.plural, noun.group, meta["name"])
        meta |= {"uid": f"uid-{self.version}", "creationTimestamp": format_time(self.now), "generation": 1}
        if noun == kind_names.Pod:
            tree.setdefault("status", {"phase": "Pending"})
        return self._put(noun, tree)

    def _put(self, noun: KindName, tree: Tree) -> Object:
        self.version += 1
        tree["metadata"]["resourceVersion"] = str(self.version)
        self.trees[noun][tree["metadata"].get("namespace", ""), tree["metadata"]["name"]] = tree
        return Object.of(tree)

    def get(self, noun: KindName, name: str, namespace: str = "default") -> Object | None:
        tree = self.trees[noun].get((namespace if noun.namespaced else "", name))
        return None if tree is None else Object.of(tree)

    def all(self, noun: KindName) -> list[Object]:
        return [Object.of(tree) for _, tree in sorted(self.trees[noun].items())]

    def names(self, noun: KindName) -> list[str]:
        return [one.name for one in self.all(noun)]

    def change(self, one: Object, how: Callable[[Tree], Any]) -> Object:
        """Change the current version of an object."""
        noun = NOUNS[one.api_version, one.kind]
        tree = copy.deepcopy(self.trees[noun][one.namespace, one.name])
        spec = copy.deepcopy(tree.get("spec"))
        how(tree)
        if tree.get("spec") != spec:
            tree["metadata"]["generation"] += 1
        return self._put(noun, tree)

    def delete(self, one: Object) -> None:
        """Delete an object. A pod, and an object with finalizers, is marked and stays."""
        if NOUNS[one.api_version, one.kind] == kind_names.Pod or one.finalizers:
            if not one.deleting:
                deleted = format_time(self.now)
                self.change(one, lambda tree: tree["metadata"].update(deletionTimestamp=deleted))
        else:
            self.remove(one)

    def remove(self, one: Object) -> None:
        """Take an object out of the store at once."""
        del self.trees[NOUNS[one.api_version, one.kind]][one.namespace, one.name]
        self.version += 1


class MemoryTransport:
    """Answers requests from the objects in memory."""

    def __init__(self, objects: MemoryObjects, *, before_write: Callable[[], None] = lambda: None) -> None:
        self._objects = objects
        self._before_write = before_write

    async def request(self, call: ClientRequest) -> ClientResponse:
        noun, namespace, name, subresource = _parse(call.path)
        if call.method != "GET":
            self._before_write()
        try:
            status, body = 200, self._answer(call, noun, namespace, name, subresource)
        except StatusError as refusal:
            status, body = refusal.code, refusal.to_dict()
        return ClientResponse(status, {}, msgspec.json.encode(body))

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        raise NotImplementedError(f"{call.path} can't be watched")
        yield  # Makes this a generator, which the protocol asks for.

    def _answer(
        self, call: ClientRequest, noun: KindName, namespace: str, name: str, subresource: str
    ) -> Tree:
        body: Tree = msgspec.json.decode(call.body) if call.body else {}
        match call.method, bool(name), subresource:
            case "GET", False, "":
                trees = [one.tree for one in self._objects.all(noun) if namespace in ("", one.namespace)]
                limit = int(call.query.get("limit", len(trees)))
                return {"items": trees[:limit], "metadata": {"resourceVersion": str(self._objects.version)}}
            case "GET", True, "":
                return self._found(noun, namespace, name).tree
            case "POST", False, "":
                return self._objects.add(body).tree
            case "PUT", True, "" | "status":
                return self._write(noun, namespace, name, subresource, body["metadata"], lambda _: body)
            case "PATCH", True, "" | "status":
                pinned = body.get("metadata", {})
                self._check_uid(noun, namespace, name, pinned)
                return self._write(
                    noun, namespace, name, subresource, pinned, lambda tree: merge_patch(tree, body)
                )
            case "DELETE", True, "":
                return self._delete(noun, namespace, name, body)
            case "POST", True, "eviction":
                return self._evict(namespace, name, body)
        raise NotImplementedError(f"{call.method} {call.path} is not among what this transport answers")

    def _found(self, noun: KindName, namespace: str, name: str) -> Object:
        found = self._objects.get(noun, name, namespace)
        if found is None:
            raise errors.not_found(noun.plural, noun.group, name)
        return found

    def _check_uid(self, noun: KindName, namespace: str, name: str, pinned: Tree) -> None:
        """To a patch the uid is a field that can't change, where it is a precondition of other writes."""
        uid = pinned.get("uid")
        if uid and uid != self._found(noun, namespace, name).uid:
            problem = FieldError.invalid("metadata.uid", uid, "field is immutable")
            raise errors.invalid(noun.kind, noun.group, name, [problem])

    def _checked(self, noun: KindName, namespace: str, name: str, pinned: Tree) -> Object:
        """The stored object, if it is the one that the request names."""
        found = self._found(noun, namespace, name)
        stored = {"uid": found.uid, "resourceVersion": found.resource_version}
        if any(pinned.get(field) not in (None, "", value) for field, value in stored.items()):
            raise errors.conflict(noun.plural, noun.group, name, errors.MODIFIED)
        return found

    def _write(
        self,
        noun: KindName,
        namespace: str,
        name: str,
        subresource: str,
        pinned: Tree,
        make: Callable[[Tree], Tree],
    ) -> Tree:
        found = self._checked(noun, namespace, name, pinned)
        before = copy.deepcopy(found.tree)
        asked = make(copy.deepcopy(before))
        kept, given = (before, asked) if subresource else (asked, before)
        after = {**kept, "status": given.get("status")}
        if after["status"] is None:
            del after["status"]
        if after == before:
            return before

        def become(tree: Tree) -> None:
            tree.clear()
            tree.update(after)

        written = self._objects.change(found, become)
        if written.deleting and found.finalizers and not written.finalizers and noun != kind_names.Pod:
            self._objects.remove(written)
        return written.tree

    def _evict(self, namespace: str, name: str, eviction: Tree) -> Tree:
        """Of a pod that has at most one budget."""
        options = eviction["deleteOptions"]
        pod = self._checked(kind_names.Pod, namespace, name, options.get("preconditions", {}))
        said = eviction["metadata"].get("annotations", {})
        condition = disruption_condition(
            said.get(EVICTED_BY, "admin"), said.get(EVICTED_BECAUSE, ""), reason=EVICTED
        )
        now = format_time(self._objects.now)
        for budget in covering(pod, self._objects.all(kind_names.PodDisruptionBudget)):
            if pod.deleting or pod.status.get("phase") != "Running" or not pod.is_true("Ready"):
                continue
            outdated = budget.status.get("observedGeneration", 0) < budget.generation
            if outdated or budget.status.get("disruptionsAllowed", 0) < 1:
                refusal = errors.too_many_requests("Cannot evict pod", 0)
                refusal.causes = (errors.StatusCauseDetail("DisruptionBudget", budget.name),)
                raise refusal
            self._objects.change(budget, partial(_spend, name, now))

        def mark(tree: Tree) -> None:
            before = tree["status"].get("conditions")
            tree["status"]["conditions"] = with_condition(before, condition, now=now)

        if not pod.deleting:
            self._objects.change(pod, mark)
        return self._delete(kind_names.Pod, namespace, name, options)

    def _delete(self, noun: KindName, namespace: str, name: str, options: Tree) -> Tree:
        if options.get("propagationPolicy") not in (None, "Background"):
            raise NotImplementedError(f"deletion with {options['propagationPolicy']}")
        found = self._checked(noun, namespace, name, options.get("preconditions", {}))
        if options.get("gracePeriodSeconds") == 0 and not found.finalizers:
            self._objects.remove(found)
        else:
            self._objects.delete(found)
        left = self._objects.get(noun, name, namespace)
        return {"kind": "Status", "status": "Success"} if left is None else left.tree


def _spend(pod: str, now: str, budget: Tree) -> None:
    budget["status"]["disruptionsAllowed"] -= 1
    budget["status"].setdefault("disruptedPods", {})[pod] = now


def _parse(path: str) -> tuple[KindName, str, str, str]:
    """Kind, namespace, name and subresource of a path."""
    steps = path.strip("/").split("/")
    version, rest = ("/".join(steps[1:3]), steps[3:]) if steps[0] == "apis" else (steps[1], steps[2:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return _RESOURCES[version, plural], namespace, name, subresource
