"""Two nodes of a real Elasticsearch with encryption and users: they trust each other, their pilots know the password, and nobody else gets in."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit.ordinary_user import ordinary_folder
from tests.kit.ours import PilothouseServer
from tests.kit.real_elastic import ANY_DISK, HEAP, PilotedNode, addresses, unpacked
from tests.kit.tools import MissingTool
from tests.kit.waiting import eventually

from pilothouse.api.navigator.labels import CLUSTER_NAME
from pilothouse.api.nouns import ElasticsearchCluster, Pilot
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.base.clock import SystemClock
from pilothouse.client.http import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.rest import Api
from pilothouse.controllers.elasticsearch.securing import node_names
from pilothouse.pki.authority import Authority

NAMES = ("es-safe-data-0", "es-safe-data-1")
PASSWORD = "a-password-of-ours"
SECONDS = 240.0
CLUSTER: Tree = {
    "apiVersion": ElasticsearchCluster.api_version,
    "kind": ElasticsearchCluster.kind,
    "metadata": {"name": "safe", "namespace": "default"},
    "spec": {
        "version": "8.17.0",
        "security": {},
        "nodePools": [{"name": "data", "replicas": 2, "roles": ["data", "master"]}],
    },
}


def mounted(folder: Path) -> dict[str, str]:
    """The Secrets, as a pod has them."""
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.make("the authority of safe", now)
    own = authority.peer("safe", node_names(Object.of(CLUSTER)), now)
    files = {"ca.crt": authority.certificate, "tls.crt": own.certificate, "tls.key": own.key}
    for place, content in (("certificates", files), ("users", {"elastic": PASSWORD.encode()})):
        (folder / place).mkdir()
        for name, data in content.items():
            (folder / place / name).write_bytes(data)
    return {"ES_CERTIFICATES": str(folder / "certificates"), "ES_USERS": str(folder / "users")}


def ask(node: PilotedNode, trusted: Path, path: str, password: str = "", name: str = "") -> tuple[int, Any]:
    """As a client would: by a name of the certificate, trusting the cluster's authority alone."""
    context = ssl.create_default_context(cafile=str(trusted))
    context.check_hostname = bool(name)
    request = urllib.request.Request(f"https://{node.address}:9200{path}")
    if password:
        known = base64.b64encode(f"elastic:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {known}")
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, None


@pytest.mark.long
@pytest.mark.skipif(
    "PILOTHOUSE_SOAK" not in os.environ,
    reason="a voyage shows the same on `pilothouse up`; a soak tries it with the earlier version and pilots alone too",
)
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["7.17.29"])
async def test_nodes_and_pilots_know_each_other_and_nobody_else(tmp_path: Path, version: str) -> None:
    with ordinary_folder() as folder:
        folder.chmod(0o755)
        try:
            home = await asyncio.to_thread(unpacked, version, folder)
        except MissingTool as missing:
            pytest.skip(str(missing))
        secrets = mounted(folder)
        server = PilothouseServer(tmp_path / "server", "memory")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(server.target.kubeconfig.read_bytes())
        kubeconfig.chmod(0o644)
        where = dict(zip(NAMES, addresses(len(NAMES)), strict=True))
        nodes = [
            PilotedNode(name, address, home, folder, kubeconfig, environ=secrets)
            for name, address in where.items()
        ]
        try:
            async with HttpTransport.open(load(kubeconfig), SystemClock(), agent="test") as transport:
                api = Api(transport, Random(1), manager="test")
                cluster = await api.create(ElasticsearchCluster, CLUSTER)
                for node in nodes:
                    node.start()
                    await api.create(Pilot, _pilot(cluster, node.name, list(where.values())))

                async def pilot(name: str, is_so: Callable[[Object], bool]) -> Object:
                    async def looked() -> Object | None:
                        found = await api.get(Pilot, name, "default")
                        return found if is_so(found) else None

                    return await eventually(looked, seconds=SECONDS)

                for name in NAMES:
                    ready = await pilot(name, lambda one: one.is_true("Ready"))
                    assert ready.at("status", "elasticsearch", "security") == "Enabled"
                trusted = folder / "certificates" / "ca.crt"
                status, health = await asyncio.to_thread(
                    ask, nodes[0], trusted, "/_cluster/health?wait_for_nodes=2&timeout=60s", PASSWORD
                )
                assert (status, health["number_of_nodes"]) == (200, 2)
                assert (await asyncio.to_thread(ask, nodes[0], trusted, "/"))[0] == 401
                assert (await asyncio.to_thread(ask, nodes[1], trusted, "/", "a-guess"))[0] == 401
                with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
                    await asyncio.to_thread(
                        ask, nodes[0], Path(ssl.get_default_verify_paths().openssl_cafile), "/"
                    )
                key = folder / NAMES[0] / "config" / "certificates" / "tls.key"
                assert (await asyncio.to_thread(os.stat, key)).st_mode & 0o077 == 0
        finally:
            for node in nodes:
                if node.process is not None:
                    node.process.popen.terminate()
            for node in nodes:
                if node.process is not None:
                    node.process.popen.terminate()
                    node.end()
            server.close()


def _pilot(cluster: Object, name: str, seeds: list[str]) -> Tree:
    settings = {
        **ANY_DISK,
        "cluster.name": "safe",
        "discovery.seed_hosts": seeds,
        "cluster.initial_master_nodes": list(NAMES),
        "xpack.security.enabled": True,
    }
    return {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {CLUSTER_NAME["ElasticsearchCluster"]: "safe"},
            "ownerReferences": [owner_reference(cluster)],
        },
        "spec": {
            "application": "elasticsearch",
            "configuration": {"settings": settings, "environment": {"ES_JAVA_OPTS": HEAP}},
            "elasticsearch": {"nodePool": "data", "roles": ["data", "master"]},
        },
    }
