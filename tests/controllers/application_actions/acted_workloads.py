"""A server with executors, and workloads that are as ready as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ApplicationAction, ElasticsearchCluster, KindName, Pilot, StatefulSet
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.controllers.application_actions import all_executors
from pilothouse.sim.loop import SeededLoop

POOL = "navigator.jetstack.io/elasticsearch-node-pool-name"


def stateful_set(name: str, replicas: int, *, owner: Object | None = None, container: str = "db") -> Tree:
    labels = {"app": name}
    resources = {
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "limits": {"memory": "1Gi"},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": container, "image": "db:1", "resources": resources}]},
    }
    meta: Tree = {"name": name, "namespace": "default", "labels": {POOL: "data"}}
    if owner is not None:
        meta["ownerReferences"] = [owner_reference(owner)]
    return {
        "apiVersion": StatefulSet.api_version,
        "kind": StatefulSet.kind,
        "metadata": meta,
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


class Workloads:
    """Created, and reported on, by the test."""

    def __init__(self, bench: Bench) -> None:
        self.api = bench.api
        self.bench = bench

    async def create(self, noun: KindName, tree: Tree, **status: Any) -> Object:
        """With this status."""
        made = await self.api.create(noun, tree)
        return await self.status(noun, made.name, **status) if status else made

    async def status(self, noun: KindName, name: str, **status: Any) -> Object:
        return await self.api.patch(noun, name, "default", {"status": status}, subresource="status")

    async def set(self, name: str = "db", replicas: int = 2, **fields: Any) -> Object:
        """A StatefulSet that has its replicas."""
        made = await self.create(StatefulSet, stateful_set(name, replicas, **fields))
        await self.ready(name, replicas)
        return made

    async def ready(self, name: str, replicas: int) -> None:
        found = await self.api.get(StatefulSet, name, "default")
        await self.status(
            StatefulSet,
            name,
            replicas=replicas,
            readyReplicas=replicas,
            observedGeneration=found.generation,
        )

    async def cluster(self, **spec: Any) -> Object:
        pool: Tree = {"name": "data", "replicas": 2, "roles": ["master", "data"], **spec.pop("pool", {})}
        masters = {"name": "more", "replicas": 1, "roles": ["master"]}
        tree = {
            "apiVersion": ElasticsearchCluster.api_version,
            "kind": ElasticsearchCluster.kind,
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {"version": "8.17.0", "nodePools": [masters, pool], **spec},
        }
        return await self.api.create(ElasticsearchCluster, tree)

    async def pilot(self, name: str, *, owner: Object | None = None) -> Object:
        meta: Tree = {"name": name, "namespace": "default"}
        if owner is not None:
            meta["ownerReferences"] = [owner_reference(owner)]
        tree = {"apiVersion": Pilot.api_version, "kind": Pilot.kind, "metadata": meta, "spec": {}}
        await self.api.create(Pilot, tree)
        return await self.condition(Pilot, name, "Ready", "True")

    async def condition(self, noun: KindName, name: str, kind: str, status: str, message: str = "") -> Object:
        """A condition of the present generation."""
        found = await self.api.get(noun, name, "default")
        said = {"type": kind, "status": status, "message": message, "observedGeneration": found.generation}
        others = [each for each in found.status.get("conditions") or () if each["type"] != kind]
        return await self.status(noun, name, conditions=[*others, said])

    async def fire(self, about: Object, action: str, name: str = "act-1", **target: str) -> None:
        reference = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "uid": about.uid,
        }
        tree = {
            "apiVersion": ApplicationAction.api_version,
            "kind": ApplicationAction.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"rule": "busy", "object": reference, "action": action, "target": target},
        }
        await self.api.create(ApplicationAction, tree)
        await asyncio.sleep(5)

    async def outcome(self, name: str = "act-1") -> tuple[str, str]:
        found = await self.api.get(ApplicationAction, name, "default")
        return str(found.status.get("phase", "")), str((found.condition("Complete") or {}).get("reason", ""))

    async def message(self, name: str = "act-1") -> str:
        found = await self.api.get(ApplicationAction, name, "default")
        return str((found.condition("Complete") or {}).get("message", ""))


def play(scenario: Callable[[Workloads], Awaitable[None]]) -> None:
    """Executors on a server, in virtual time."""

    async def whole(bench: Bench) -> None:
        bench.manage(all_executors())
        await scenario(Workloads(bench))

    with SeededLoop(1) as loop:
        Bench(loop).run(whole)
