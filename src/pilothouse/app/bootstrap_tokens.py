"""Bootstrap tokens: created, listed and revoked by an administrator through the API.

    made = await create(access, [url], lifetime=86400.0, description="the new rack", node="db-3")
    str(made)                            # for `pilothouse join`

A token is a Secret; the API server decides what it permits. Used and expired tokens are deleted whenever
another one is created.
"""

from __future__ import annotations

import random
import secrets
import string
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pilothouse.api.kind_names import Secret
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import TimeError, format_time, parse_time
from pilothouse.client import server_authorities
from pilothouse.client.access import Access, AccessError
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.join_token import JoinToken
from pilothouse.pki.pinning import fingerprints

_AGENT = "pilothouse-token"
_NAMESPACE = "kube-system"
_TYPE = "bootstrap.kubernetes.io/token"
_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True)
class BootstrapToken:
    """A token without its secret."""

    identifier: str
    expires: float | None
    used_by: str
    description: str
    node: str = ""
    """The only node that it is for; empty for any node that does not exist yet."""

    def state(self, now: float) -> str:
        if self.used_by:
            return "used"
        return "expired" if self.expires is not None and now >= self.expires else "valid"


async def create(
    access: Access, urls: Sequence[str], *, lifetime: float | None, description: str, node: str = ""
) -> JoinToken:
    """A token with which one machine joins the servers at ``urls``, as this node if given.
    Raises ``StatusError``, ``TransportError``."""
    async with _reached(access) as api:
        now = SystemClock().now()
        for old in await _all(api):
            if _token_of(old).state(now) != "valid":
                await api.delete(Secret, old.name, _NAMESPACE, uid=old.uid)
        trusted = await server_authorities.published(api)
        if not trusted:
            raise AccessError(
                f"{access.url} is not a pilothouse API server; machines join it by its own means"
            )
        identifier, secret = _random(6), _random(16)
        content = {
            "token-id": identifier,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            **({"expiration": format_time(now + lifetime)} if lifetime is not None else {}),
            **({"description": description} if description else {}),
            **({"node-name": node} if node else {}),
        }
        await api.create(
            Secret,
            {
                "apiVersion": Secret.api_version,
                "kind": Secret.kind,
                "metadata": {"name": f"bootstrap-token-{identifier}", "namespace": _NAMESPACE},
                "type": _TYPE,
                "data": {name: b64encode(value.encode()).decode() for name, value in content.items()},
            },
        )
    url, *others = urls
    return JoinToken(url, f"{identifier}.{secret}", fingerprints(trusted)[:1], tuple(others))


async def list_tokens(access: Access) -> list[BootstrapToken]:
    async with _reached(access) as api:
        return [_token_of(each) for each in await _all(api)]


async def revoke(access: Access, identifier: str) -> bool:
    """Returns whether it existed."""
    async with _reached(access) as api:
        found = await api.find(Secret, f"bootstrap-token-{identifier}", _NAMESPACE)
        if found is None:
            return False
        await api.delete(Secret, found.name, _NAMESPACE, uid=found.uid)
        return True


@asynccontextmanager
async def _reached(access: Access) -> AsyncIterator[Api]:
    async with HttpTransport.open(access, SystemClock(), agent=_AGENT) as transport:
        yield Api(transport, random.Random(), manager=_AGENT, wait_for_server=False)


async def _all(api: Api) -> list[Object]:
    return (await api.list(Secret, _NAMESPACE, fields=f"type={_TYPE}")).objects


def _token_of(secret: Object) -> BootstrapToken:
    data = {
        name: b64decode(value).decode(errors="replace") for name, value in (secret.get("data") or {}).items()
    }
    try:
        expires = parse_time(data["expiration"]) if "expiration" in data else None
    except TimeError:
        expires = 0.0
    return BootstrapToken(
        data.get("token-id", ""),
        expires,
        secret.annotations.get("pilothouse.io/used-by", ""),
        data.get("description", ""),
        data.get("node-name", ""),
    )


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
