"""An action that scales a workload sets one field of its topmost owner, waits for its pods, and fights nobody."""

from __future__ import annotations

import asyncio

from tests.controllers.application_actions.acted_workloads import Workloads, play

from pilothouse.api.applications.autoscalers import ScaledObject
from pilothouse.api.kind_names import (
    ApplicationAction,
    CustomResourceDefinition,
    Deployment,
    ElasticsearchCluster,
    Namespace,
    Pilot,
    Pod,
    StatefulSet,
)
from pilothouse.api.navigator.labels import DECOMMISSIONED_FOR
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.actions import SCALE

UP = {"from": "2", "to": "3"}
DOWN = {"from": "2", "to": "1"}


KEDA = {
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"plural": "scaledobjects", "singular": "scaledobject", "kind": "ScaledObject"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""The kind as its definition makes it, with less of a schema."""


async def replicas(workloads: Workloads, name: str = "db") -> int:
    return int((await workloads.api.get(StatefulSet, name, "default")).spec["replicas"])


def test_a_pool_is_scaled_in_its_cluster() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await workloads.cluster()
        about = await workloads.set("es-demo-data", owner=cluster)
        await workloads.fire(about, SCALE, **UP)
        demo = await workloads.api.get(ElasticsearchCluster, "demo", "default")
        assert [(each["name"], each["replicas"]) for each in demo.spec["nodePools"]] == [
            ("more", 1),
            ("data", 3),
        ]
        assert (
            demo.managers("spec", "nodePools", {"name": "data"}, "replicas")[0] == "pilothouse-workload-scale"
        )
        assert await replicas(workloads, "es-demo-data") == 2
        assert await workloads.outcome() == ("Running", "Applied")
        # The cluster's controller has taken it up.
        await workloads.api.patch(StatefulSet, "es-demo-data", "default", {"spec": {"replicas": 3}})
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Running", "Applied")
        await workloads.ready("es-demo-data", 3)
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Succeeded", "Scaled")
        assert await workloads.message() == "StatefulSet es-demo-data has 3 ready replicas"

    play(scenario)


def test_a_set_of_its_own_grows() -> None:
    async def scenario(workloads: Workloads) -> None:
        await workloads.fire(await workloads.set(), SCALE, **UP)
        assert await replicas(workloads) == 3
        await workloads.ready("db", 3)
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Succeeded", "Scaled")

    play(scenario)


def test_it_fails_when_pods_do_not_get_ready_in_time() -> None:
    async def scenario(workloads: Workloads) -> None:
        await workloads.fire(await workloads.set(), SCALE, **UP)
        await asyncio.sleep(1790)
        assert await workloads.outcome() == ("Running", "Applied")
        await asyncio.sleep(20)
        assert await workloads.outcome() == ("Failed", "NotInTime")
        assert await replicas(workloads) == 3

    play(scenario)


def test_who_undoes_it_is_named_and_not_overruled() -> None:
    async def scenario(workloads: Workloads) -> None:
        cluster = await workloads.cluster()
        await workloads.fire(await workloads.set("es-demo-data", owner=cluster), SCALE, **UP)
        pools = [{"name": "more", "replicas": 1, "roles": ["master"]}]
        pools.append({"name": "data", "replicas": 2, "roles": ["master", "data"]})
        edit = {"spec": {"nodePools": pools}}
        await workloads.api.patch(ElasticsearchCluster, "demo", "default", edit, manager="gitops")
        await asyncio.sleep(3600)
        assert await workloads.outcome() == ("Failed", "Undone")
        assert await workloads.message() == (
            "spec.nodePools[data].replicas of ElasticsearchCluster demo should be 3 and was changed to 2 by the "
            "field manager gitops"
        )
        demo = await workloads.api.get(ElasticsearchCluster, "demo", "default")
        assert demo.spec["nodePools"][1]["replicas"] == 2

    play(scenario)


def test_what_changed_since_the_rule_decided_is_left_as_it_is() -> None:
    async def scenario(workloads: Workloads) -> None:
        await workloads.fire(await workloads.set(replicas=5), SCALE, **UP)
        assert await workloads.outcome() == ("Declined", "Changed")
        assert await replicas(workloads) == 5

    play(scenario)


def test_without_pilots_it_is_only_scaled_up() -> None:
    async def scenario(workloads: Workloads) -> None:
        await workloads.fire(await workloads.set(), SCALE, **DOWN)
        assert await workloads.outcome() == ("Declined", "OnlyUp")
        tree = (await workloads.api.get(StatefulSet, "db", "default")).thawed()
        spec = {
            key: value for key, value in tree["spec"].items() if key in ("replicas", "selector", "template")
        }
        meta = {"name": "web", "namespace": "default"}
        made = await workloads.api.create(
            Deployment, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        )
        await workloads.fire(made, SCALE, "act-2", **DOWN)
        assert await workloads.outcome("act-2") == ("Declined", "OnlyUp")
        await workloads.fire(made, SCALE, "act-3", **UP)
        found = await workloads.api.get(Deployment, "web", "default")
        assert found.spec["replicas"] == 3

    play(scenario)


async def drained(workloads: Workloads, name: str) -> Object:
    return await workloads.condition(Pilot, name, "Decommissioned", "True")


def test_pods_with_pilots_go_one_by_one_when_they_are_empty() -> None:
    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set(replicas=3)
        for name in ("db-0", "db-1", "db-2"):
            await workloads.pilot(name)
        await asyncio.sleep(5)
        await workloads.fire(about, SCALE, **{"from": "3", "to": "1"})
        pilots = {name: await workloads.api.get(Pilot, name, "default") for name in ("db-1", "db-2")}
        assert pilots["db-2"].spec["decommission"] is True
        assert not pilots["db-1"].spec.get("decommission")
        await workloads.condition(Pilot, "db-2", "Decommissioned", "False", "7 keys are left")
        await asyncio.sleep(600)
        assert await replicas(workloads) == 3
        assert await workloads.message() == "db-2 is removed when it is empty: 7 keys are left"
        await drained(workloads, "db-2")
        await asyncio.sleep(5)
        assert await replicas(workloads) == 2
        # The next one is not touched before the pod is gone.
        await asyncio.sleep(60)
        assert not (await workloads.api.get(Pilot, "db-1", "default")).spec.get("decommission")
        await workloads.ready("db", 2)
        await asyncio.sleep(5)
        assert (await workloads.api.get(Pilot, "db-1", "default")).spec["decommission"] is True
        await drained(workloads, "db-1")
        await asyncio.sleep(5)
        assert await replicas(workloads) == 1
        await workloads.ready("db", 1)
        await asyncio.sleep(5)
        assert await workloads.outcome() == ("Succeeded", "Scaled")

        # Whoever asks for them again before their Pilots are collected gets members in service.
        for name in ("db-1", "db-2"):
            again = await workloads.api.get(Pilot, name, "default")
            assert again.spec["decommission"] is False
            assert DECOMMISSIONED_FOR not in again.annotations
        await workloads.fire(about, SCALE, "act-2", **{"from": "1", "to": "2"})
        assert (await workloads.api.get(Pilot, "db-1", "default")).spec["decommission"] is False

    play(scenario)


def test_a_pod_that_goes_is_out_of_service_until_it_is_gone() -> None:
    """Another pod is replaced meanwhile, so that the set has as many pods as it wants."""

    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set(replicas=2)
        for name in ("db-0", "db-1"):
            await workloads.pilot(name)
        pod = {
            "metadata": {"name": "db-1", "namespace": "default"},
            "spec": {"containers": [{"name": "db", "image": "db:1"}]},
        }
        await workloads.api.create(Pod, {"apiVersion": "v1", "kind": "Pod", **pod})
        await asyncio.sleep(5)
        await workloads.fire(about, SCALE, **{"from": "2", "to": "1"})
        await drained(workloads, "db-1")
        await asyncio.sleep(5)
        assert await replicas(workloads) == 1
        await workloads.ready("db", 1)
        await asyncio.sleep(60)
        assert (await workloads.api.get(Pilot, "db-1", "default")).spec["decommission"] is True
        assert await workloads.message() == "waiting for pods of StatefulSet db above 1 to terminate"
        await workloads.api.delete(Pod, "db-1", "default")
        await asyncio.sleep(5)
        assert (await workloads.api.get(Pilot, "db-1", "default")).spec["decommission"] is False
        assert await workloads.outcome() == ("Succeeded", "Scaled")

    play(scenario)


def test_what_a_set_has_shrunk_to_is_on_record_before_it_shrinks_on() -> None:
    """The manager was killed between the write of the set and the status."""

    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set(replicas=3)
        for name in ("db-0", "db-1", "db-2"):
            await workloads.pilot(name)
        await workloads.fire(about, SCALE, **{"from": "3", "to": "1"})
        await workloads.status(StatefulSet, "db", replicas=2, readyReplicas=2)
        await workloads.api.patch(StatefulSet, "db", "default", {"spec": {"replicas": 2}})
        await asyncio.sleep(5)
        action = await workloads.api.get(ApplicationAction, "act-1", "default")
        assert action.at("status", "after", "value") == "2"
        assert (await workloads.api.get(Pilot, "db-1", "default")).spec["decommission"] is True

    play(scenario)


def test_what_can_not_be_drained_is_taken_back() -> None:
    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set()
        await workloads.pilot("db-1")
        await asyncio.sleep(5)
        await workloads.fire(about, SCALE, **DOWN)
        await asyncio.sleep(6 * 3600)
        assert await workloads.outcome() == ("Failed", "NotInTime")
        found = await workloads.api.get(Pilot, "db-1", "default")
        assert found.spec["decommission"] is False
        assert await replicas(workloads) == 2

    play(scenario)


def test_an_unknown_owner_is_left_alone() -> None:
    async def scenario(workloads: Workloads) -> None:
        owner = await workloads.api.get(Namespace, "default")
        about = await workloads.set(owner=owner)
        await workloads.fire(about, SCALE, **UP)
        assert await workloads.outcome() == ("Declined", "NoField")
        assert await replicas(workloads) == 2

    play(scenario)


def test_a_workload_of_an_autoscaler_that_has_not_acted_is_declined() -> None:
    async def scenario(workloads: Workloads) -> None:
        about = await workloads.set()
        await workloads.api.create(CustomResourceDefinition, KEDA)
        # Caches look for kinds that were not served from time to time.
        await asyncio.sleep(60)
        scaled = {
            "apiVersion": ScaledObject.api_version,
            "kind": ScaledObject.kind,
            "metadata": {"name": "busy", "namespace": "default"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}},
        }
        await workloads.api.create(ScaledObject, scaled)
        await asyncio.sleep(60)
        await workloads.fire(about, SCALE, **UP)
        assert await workloads.outcome() == ("Declined", "Autoscaled")
        assert (
            await workloads.message() == "an autoscaler has the replicas of StatefulSet db: ScaledObject busy"
        )
        assert await replicas(workloads) == 2

    play(scenario)
