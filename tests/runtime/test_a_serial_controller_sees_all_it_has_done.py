"""Pods are placed one at a time on a real server: no space is given away twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.kit.scheduling_objects import node, pod
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, CoreEvent, Node, Pod
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.controller import ReconcileKey, controller
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intents import Create, Intent
from pilothouse.runtime.snapshot import Snapshot


def fresh(tree: Tree) -> Tree:
    """As a user writes it: the server gives uid and status."""
    meta = {name: value for name, value in tree["metadata"].items() if name != "uid"}
    return {**tree, "metadata": meta}


async def join(bench: Bench, tree: Tree) -> None:
    await bench.api.create(Node, tree)
    await bench.api.patch(
        Node, tree["metadata"]["name"], "", {"status": tree["status"]}, subresource="status"
    )


def test_no_space_is_given_away_twice(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        for name in ("n1", "n2"):
            await join(bench, node(name, cpu="3"))
        bench.manage([scheduling])
        for number in range(10):
            await bench.api.create(Pod, fresh(pod(f"p{number}", cpu="1")))
        await bench.settle()
        pods = (await bench.api.list(Pod)).objects
        assert Counter(one.spec.get("nodeName") for one in pods) == {"n1": 3, "n2": 3, None: 4}
        left = next(one for one in pods if not one.spec.get("nodeName"))
        told = left.condition("PodScheduled")
        assert told is not None
        assert told["message"] == "0/2 nodes are available: 2 Insufficient cpu."
        events = [
            one for one in (await bench.api.list(CoreEvent)).objects if one["reason"] == "FailedScheduling"
        ]
        assert {one["involvedObject"]["name"] for one in events} == {
            one.name for one in pods if not one.spec.get("nodeName")
        }

        gone = next(one for one in pods if one.spec.get("nodeName"))
        await bench.api.delete(Pod, gone.name, "default", grace=0)
        await join(bench, node("n3", cpu="2"))
        await bench.settle()
        pods = (await bench.api.list(Pod)).objects
        assert Counter(one.spec.get("nodeName") for one in pods) == {"n1": 3, "n2": 3, "n3": 2, None: 1}
        placed = next(one for one in pods if one.name == left.name)
        if placed.spec.get("nodeName"):
            # Why it had none is not told of a pod that has a node.
            assert "message" not in (placed.condition("PodScheduled") or {})

    bench.run(scenario)


@controller(ConfigMap, serial=True, name="limited")
def limited(one: Object, world: Snapshot) -> Iterator[Intent]:
    """At most three shadows, whoever asks."""
    if one.name.startswith("shadow") or len(world.all(ConfigMap, "default")) >= 13:
        return
    meta = {"generateName": "shadow-", "namespace": "default"}
    yield Create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, because="there is room for one more"
    )


def test_each_decision_has_what_the_others_wrote_in_view(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        present = len((await bench.api.list(ConfigMap, "default")).objects)
        for number in range(10 - present):
            meta = {"name": f"m{number}", "namespace": "default"}
            await bench.api.create(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        bench.manage([limited])
        await bench.settle()
        assert len((await bench.api.list(ConfigMap, "default")).objects) == 13

    bench.run(scenario)


class Cache:
    """A cache of pods that is as far as it is told."""

    revision = 0

    def __init__(self, found: Object | None) -> None:
        self.found = found

    def get(self, namespace: str, name: str) -> Object | None:
        return self.found


def a_version(number: int, **spec: str) -> Object:
    meta = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": str(number)}
    return Object.of({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def test_a_bound_pod_is_waited_for_though_another_has_changed_it() -> None:
    expectations, key, seen = Expectations(), ReconcileKey(Pod, "", ""), a_version(5)
    expectations.bound(key, Pod, seen)
    assert expectations.missing(key, {Pod: Cache(seen)}) == {Pod}
    assert expectations.missing(key, {Pod: Cache(a_version(6))}) == {Pod}
    assert expectations.missing(key, {Pod: Cache(a_version(7, nodeName="n1"))}) == frozenset()


def test_a_bound_pod_that_is_gone_is_not_waited_for() -> None:
    expectations, key = Expectations(), ReconcileKey(Pod, "", "")
    expectations.bound(key, Pod, a_version(5))
    assert expectations.missing(key, {Pod: Cache(None)}) == frozenset()


def test_a_deleted_pod_is_waited_for_though_another_has_changed_it() -> None:
    expectations, key = Expectations(), ReconcileKey(Pod, "", "")
    expectations.gone(key, Pod, a_version(5))
    assert expectations.missing(key, {Pod: Cache(a_version(6))}) == {Pod}
    assert expectations.missing(key, {Pod: Cache(None)}) == frozenset()


def test_an_evicted_pod_is_waited_for_until_it_goes() -> None:
    expectations, key = Expectations(), ReconcileKey(Pod, "", "")
    expectations.evicted(key, Pod, a_version(5))
    assert expectations.missing(key, {Pod: Cache(a_version(6))}) == {Pod}
    going = a_version(7)
    going = Object.of({**going.tree, "metadata": {**going.meta, "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert expectations.missing(key, {Pod: Cache(going)}) == frozenset()
