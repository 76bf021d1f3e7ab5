"""A pod is evicted for the condition of another object only while the server has it: caches may be late."""

from __future__ import annotations

from collections.abc import Iterator

from tests.kit.scheduling_objects import claim, pod
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, PersistentVolumeClaim, Pod
from pilothouse.api.local_volumes import VOLUME_MOVE
from pilothouse.api.objects import Object, Tree
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Evict, Intent, SeenCondition
from pilothouse.runtime.snapshot import Snapshot


def fresh(tree: Tree) -> Tree:
    """As a user writes it: the server gives uid and status."""
    meta = {name: value for name, value in tree["metadata"].items() if name != "uid"}
    return {**{name: value for name, value in tree.items() if name != "status"}, "metadata": meta}


async def says(bench: Bench, reason: str, message: str = "") -> Object:
    condition = {"type": VOLUME_MOVE, "status": "True", "reason": reason, "message": message}
    status = {"status": {"conditions": [condition]}}
    return await bench.api.patch(PersistentVolumeClaim, "data", "default", status, subresource="status")


def test_no_pod_is_evicted_for_a_condition_that_is_over(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.api.create(PersistentVolumeClaim, fresh(claim()))
        await bench.api.create(Pod, fresh(pod("p", claims=["data"])))
        late = await says(bench, "AwaitingRestart", "90 % copied")
        await says(bench, "AwaitingReady")

        @controller(ConfigMap, reads=(Pod, PersistentVolumeClaim))
        def evictions(one: Object, world: Snapshot) -> Iterator[Intent]:
            """Decides by what was cached before the claim changed."""
            for each in world.all(Pod, one.namespace):
                premise = SeenCondition(late, VOLUME_MOVE)
                yield Evict(each, because="its node waits for that", by="tests", premise=premise)

        meta = {"name": "a", "namespace": "default"}
        await bench.api.create(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        bench.manage([evictions])
        await bench.settle(60)
        assert not (await bench.api.get(Pod, "p", "default")).deleting

        # Another message about the same is no reason to wait.
        await says(bench, "AwaitingRestart", "100 % copied")
        await bench.settle(300)
        left = await bench.api.find(Pod, "p", "default")
        assert left is None or left.deleting

    bench.run(scenario)
