"""Requests to the node beside us, and to no other.

    node = Node("127.70.4.1")
    state = await node.get("/_cluster/state/nodes", local="true")
    await node.put("/_cluster/settings", {"persistent": {...}})

A connection for each request: there are few, and one that hangs holds up nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import aiohttp
import msgspec

from pilothouse.api.objects import Tree

PORT: Final = 9200
SECONDS: Final = 10.0


class Unanswered(Exception):
    """The node does not answer, or not with what was asked for. ``code`` is the HTTP status, 0 if there was none."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Node:
    """An Elasticsearch node."""

    def __init__(self, address: str, port: int = PORT) -> None:
        self._url = f"http://{address}:{port}"

    async def get(self, path: str, **query: str) -> Tree:
        return await self._ask("GET", path, query)

    async def put(self, path: str, body: Tree) -> Tree:
        return await self._ask("PUT", path, {}, body)

    async def post(self, path: str, **query: str) -> Tree:
        return await self._ask("POST", path, query)

    async def delete(self, path: str, **query: str) -> Tree:
        return await self._ask("DELETE", path, query)

    async def _ask(self, method: str, path: str, query: dict[str, str], body: Tree | None = None) -> Tree:
        """Raises ``Unanswered``."""
        data = msgspec.json.encode(body) if body is not None else None
        headers = {"Content-Type": "application/json"} if body is not None else {}
        limit = aiohttp.ClientTimeout(total=SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.request(method, self._url + path, params=query, data=data, headers=headers) as answer,
            ):
                text = await answer.read()
                if answer.status >= 300:
                    raise Unanswered(f"{method} {path}: {answer.status}: {_reason(text)}", answer.status)
                found: Any = msgspec.json.decode(text) if text else {}
                return found if isinstance(found, dict) else {}
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as problem:
            raise Unanswered(f"{method} {path}: {str(problem) or 'no answer in time'}") from None


def _reason(text: bytes) -> str:
    """What Elasticsearch says is wrong."""
    try:
        error = msgspec.json.decode(text).get("error")
        said = error.get("reason") if isinstance(error, dict) else error
    except (msgspec.DecodeError, AttributeError):
        said = None
    return str(said or text[:200].decode(errors="replace"))
