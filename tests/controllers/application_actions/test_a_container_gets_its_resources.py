"""An action on resources changes limit, request and heap in proportion, in one write, and waits until all pods run with it."""

from __future__ import annotations

import asyncio

from tests.controllers.application_actions.acted_workloads import Workloads, play

from pilothouse.api.kind_names import ElasticsearchCluster, Pod, StatefulSet
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.api.openstorage.actions import RESOURCES

MORE = {"container": "db", "resource": "memory", "from": "1Gi", "to": "1536Mi"}


async def pod(workloads: Workloads, about: Object, ordinal: int, resources: Tree) -> None:
    """A pod of a set, ready."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{about.name}-{ordinal}",
            "namespace": "default",
            "ownerReferences": [owner_reference(about)],
        },
        "spec": {"containers": [{"name": "db", "image": "db:1", "resources": resources}]},
    }
    await workloads.create(Pod, tree, phase="Running", conditions=[{"type": "Ready", "status": "True"}])


def test_a_set_of_its_own_is_rolled_and_waited_for() -> None:
    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set(replicas=1)
        await pod(workloads, about, 0, {"limits": {"memory": "1Gi"}})
        await workloads.fire(about, RESOURCES, **MORE)
        found = await workloads.api.get(StatefulSet, "db", "default")
        (container,) = found.at("spec", "template", "spec", "containers")
        assert container["resources"] == {
            "requests": {"cpu": "500m", "memory": "768Mi"},
            "limits": {"memory": "1536Mi"},
        }
        assert container["image"] == "db:1"
        await asyncio.sleep(600)
        assert await workloads.outcome() == ("Running", "Applied")
        assert await workloads.message() == "0 of 1 pods of StatefulSet db run with 1536Mi of memory"
        await workloads.api.delete(Pod, "db-0", "default", grace=0)
        await pod(workloads, about, 0, {"limits": {"memory": "1536Mi"}})
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Succeeded", "Resized")

    play(scenario)


def test_the_heap_of_a_pool_follows() -> None:
    async def scenario(workloads: Workloads) -> None:
        limits = {"heapSize": "512Mi", "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}}
        cluster = await workloads.cluster(pool=limits)
        about = await workloads.set("es-demo-data", owner=cluster)
        await workloads.fire(about, RESOURCES, **{**MORE, "container": "elasticsearch"})
        demo = await workloads.api.get(ElasticsearchCluster, "demo", "default")
        data = demo.spec["nodePools"][1]
        assert (data["heapSize"], data["resources"]) == (
            "768Mi",
            {"limits": {"memory": "1536Mi", "cpu": "1"}},
        )
        assert await workloads.outcome() == ("Running", "Applied")
        # The set's template is its controller's.
        found = await workloads.api.get(StatefulSet, "es-demo-data", "default")
        assert found.at("spec", "template", "spec", "containers")[0]["resources"]["limits"]["memory"] == "1Gi"

    play(scenario)


def test_what_the_cluster_refuses_is_tried_a_few_times() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await workloads.cluster(pool={"resources": {"limits": {"memory": "1Gi"}}})
        about = await workloads.set("es-demo-data", owner=cluster)
        # Half of it would be a heap that the database does not start with.
        less = {**MORE, "container": "elasticsearch", "to": "64Mi"}
        await workloads.fire(about, RESOURCES, **less)
        await asyncio.sleep(1200)
        assert await workloads.outcome() == ("Failed", "RequestRefused")

    play(scenario)


def test_an_unknown_container_or_amount_ends_it() -> None:
    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set()
        await workloads.fire(about, RESOURCES, **{**MORE, "container": "other"})
        assert await workloads.outcome() == ("Declined", "NoField")
        await workloads.fire(about, RESOURCES, "act-2", **{**MORE, "to": "much"})
        assert await workloads.outcome("act-2") == ("Failed", "InvalidTarget")

    play(scenario)
