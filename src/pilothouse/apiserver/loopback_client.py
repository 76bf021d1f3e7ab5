"""The server's own requests to itself.

    client = LoopbackClient(core)
    pod = await client.find(Pod, "default", "web-0")
    await client.patch(pod, {"status": {...}}, "status")

They need no connection, but are otherwise handled like any client's.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec

from pilothouse.api.kind_names import KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.messages import Request, Response, User
from pilothouse.meta.errors import StatusError

_SELF: Final = User("system:apiserver", groups=(MASTERS,))
_MANAGER: Final = "pilothouse-apiserver"
_JSON, _MERGE = "application/json", "application/merge-patch+json"


class Refused(Exception):
    """The server refused the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LoopbackClient:
    def __init__(self, core: RequestHandler) -> None:
        self._core = core

    async def find(self, noun: KindName, namespace: str, name: str) -> Object | None:
        """None if there is none. Raises ``Refused``."""
        try:
            return Object(noun, await self._ask("GET", noun.path(namespace, name)))
        except StatusError:
            # A name that none can have.
            return None
        except Refused as problem:
            if problem.status != 404:
                raise
            return None

    async def list(self, noun: KindName, namespace: str = "", **query: str) -> list[Object]:
        """Raises ``Refused``."""
        body = await self._ask("GET", noun.path(namespace), query)
        return [Object(noun, each) for each in msgspec.json.decode(body)["items"]]

    async def create(self, noun: KindName, tree: Tree) -> None:
        """Raises ``Refused``."""
        path = noun.path(str(tree["metadata"].get("namespace") or ""))
        sent = {"apiVersion": noun.api_version, "kind": noun.kind, **tree}
        await self._ask("POST", path, {"fieldManager": _MANAGER}, sent)

    async def patch(self, one: Object, fields: Tree, subresource: str = "") -> None:
        """Merge these fields. Raises ``Refused``."""
        path = one.noun.path(one.namespace, one.name, subresource)
        await self._ask("PATCH", path, {"fieldManager": _MANAGER}, fields, _MERGE)

    async def delete(self, one: Object) -> None:
        """Raises ``Refused``."""
        await self._ask("DELETE", one.noun.path(one.namespace, one.name))

    async def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Tree | None = None,
        content: str = _JSON,
    ) -> bytes:
        headers = {"Accept": _JSON, "Content-Type": content}
        sent = msgspec.json.encode(body) if body is not None else b""
        encoded = urlencode(query or {})
        request = Request(method, path, encoded, headers, sent, _SELF, warnings=[], annotations={})
        answer = await self._core.answer(request)
        assert isinstance(answer, Response), path
        received = bytes(answer.body)
        if answer.status not in (200, 201):
            raise Refused(answer.status, str(msgspec.json.decode(received).get("message", answer.status)))
        return received
