"""Resets the stored status of a node that does not run, before clients can read it.

    async with core.running():
        await withdraw_reports(core, "laptop", clock)
        await edge.listen(...)

``pilothouse up`` starts control plane and node together, so the stored status is from an earlier run.
Kubernetes would show pods as ready for 50 more seconds, and ``kubectl wait`` would succeed on stale data. In
this order, each is reset if it claims to be well, until its owner reports again:

* the Node's conditions (``Unknown``); its pods' and containers' readiness; the Pilots of these pods;
* counts of these pods in sets, in owners of sets and in disruption budgets;
* the readiness of their addresses in endpoints.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pilothouse.api.kind_names import (
    KNOWN,
    Endpoints,
    EndpointSlice,
    KindName,
    Node,
    Pilot,
    Pod,
    PodDisruptionBudget,
    Service,
)
from pilothouse.api.navigator.labels import POOL_NAME
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import NODE_NOT_READY, ended, ready
from pilothouse.apiserver.loopback_client import LoopbackClient, Refused
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.conditions import condition_is, with_condition
from pilothouse.meta.selectors import LabelSelector, SelectorError

_NODE_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_WELL: Final = {
    "Available": "True",
    "Ready": "True",
    "VersionAccepted": "True",
    "Degraded": "False",
    "Progressing": "False",
}
"""What the conditions of an owner say when all is well."""
_COUNTS: Final = ("readyReplicas", "availableReplicas")
_OBSERVED: Final = ("health", "shards")
"""What a cluster's pilots have seen."""
_OF_SERVICE: Final = "kubernetes.io/service-name"
_DEEPEST: Final = 10
"""Owners above a pod; more of them are a ring."""
UNOBSERVED: Final = "NotObserved"
_MESSAGE: Final = "Nothing has been reported since the control plane was started."

log = logging.getLogger(__name__)


async def withdraw_reports(core: RequestHandler, node: str, clock: Clock) -> None:
    """Call before other writes. A failed write is logged and does not stop the start."""
    await _Withdrawal(core, node, clock).run()


class _Withdrawal:
    def __init__(self, core: RequestHandler, node: str, clock: Clock) -> None:
        self._client = LoopbackClient(core)
        self._node = node
        self._now = format_time(clock.now())

    async def run(self) -> None:
        node = await self._find(Node, "", self._node)
        if node is None:
            return
        await self._set_status(
            node, {"conditions": self._unknown(node, _NODE_CONDITIONS, "NodeStatusUnknown")}
        )
        bound = await self._list(Pod, "", fieldSelector=f"spec.nodeName={self._node}")
        pods = [pod for pod in bound if not ended(pod)]
        for pod in pods:
            await self._set_status(pod, self._not_ready(pod))
            pilot = await self._find(Pilot, pod.namespace, pod.name)
            if pilot is not None and pilot.is_true("Ready"):
                await self._set_status(pilot, {"conditions": self._unobserved(pilot, ("Ready",))})
        namespaces = sorted({pod.namespace for pod in pods})
        for namespace in namespaces:
            await self._recount(namespace, pods)
            await self._withdraw_addresses(namespace, {pod.uid for pod in pods})

    async def _recount(self, namespace: str, touched: Sequence[Object]) -> None:
        """Recount the pods of a namespace in sets and budgets."""
        pods = await self._list(Pod, namespace)
        beneath: dict[str, list[Object]] = {}
        owners: dict[str, Object] = {}
        ours = {pod.uid for pod in touched}
        for pod in pods:
            async for owner in self._owners(pod, owners):
                beneath.setdefault(owner.uid, []).append(pod)
        for owner in owners.values():
            its = beneath[owner.uid]
            if any(pod.uid in ours for pod in its):
                sets = [each for each in owners.values() if (each.controller or {}).get("uid") == owner.uid]
                pools = {each.labels.get(POOL_NAME, ""): sum(map(ready, beneath[each.uid])) for each in sets}
                await self._set_status(owner, self._owner_status(owner, sum(map(ready, its)), pools))
        for budget in await self._list(PodDisruptionBudget, namespace):
            its = list(_selected(budget, pods))
            if any(pod.uid in ours for pod in its):
                await self._set_status(budget, _budget_status(budget, sum(map(ready, its))))

    async def _withdraw_addresses(self, namespace: str, pods: Collection[str]) -> None:
        """Mark the addresses of these pods, given by uid, as not ready."""
        services = await self._list(Service, namespace)
        asking = {each.name for each in services if not each.spec.get("publishNotReadyAddresses")}
        for one in await self._list(EndpointSlice, namespace):
            if one.labels.get(_OF_SERVICE) in asking:
                endpoints = [_without(each, pods) for each in one.get("endpoints") or ()]
                await self._change(one, {"endpoints": endpoints})
        for one in await self._list(Endpoints, namespace):
            if one.name in asking:
                subsets = [_without_ready(each, pods) for each in one.get("subsets") or ()]
                await self._change(one, {"subsets": subsets})

    async def _owners(self, pod: Object, known: dict[str, Object]) -> AsyncIterator[Object]:
        """The controlling owners of a pod, nearest first."""
        one: Object | None = pod
        for _ in range(_DEEPEST):
            reference = one.controller if one is not None else None
            if reference is None:
                return
            uid = str(reference.get("uid"))
            if uid not in known:
                # Of known kinds only: a pod may name anything as its owner.
                noun = KNOWN.get((str(reference.get("apiVersion")), str(reference.get("kind"))))
                found = await self._find(noun, pod.namespace, str(reference.get("name"))) if noun else None
                if found is None or found.uid != uid:
                    return
                known[uid] = found
            one = known[uid]
            yield one

    # What statuses become

    def _not_ready(self, pod: Object) -> Tree:
        said: Tree = {}
        for field in ("containerStatuses", "initContainerStatuses"):
            statuses = pod.status.get(field) or ()
            if any(each.get("ready") for each in statuses if field == "containerStatuses" or _runs(each)):
                said[field] = [
                    {**each, "ready": False} if field == "containerStatuses" or _runs(each) else each
                    for each in statuses
                ]
        conditions: Any = pod.status.get("conditions")
        for kind in ("ContainersReady", "Ready"):
            if condition_is(conditions, kind):
                condition = {"type": kind, "status": "False", "reason": NODE_NOT_READY, "message": _MESSAGE}
                conditions = with_condition(conditions, condition, now=self._now)
        return {**said, "conditions": conditions} if conditions else said

    def _owner_status(self, owner: Object, count: int, pools: Mapping[str, int]) -> Tree:
        status = owner.status
        said: Tree = {field: count for field in _COUNTS if int(status.get(field) or 0) > count}
        if kept := status.get("nodePools"):
            said["nodePools"] = {
                name: {**pool, "readyReplicas": min(int(pool.get("readyReplicas") or 0), pools.get(name, 0))}
                for name, pool in kept.items()
            }
            said |= {field: None for field in _OBSERVED if field in status}
        well = [kind for kind, value in _WELL.items() if condition_is(status.get("conditions"), kind, value)]
        return {**said, "conditions": self._unobserved(owner, well)} if well else said

    def _unobserved(self, one: Object, kinds: Iterable[str]) -> list[Tree]:
        return self._unknown(one, kinds, UNOBSERVED)

    def _unknown(self, one: Object, kinds: Iterable[str], reason: str) -> list[Tree]:
        """The conditions of an object, with these as Unknown; none is added."""
        conditions: Any = list(one.status.get("conditions") or ())
        known = {condition.get("type"): condition.get("status") for condition in conditions}
        for kind in kinds:
            if known.get(kind, "Unknown") != "Unknown":
                condition = {"type": kind, "status": "Unknown", "reason": reason, "message": _MESSAGE}
                conditions = with_condition(conditions, condition, now=self._now)
        return list(conditions)

    # The server

    async def _find(self, noun: KindName, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.find(noun, namespace, name)
        except Refused as problem:
            log.warning("%s %s can't be read: %s", noun.kind, name, problem)
            return None

    async def _list(self, noun: KindName, namespace: str, **query: str) -> list[Object]:
        try:
            return await self._client.list(noun, namespace, **query)
        except Refused as problem:
            log.warning("%s can't be listed: %s", noun.plural, problem)
            return []

    async def _set_status(self, one: Object, fields: Tree) -> None:
        changed = {name: value for name, value in fields.items() if one.status.get(name) != value}
        if changed:
            await self._patch(one, {"status": changed}, "status")

    async def _change(self, one: Object, fields: Tree) -> None:
        changed = {name: value for name, value in fields.items() if (one.get(name) or []) != value}
        if changed:
            await self._patch(one, changed, "")

    async def _patch(self, one: Object, fields: Tree, subresource: str) -> None:
        try:
            await self._client.patch(one, fields, subresource)
        except Refused as problem:
            log.warning("what %r said before the start is still there: %s", one, problem)


def _runs(status: Mapping[str, Any]) -> bool:
    return "running" in (status.get("state") or {})


def _selected(budget: Object, pods: Collection[Object]) -> Iterator[Object]:
    selector = budget.spec.get("selector")
    try:
        found = LabelSelector.from_object(selector) if selector is not None else None
    except SelectorError:
        return
    if found is not None:
        yield from (pod for pod in pods if found.matches(pod.labels))


def _without(endpoint: Tree, pods: Collection[str]) -> Tree:
    if (endpoint.get("targetRef") or {}).get("uid") not in pods:
        return endpoint
    return {**endpoint, "conditions": {**endpoint.get("conditions", {}), "ready": False, "serving": False}}


def _without_ready(subset: Tree, pods: Collection[str]) -> Tree:
    """A subset of an Endpoints object with these addresses as not ready."""
    addresses = subset.get("addresses") or []
    moved = [each for each in addresses if (each.get("targetRef") or {}).get("uid") in pods]
    if not moved:
        return subset
    staying = [each for each in addresses if each not in moved]
    rest = {name: value for name, value in subset.items() if name != "addresses"}
    others = {"notReadyAddresses": [*(subset.get("notReadyAddresses") or ()), *moved]}
    return {**rest, **({"addresses": staying} if staying else {}), **others}


def _budget_status(budget: Object, healthy: int) -> Tree:
    status = budget.status
    if int(status.get("currentHealthy") or 0) <= healthy:
        return {}
    return {
        "currentHealthy": healthy,
        "disruptionsAllowed": max(0, healthy - int(status.get("desiredHealthy") or 0)),
    }
