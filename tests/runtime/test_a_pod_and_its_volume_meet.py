"""Scheduler, claims and volumes at work together on a real server."""

from __future__ import annotations

from tests.kit.scheduling_objects import claim, node, pod, storage_class, volume
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from pilothouse.api.objects import Tree
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.storage.claim_binder import claims
from pilothouse.controllers.storage.protection import claim_protection, volume_protection
from pilothouse.controllers.storage.volume_lifecycle import volumes

ALL = [scheduling, claims, volumes, claim_protection, volume_protection]
NOBODY = "kubernetes.io/no-provisioner"


def fresh(tree: Tree) -> Tree:
    """As a user writes it: the server gives uid and status."""
    meta = {name: value for name, value in tree["metadata"].items() if name != "uid"}
    return {**{name: value for name, value in tree.items() if name != "status"}, "metadata": meta}


async def join(bench: Bench, tree: Tree) -> None:
    await bench.api.create(Node, fresh(tree))
    await bench.api.patch(
        Node, tree["metadata"]["name"], "", {"status": tree["status"]}, subresource="status"
    )


async def local(bench: Bench, *, waits: bool) -> None:
    await bench.api.create(StorageClass, storage_class("local", waits=waits, provisioner=NOBODY))
    await join(bench, node("n1"))
    await join(bench, node("n2"))
    await bench.api.create(PersistentVolume, fresh(volume("v2", storageClassName="local", on="n2")))
    await bench.api.create(PersistentVolumeClaim, fresh(claim(storageClassName="local")))


async def phases(bench: Bench) -> tuple[str, str]:
    held = await bench.api.get(PersistentVolume, "v2")
    asked = await bench.api.get(PersistentVolumeClaim, "data", "default")
    return held.status["phase"], asked.status["phase"]


def test_a_pod_goes_where_the_only_volume_is(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage(ALL)
        await local(bench, waits=True)
        await bench.settle()
        assert await phases(bench) == ("Available", "Pending")
        await bench.api.create(Pod, fresh(pod("p", claims=["data"])))
        await bench.settle()
        assert await phases(bench) == ("Bound", "Bound")
        assert (await bench.api.get(Pod, "p", "default")).spec["nodeName"] == "n2"
        before = bench.server.revision
        await bench.settle(1800)
        assert bench.server.revision == before

    bench.run(scenario)


def test_a_claim_in_use_stays_and_its_volume_is_kept_when_it_goes(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage(ALL)
        await local(bench, waits=False)
        await bench.settle()
        assert await phases(bench) == ("Bound", "Bound")
        await bench.api.create(Pod, fresh(pod("p", claims=["data"])))
        await bench.settle()
        await bench.api.delete(PersistentVolumeClaim, "data", "default")
        await bench.settle()
        assert (await bench.api.get(PersistentVolumeClaim, "data", "default")).deleting
        await bench.api.delete(Pod, "p", "default", grace=0)
        await bench.settle()
        assert await bench.api.find(PersistentVolumeClaim, "data", "default") is None
        assert (await bench.api.get(PersistentVolume, "v2")).status["phase"] == "Released"

        await bench.api.patch(PersistentVolume, "v2", "", {"spec": {"claimRef": None}})
        await bench.settle()
        assert (await bench.api.get(PersistentVolume, "v2")).status["phase"] == "Available"
        await bench.api.delete(PersistentVolume, "v2")
        await bench.settle()
        assert await bench.api.find(PersistentVolume, "v2") is None

    bench.run(scenario)


def test_a_claim_says_on_itself_what_it_waits_for(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage(ALL)
        await bench.api.create(PersistentVolumeClaim, fresh(claim()))
        await bench.settle()
        waiting = (await bench.api.get(PersistentVolumeClaim, "data", "default")).condition("Bound")
        assert waiting is not None
        assert (waiting["status"], waiting["reason"]) == ("False", "NoVolume")
        assert "create a volume" in waiting["message"]
        await bench.api.create(PersistentVolume, fresh(volume("v2")))
        await bench.settle()
        done = await bench.api.get(PersistentVolumeClaim, "data", "default")
        assert done.is_true("Bound")
        assert done.status["capacity"] == {"storage": "1Gi"}

    bench.run(scenario)
