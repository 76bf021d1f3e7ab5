"""Nodes, pods, claims and volumes as small trees, and a world of them.

seen(scheduling, pod("p", cpu="1"), node("n1", cpu="2"))       # what the controller does about the first
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from pilothouse.api.objects import Object, Tree
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.intents import Intent
from pilothouse.runtime.snapshot import Snapshot, StaticView

NOW = 1_000_000.0
_numbers = itertools.count(1)


def node(name: str, *, cpu: str = "4", pods: str = "110", labels: Tree | None = None, **spec: Any) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}},
    }


def pod(
    name: str,
    *,
    cpu: str = "",
    on: str = "",
    labels: Tree | None = None,
    owner: str = "",
    claims: Iterable[str] = (),
    **spec: Any,
) -> Tree:
    container: Tree = {"name": "app", "image": "app"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    meta: Tree = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "containers": [container],
            **({"nodeName": on} if on else {}),
            **({"volumes": volumes} if volumes else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def claim(name: str = "data", *, size: str = "1Gi", status: Tree | None = None, **spec: Any) -> Tree:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {**wanted, **spec},
        "status": status or {"phase": "Pending"},
    }


def volume(name: str, *, size: str = "1Gi", on: str = "", phase: str = "Available", **spec: Any) -> Tree:
    reach: Tree = {}
    if on:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
        reach = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
            **reach,
            **spec,
        },
        "status": {"phase": phase},
    }


def storage_class(name: str, *, waits: bool = False, provisioner: str = "example.com/disks") -> Tree:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }


def namespace(name: str, **labels: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def objects(trees: Iterable[Tree | Object]) -> list[Object]:
    """The trees as a server would have them: each with a uid and a version."""
    found = []
    for tree in trees:
        if isinstance(tree, Object):
            found.append(tree)
            continue
        number = str(next(_numbers))
        meta = {"uid": f"uid-{number}", "resourceVersion": number, **tree["metadata"]}
        found.append(Object.of({**tree, "metadata": meta}))
    return found


def world(controller: Controller, trees: Iterable[Tree | Object], *, now: float = NOW) -> Snapshot:
    """A world of these, with the kinds that the controller looks at."""
    there = objects(trees)
    return Snapshot(
        {noun: StaticView(one for one in there if one.noun == noun) for noun in controller.nouns}, now=now
    )


def seen(
    controller: Controller, one: Tree | Object, *others: Tree | Object, now: float = NOW
) -> list[Intent]:
    """What the controller does about the first, with the others there too."""
    there = objects([one, *others])
    return controller(there[0], world(controller, there, now=now))
