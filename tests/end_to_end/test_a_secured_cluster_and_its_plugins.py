"""A cluster with encryption and users on `pilothouse up`: who may come in, plugins that are rolled out or told to have failed, and a certificate that is made anew."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.kit.elasticsearch_on_up import ElasticsearchOnUp, ObservedNode, archive, pool
from tests.kit.elasticsearch_plugins import plugin
from tests.kit.file_server import serving_files
from tests.kit.real_elasticsearch import unpacked
from tests.kit.tools import MissingTool
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import Pod, Secret
from pilothouse.api.objects import Object

VERSION = "8.17.0"
NODE = "es-safe-data-0"


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_who_may_come_in_plugins_and_another_certificate(tmp_path: Path) -> None:
    archive(VERSION)
    try:
        home = await asyncio.to_thread(unpacked, VERSION, tmp_path)
        await asyncio.to_thread(plugin, home, tmp_path, "greeting", VERSION)
        await asyncio.to_thread(plugin, home, tmp_path, "elder", VERSION, fits="7.0.0")
    except MissingTool as missing:
        pytest.skip(str(missing))
    with serving_files(tmp_path) as url:
        async with ElasticsearchOnUp.open(tmp_path / "up", versions=(VERSION,)) as installation:
            safe = await installation.cluster("safe", pools=[pool("data", 1)], version=VERSION, security={})
            await safe.until(lambda seen: seen.is_done and seen.reason("Secured") == "Enabled")

            # The password opens, nothing else does, and the certificate is good for the service's name.
            door = await Door.of(installation, await safe.address())
            assert (await door.ask("/_cluster/health"))[1]["status"] == "green"
            assert (await door.ask("/", password=""))[0] == 401
            assert (await door.ask("/", password="a guess"))[0] == 401

            # Plugins are rolled out by the hash of the configuration.
            await safe.patch({"plugins": [{"name": "greeting", "url": f"{url}/greeting.zip"}]})
            await safe.until(lambda seen: seen.is_done and plugins(seen) == {"greeting": "Installed"})
            [there] = (await door.ask("/_nodes/plugins"))[1]["nodes"].values()
            assert [each["name"] for each in there["plugins"]] == ["greeting"]

            # One that does not fit is told in the installer's words; taken back, things go on.
            await safe.patch({"plugins": [{"name": "elder", "url": f"{url}/elder.zip"}]})
            failed = await safe.until(lambda seen: plugins(seen) == {"elder": "Failed"})
            [told] = failed.pilot(NODE).at("status", "elasticsearch", "plugins")
            assert "was built for Elasticsearch version 7.0.0" in told["message"]
            await safe.patch({"plugins": []})
            await safe.until(lambda seen: seen.is_done and not plugins(seen))

            # The authority signs another certificate, and the pods are made anew with it.
            before = await pod(installation)
            await installation.api.delete(Secret, "es-safe-certificates", "default")

            async def made_anew() -> bool:
                return (await pod(installation)).uid != before.uid

            await eventually(made_anew, seconds=300)
            await safe.until(lambda seen: seen.is_done and seen.reason("Secured") == "Enabled")
            assert (await door.ask("/_cluster/health"))[1]["status"] == "green"


def plugins(seen: ObservedNode) -> dict[str, str]:
    """What becomes of each plugin on the one node."""
    found = seen.pilot(NODE).at("status", "elasticsearch", "plugins", default=())
    return {each["name"]: each["status"] for each in found}


async def pod(installation: ElasticsearchOnUp) -> Object:
    found = await installation.api.find(Pod, NODE, "default")
    return found if found is not None else Object.of({"apiVersion": "v1", "kind": "Pod", "metadata": {}})


class Door:
    """The cluster's service, as a client knows it who has its Secrets."""

    def __init__(self, address: str, authority: str, password: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._context = ssl.create_default_context(cadata=authority)
        self._password = password

    @classmethod
    async def of(cls, installation: ElasticsearchOnUp, address: str) -> Door:
        certificates = await installation.api.get(Secret, "es-safe-certificates", "default")
        users = await installation.api.get(Secret, "es-safe-users", "default")
        authority = base64.b64decode(certificates["data"]["ca.crt"]).decode()
        return cls(address, authority, base64.b64decode(users["data"]["elastic"]).decode())

    async def ask(self, path: str, password: str | None = None) -> tuple[int, Any]:
        given = self._password if password is None else password
        return await eventually(lambda: self._answered(path, given), seconds=60)

    async def _answered(self, path: str, password: str) -> tuple[int, Any] | None:
        """None if nobody is there yet: a service hears of its pods a moment after the cluster does."""
        try:
            return await asyncio.to_thread(self._asked, path, password)
        except ConnectionRefusedError:
            return None

    def _asked(self, path: str, password: str) -> tuple[int, Any]:
        headers = {}
        if password:
            known = base64.b64encode(f"elastic:{password}".encode()).decode()
            headers = {"Authorization": f"Basic {known}"}
        connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        with socket.create_connection((self._host, self._port), timeout=60) as plain:
            connection.sock = self._context.wrap_socket(plain, server_hostname="es-safe.default.svc")
            with connection.sock:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
