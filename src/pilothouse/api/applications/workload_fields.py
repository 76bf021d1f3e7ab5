"""The fields of a workload's replicas and resources, in the topmost owner that has them.

    fields = fields_of(stateful_set, world.find)
    if isinstance(fields, WorkloadFields):
        fields.replicas                     # 2
        fields.name_of("replicas")          # "spec.nodePools[data].replicas", of an ElasticsearchCluster
        fields.scaled(3)                    # the merge patch for that object

A StatefulSet of a cluster has its pool's; a StatefulSet or Deployment that nothing controls has its own. One
that an unknown owner controls has none: that owner would undo the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.applications.descriptor import PoolFields
from pilothouse.api.applications.registry import application_of_owner
from pilothouse.api.kind_names import Deployment, StatefulSet
from pilothouse.api.objects import Object, Tree
from pilothouse.api.owner_chain import FindObject, controller_of

WORKLOADS: Final = (StatefulSet, Deployment)
FieldPath = tuple[str | Mapping[str, str], ...]
"""As ``Object.managers`` takes it."""


class NoFields(msgspec.Struct, frozen=True):
    """The workload has no field that may be changed."""

    because: str


class WorkloadFields(msgspec.Struct, frozen=True):
    """Where a workload's replicas and resources are set."""

    workload: Object
    owner: Object
    """What is changed: the workload itself, or its cluster."""
    pools: PoolFields | None = None
    pool: str = ""

    @property
    def owner_name(self) -> str:
        return f"{self.owner.kind}/{self.owner.name}"

    @property
    def replicas(self) -> int:
        if self.pools is not None:
            return int(self._pool.get(self.pools.replicas, 1))
        return int(self.owner.spec.get("replicas", 1))

    @property
    def heap(self) -> str:
        """The size of the heap that has to follow the memory; empty if it follows by itself."""
        return (
            str(self._pool.get(self.pools.heap) or "") if self.pools is not None and self.pools.heap else ""
        )

    def name_of(self, field: str) -> str:
        """The path of ``replicas``, or of the resources of a container."""
        if self.pools is not None:
            name = self.pools.replicas if field == "replicas" else self.pools.resources
            return f"spec.{self.pools.pools}[{self.pool}].{name}"
        if field == "replicas":
            return "spec.replicas"
        return f"spec.template.spec.containers[{field}].resources"

    def path_of(self, field: str) -> FieldPath:
        """The same for managed fields."""
        if self.pools is not None:
            name = self.pools.replicas if field == "replicas" else self.pools.resources
            return "spec", self.pools.pools, {"name": self.pool}, name
        if field == "replicas":
            return "spec", "replicas"
        return "spec", "template", "spec", "containers", {"name": field}, "resources"

    def container(self, name: str) -> str | NoFields:
        """The name of the container whose resources are meant; without a name, the only one there is."""
        known = [str(each.get("name", "")) for each in self._containers]
        if self.pools is not None:
            known = [self.pools.container]
        if not name and len(known) == 1:
            return known[0]
        if name in known:
            return name
        what = f"has no container {name}" if name else "has several containers"
        return NoFields(f"{self.owner_name} {what}: name one of {', '.join(known)}")

    def resources(self, container: str) -> Mapping[str, Any]:
        """The requests and limits of a container."""
        found = self._pool.get(self.pools.resources) if self.pools is not None else None
        if self.pools is None:
            found = next(
                (each.get("resources") for each in self._containers if each["name"] == container), None
            )
        return found or {}

    def scaled(self, replicas: int) -> Tree:
        """The merge patch that sets the replicas."""
        if self.pools is not None:
            return self._changed_pool({self.pools.replicas: replicas})
        return {"spec": {"replicas": replicas}}

    def resized(self, container: str, resources: Mapping[str, Any], heap: str) -> Tree:
        """The merge patch that sets the resources of a container, and the heap if that is not empty."""
        if self.pools is not None:
            return self._changed_pool(
                {self.pools.resources: dict(resources), **({self.pools.heap: heap} if heap else {})}
            )
        containers = [
            {**each, "resources": dict(resources)} if each["name"] == container else dict(each)
            for each in self._containers
        ]
        return {"spec": {"template": {"spec": {"containers": containers}}}}

    @property
    def _pool(self) -> Mapping[str, Any]:
        pools = self.owner.spec.get(self.pools.pools) or () if self.pools is not None else ()
        return next((each for each in pools if each.get("name") == self.pool), {})

    @property
    def _containers(self) -> list[Mapping[str, Any]]:
        return list(self.workload.at("spec", "template", "spec", "containers", default=()))

    def _changed_pool(self, fields: Tree) -> Tree:
        """A merge patch replaces lists: it has all pools, and is good for the version that was seen."""
        assert self.pools is not None
        pools = [
            {**each, **fields} if each.get("name") == self.pool else dict(each)
            for each in self.owner.spec.get(self.pools.pools) or ()
        ]
        return {"spec": {self.pools.pools: pools}}


def fields_of(workload: Object, find: FindObject) -> WorkloadFields | NoFields:
    """The fields of a workload, or why it has none that may be changed."""
    if workload.noun not in WORKLOADS:
        return NoFields(f"{workload.kind} {workload.name} is neither a StatefulSet nor a Deployment")
    reference = workload.controller
    if reference is None:
        return WorkloadFields(workload, workload)
    name = f"{reference.get('kind')} {reference.get('name')}"
    application = application_of_owner(reference)
    if application is None:
        because = f"{name} controls {workload.kind} {workload.name} and would undo the change"
        return NoFields(f"{because}; change {name} instead")
    if application.pools is None:
        return NoFields(
            f"{name} controls {workload.kind} {workload.name}, and no controller changes its pools"
        )
    cluster = controller_of(workload, find)
    if cluster is None:
        return NoFields(f"{name}, which controls {workload.kind} {workload.name}, does not exist")
    found = WorkloadFields(
        workload, cluster, application.pools, workload.labels.get(application.pools.label, "")
    )
    pools = cluster.spec.get(application.pools.pools) or ()
    if not any(each.get("name") == found.pool for each in pools):
        return NoFields(f"{name} has no pool {found.pool or '(without a name)'} any more")
    return found
