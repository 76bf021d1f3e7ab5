"""Creates the Pilot of each pod that has a pilot process.

The Pilot has the pod's name and its labels of our group. Its owner is the cluster that controls the
StatefulSet that controls the pod, whatever labels say. It is created with all that the database needs to
start, so that no pilot reads an incomplete one. A deleted Pilot is created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from pilothouse.api.kind_names import KindName, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.api.navigator.labels import APPLICATION, CONFIGURATION, HAS_PILOT
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.runtime.controller import Controller, controller
from pilothouse.runtime.intents import Create, Intent, Wait
from pilothouse.runtime.snapshot import Snapshot

PilotSpecBuilder = Callable[[Object, Object, Iterable[Object]], Tree]
"""Builds the spec of a pod's Pilot from the cluster, the pod, and the cluster's Pilots."""
_RETRY_SECONDS: Final = 5.0


def pilot_creator(builders: Mapping[KindName, PilotSpecBuilder]) -> Controller:
    """The controller; ``builders`` has an entry for each kind of cluster whose pods have pilots."""
    kinds = {noun.kind: noun for noun in builders}

    @controller(Pod, also=Pilot, reads=(StatefulSet, *builders), name="pilots")
    def decide(pod: Object, world: Snapshot) -> Iterator[Intent]:
        """Each pod that has a pilot process has a Pilot of its name."""
        if HAS_PILOT not in pod.labels or pod.deleting or world.find(Pilot, *pod.key) is not None:
            return
        owner = pod.controller
        if owner is None or owner.get("kind") != StatefulSet.kind:
            yield _create(pod, None, _spec_without_cluster(pod))
            return
        stateful_set = world.find(StatefulSet, pod.namespace, owner["name"])
        if stateful_set is None or stateful_set.uid != owner["uid"]:
            yield _wait(f"StatefulSet {owner['name']}, which controls pod {pod.name}, does not exist")
            return
        of_set = stateful_set.controller
        noun = kinds.get(of_set.get("kind", "")) if of_set is not None else None
        if of_set is None or noun is None:
            yield _create(pod, None, _spec_without_cluster(pod))
            return
        cluster = world.find(noun, pod.namespace, of_set["name"])
        if cluster is None or cluster.uid != of_set["uid"]:
            yield _wait(f"{noun.kind} {of_set['name']}, to which pod {pod.name} belongs, does not exist")
        elif not cluster.deleting:
            yield _create(pod, cluster, builders[noun](cluster, pod, world.owned(Pilot, cluster)))

    return decide


def _create(pod: Object, cluster: Object | None, spec: Tree) -> Create:
    metadata: Tree = {
        "name": pod.name,
        "namespace": pod.namespace,
        "labels": {label: value for label, value in pod.labels.items() if label.startswith(f"{GROUP}/")},
    }
    if cluster is not None:
        metadata["annotations"] = {CONFIGURATION: configuration_hash(spec)}
        metadata["ownerReferences"] = [owner_reference(cluster)]
    tree = {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": metadata,
        "spec": spec,
    }
    return Create(tree, because=f"the pilot in pod {pod.name} waits for its Pilot")


def _spec_without_cluster(pod: Object) -> Tree:
    """For a database that no cluster manages: its pilot starts it with the driver's defaults."""
    application = pod.annotations.get(APPLICATION)
    return {"application": application} if application else {}


def _wait(because: str) -> Wait:
    return Wait("OwnerUnknown", because=because, seconds=_RETRY_SECONDS)
