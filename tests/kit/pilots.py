"""Pilots of a cluster that no controller looks after: they are made here as it would make them.

cluster = await api.create(ElasticsearchCluster, cluster_tree("demo", nodes=3, version="8.17.0"))
await api.create(Pilot, pilot_tree(cluster, "es-demo-data-0"))
ready = await pilot_when(api, "es-demo-data-0", "default", lambda pilot: pilot.is_true("Ready"))

async with piloted(cluster_tree(...), names, home, folder, server) as fleet:      # with a real node beside each
    fleet.nodes["es-demo-data-0"].ask("GET", "/")
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.real_elasticsearch import ANY_DISK, HEAP, PilotedNode, addresses
from tests.kit.waiting import eventually

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.kind_names import ElasticsearchCluster, Namespace, Pilot
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

SECONDS = 240.0
"""For a node that starts on a machine that has other things to do."""
_ROLES = ["data", "master"]


def cluster_tree(name: str, *, nodes: int, version: str, namespace: str = "default", **spec: Any) -> Tree:
    """A cluster with one pool."""
    pool = {"name": "data", "replicas": nodes, "roles": _ROLES}
    return {
        "apiVersion": ElasticsearchCluster.api_version,
        "kind": ElasticsearchCluster.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"version": version, "nodePools": [pool], **spec},
    }


def pilot_tree(cluster: Object, name: str, settings: Mapping[str, Any] | None = None) -> Tree:
    """The Pilot of one of its nodes."""
    return {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": {ELASTICSEARCH.cluster_label: cluster.name},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {
            "application": "elasticsearch",
            "configuration": {"settings": dict(settings or {}), "environment": {"ES_JAVA_OPTS": HEAP}},
            "elasticsearch": {"nodePool": "data", "roles": _ROLES},
        },
    }


async def pilot_when(
    api: Api, name: str, namespace: str, is_so: Callable[[Object], bool], *, seconds: float = 90
) -> Object:
    """A Pilot, once it is so."""

    async def looked() -> Object | None:
        found = await api.get(Pilot, name, namespace)
        return found if is_so(found) else None

    return await eventually(looked, seconds=seconds)


@dataclass(frozen=True)
class Fleet:
    """Real nodes of one cluster, and the server that their pilots follow."""

    api: Api
    kubeconfig: Path
    namespace: str
    nodes: Mapping[str, PilotedNode]

    async def pilot(self, name: str, is_so: Callable[[Object], bool]) -> Object:
        """The Pilot, once it is so."""
        return await pilot_when(self.api, name, self.namespace, is_so, seconds=SECONDS)


@contextlib.asynccontextmanager
async def piloted(
    cluster: Tree,
    names: Sequence[str],
    home: Path,
    folder: Path,
    server: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Fleet]:
    """Nodes that are about to form the cluster, all of them masters. ``folder`` is theirs, ``server`` that of the API server."""
    namespace = cluster["metadata"]["namespace"]
    with contextlib.closing(PilothouseServer(server, "memory")) as plane:
        kubeconfig = folder / "kubeconfig"
        shutil.copy(plane.target.kubeconfig, kubeconfig)
        kubeconfig.chmod(0o644)
        where = dict(zip(names, addresses(len(names)), strict=True))
        nodes = {
            name: PilotedNode(name, address, home, folder, kubeconfig, namespace=namespace, environ=environ)
            for name, address in where.items()
        }
        forming = {
            **ANY_DISK,
            "cluster.name": cluster["metadata"]["name"],
            "discovery.seed_hosts": list(where.values()),
            "cluster.initial_master_nodes": list(names),
        }
        try:
            async with HttpTransport.open(load(kubeconfig), SystemClock(), agent="test") as transport:
                api = Api(transport, Random(1), manager="test")
                if namespace != "default":
                    await api.create(Namespace, {"metadata": {"name": namespace}})
                made = await api.create(ElasticsearchCluster, cluster)
                for name, node in nodes.items():
                    node.start()
                    await api.create(Pilot, pilot_tree(made, name, {**forming, **(settings or {})}))
                yield Fleet(api, kubeconfig, namespace, nodes)
        finally:
            _end(list(nodes.values()))


def _end(nodes: Sequence[PilotedNode]) -> None:
    running = [node for node in nodes if node.process is not None]
    for node in running:
        node.hurry()
    for node in running:
        # Nobody is left to answer: who is told twice need not end gently.
        node.hurry()
        node.end()
