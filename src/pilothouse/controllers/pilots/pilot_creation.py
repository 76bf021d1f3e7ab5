"""A pod that has a pilot process gets its Pilot, without which the process would wait for ever.

    intents = pilots(pod, world)          # one Create, or none

The Pilot has the pod's name and its labels of ours, and belongs to the cluster that the pod is of: the one that controls the set that
controls the pod, whatever labels say. It comes with all that the database needs to start, so that no process ever sees one that is half done. A Pilot
that somebody deletes is made again, with the configuration that counts by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot, Pod, StatefulSet
from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.api.navigator.labels import APPLICATION, CONFIGURATION, HAS_PILOT
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.controllers.elasticsearch.desired.pilot_specs import new_pilot_spec
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Create, Intent, Wait
from pilothouse.runtime.snapshot import Snapshot

_AGAIN: Final = 5.0


@controller(Pod, also=Pilot, reads=(StatefulSet, ElasticsearchCluster))
def pilots(pod: Object, world: Snapshot) -> Iterator[Intent]:
    """Each pod that has a pilot process has a Pilot of its name."""
    if HAS_PILOT not in pod.labels or pod.deleting or world.find(Pilot, pod.namespace, pod.name) is not None:
        return
    owner = pod.controller
    if owner is None or owner.get("kind") != StatefulSet.kind:
        yield _made(pod, None, _alone(pod))
        return
    stateful_set = world.find(StatefulSet, pod.namespace, owner["name"])
    if stateful_set is None or stateful_set.uid != owner["uid"]:
        yield _unknown(f"the set {owner['name']} that controls pod {pod.name} is not there")
        return
    of_set = stateful_set.controller
    if of_set is None or of_set.get("kind") != ElasticsearchCluster.kind:
        yield _made(pod, None, _alone(pod))
        return
    cluster = world.find(ElasticsearchCluster, pod.namespace, of_set["name"])
    if cluster is None or cluster.uid != of_set["uid"]:
        yield _unknown(f"the cluster {of_set['name']} that pod {pod.name} is of is not there")
    elif not cluster.deleting:
        yield _made(pod, cluster, new_pilot_spec(cluster, pod, world.owned(Pilot, cluster)))


def _made(pod: Object, cluster: Object | None, spec: Tree) -> Create:
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
    return Create(tree, because=f"pod {pod.name} has a pilot, which waits for its Pilot")


def _alone(pod: Object) -> Tree:
    """Of a database that no cluster looks after: its pilot starts it with what it finds."""
    application = pod.annotations.get(APPLICATION)
    return {"application": application} if application else {}


def _unknown(because: str) -> Wait:
    return Wait("OwnerUnknown", because=because, seconds=_AGAIN)
