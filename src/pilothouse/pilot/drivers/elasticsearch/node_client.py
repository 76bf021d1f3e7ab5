"""Requests to the node beside us.

    node = ElasticsearchClient("127.70.4.1", secrets=None)
    state = await node.get("/_cluster/state/nodes", local="true")
    await node.put("/_cluster/settings", {"persistent": {...}})

Each request has its own connection: there are few, and one that hangs delays nothing else.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from pilothouse.api.objects import Tree
from pilothouse.client.connection_pool import PooledConnection
from pilothouse.client.http_parser import MalformedAnswer
from pilothouse.client.transport import ClientResponse
from pilothouse.pilot.driver import HookFailed
from pilothouse.pilot.drivers.elasticsearch.tls_and_users import USER, MountedSecrets

PORT: Final = 9200
SECONDS: Final = 10.0
_LONGEST: Final = 2**23
"""Bytes of an answer: the list of 100,000 shards has about as many. While the node is down another program
may listen in its place, and its answer would take the node's memory."""
_SAID: Final = 2000
"""Characters of an error that are reported."""


class NodeRequestFailed(Exception):
    """The node does not answer as asked. ``code`` is the HTTP status, 0 without one; ``listens`` is False if
    the connection was refused."""

    def __init__(self, message: str, code: int = 0, *, listens: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.listens = listens


class ElasticsearchClient:
    """With ``secrets``, requests are encrypted and authenticated."""

    def __init__(self, address: str, port: int = PORT, *, secrets: MountedSecrets | None) -> None:
        self._address = address
        self._port = port
        self._secrets = secrets

    async def get(self, path: str, **query: str) -> Tree:
        return await self._ask("GET", path, query)

    async def put(self, path: str, body: Tree) -> Tree:
        return await self._ask("PUT", path, {}, body)

    async def post(self, path: str, **query: str) -> Tree:
        return await self._ask("POST", path, query)

    async def delete(self, path: str, **query: str) -> Tree:
        return await self._ask("DELETE", path, query)

    async def _ask(self, method: str, path: str, query: dict[str, str], body: Tree | None = None) -> Tree:
        """Raises ``NodeRequestFailed``."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            data = self._encoded(method, target, body)
            tls = self._secrets.context() if self._secrets is not None else None
            async with asyncio.timeout(SECONDS):
                answer = await self._exchange(data, tls)
            if answer.status == 401 and self._secrets is not None:
                raise NodeRequestFailed(
                    f"{method} {path}: Elasticsearch rejects the password of {USER} in "
                    f"{self._secrets.users}: put the right one into the Secret that is mounted there",
                    answer.status,
                )
            if answer.status >= 300:
                said = f"{method} {path}: {answer.status}: {_reason(answer.body)}"
                raise NodeRequestFailed(said, answer.status)
            found: Any = msgspec.json.decode(answer.body) if answer.body else {}
        except (OSError, MalformedAnswer, HookFailed, msgspec.DecodeError, RecursionError) as problem:
            listens = not isinstance(problem, ConnectionRefusedError)
            said = str(problem) or "no answer in time"
            raise NodeRequestFailed(f"{method} {path}: {said}", listens=listens) from None
        return found if isinstance(found, dict) else {}

    def _encoded(self, method: str, target: str, body: Tree | None) -> bytes:
        data = msgspec.json.encode(body) if body is not None else b""
        fields = {"Host": f"{self._address}:{self._port}", "Connection": "close"}
        if self._secrets is not None:
            fields["Authorization"] = self._secrets.authorization()
        if body is not None:
            fields["Content-Type"] = "application/json"
        if data or method != "GET":
            fields["Content-Length"] = str(len(data))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + data

    async def _exchange(self, data: bytes, tls: ssl.SSLContext | None) -> ClientResponse:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: PooledConnection(loop, tls), self._address, self._port, ssl=tls
        )
        try:
            return await connection.exchange(data, bodiless=False, longest=_LONGEST)
        finally:
            connection.close()


def _reason(text: bytes) -> str:
    """Elasticsearch's message."""
    try:
        error = msgspec.json.decode(text).get("error")
        said = error.get("reason") if isinstance(error, dict) else error
    except (msgspec.DecodeError, AttributeError, RecursionError):
        said = None
    return str(said or text[:200].decode(errors="replace"))[:_SAID]
