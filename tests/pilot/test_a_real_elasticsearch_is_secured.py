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
from pathlib import Path
from typing import Any

import pytest
from tests.kit.ordinary_user import ordinary_folder
from tests.kit.pilots import cluster_tree, piloted
from tests.kit.real_elasticsearch import PilotedNode, unpacked
from tests.kit.tools import MissingTool

from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.desired.security import node_names
from pilothouse.pki.authority import Authority

NAMES = ("es-safe-data-0", "es-safe-data-1")
PASSWORD = "a-password-of-ours"
VERSION = "7.17.29"
CLUSTER = cluster_tree("safe", nodes=len(NAMES), version=VERSION, security={})


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
async def test_nodes_and_pilots_know_each_other_and_nobody_else(tmp_path: Path) -> None:
    with ordinary_folder() as folder:
        folder.chmod(0o755)
        try:
            home = await asyncio.to_thread(unpacked, VERSION, folder)
        except MissingTool as missing:
            pytest.skip(str(missing))
        secrets = mounted(folder)
        secured = {"xpack.security.enabled": True}
        async with piloted(
            CLUSTER, NAMES, home, folder, tmp_path / "server", settings=secured, environ=secrets
        ) as safe:
            for name in NAMES:
                ready = await safe.pilot(name, lambda one: one.is_true("Ready"))
                assert ready.at("status", "elasticsearch", "security") == "Enabled"
            one, two = (safe.nodes[name] for name in NAMES)
            trusted = folder / "certificates" / "ca.crt"
            status, health = await asyncio.to_thread(
                ask, one, trusted, "/_cluster/health?wait_for_nodes=2&timeout=60s", PASSWORD
            )
            assert (status, health["number_of_nodes"]) == (200, 2)
            assert (await asyncio.to_thread(ask, one, trusted, "/"))[0] == 401
            assert (await asyncio.to_thread(ask, two, trusted, "/", "a-guess"))[0] == 401
            with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
                await asyncio.to_thread(ask, one, Path(ssl.get_default_verify_paths().openssl_cafile), "/")
            key = folder / NAMES[0] / "config" / "certificates" / "tls.key"
            assert (await asyncio.to_thread(os.stat, key)).st_mode & 0o077 == 0
