"""Asks every controller of the control plane whether it is ready.

    probe = ReadinessProbe(access, agent="pilothouse", path="/readyz")
    await probe.ask(control_node)               # ReadinessAnswer(name="c1", ready=True, message="HTTP 200")

The address comes from the ControlNode's own status, so no credentials are sent: ``/readyz`` needs none. The
certificate is verified with the control plane's authority.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final, Literal

import aiohttp

from pilothouse.api.k0s.v1beta2 import ReadinessAnswer
from pilothouse.api.objects import Object
from pilothouse.client.access import Access, AccessError, tls_context
from pilothouse.updates.http_fetch import cause_of

Scheme = Literal["https", "http"]
DEFAULT_PATH: Final = "/readyz"
DEFAULT_PORT: Final = 6443
SECONDS: Final = 10.0
"""How long one controller has time to answer."""


class ReadinessProbe:
    def __init__(
        self,
        access: Access,
        *,
        agent: str,
        path: str = DEFAULT_PATH,
        scheme: Scheme = "https",
        seconds: float = SECONDS,
    ) -> None:
        """``access`` is the manager's own, of which only the authority is used."""
        self._access = access
        self._agent = agent
        self._path = path
        self._scheme = scheme
        self._seconds = seconds

    async def ask_all(self, control_nodes: Sequence[Object]) -> tuple[ReadinessAnswer, ...]:
        """At the same time; the answers in the order given."""
        return tuple(await asyncio.gather(*map(self.ask, control_nodes)))

    async def ask(self, control_node: Object) -> ReadinessAnswer:
        """Never raises: no answer is an answer."""
        address = _internal_address(control_node)
        if not address:
            return ReadinessAnswer(
                name=control_node.name,
                ready=False,
                message="its status has no InternalIP address; does the update agent run on that machine?",
            )
        port = control_node.status.get("apiPort") or DEFAULT_PORT
        url = f"{self._scheme}://{f'[{address}]' if ':' in address else address}:{port}"
        try:
            async with asyncio.timeout(self._seconds):
                status = await self._status(url)
        except TimeoutError:
            ready, message = False, f"no answer from {url}{self._path} within {self._seconds:g} seconds"
        except (aiohttp.ClientError, AccessError, OSError, ValueError) as problem:
            ready, message = False, f"no answer from {url}{self._path}: {cause_of(problem)}"
        else:
            ready, message = 200 <= status < 300, f"HTTP {status} from {url}{self._path}"
        return ReadinessAnswer(name=control_node.name, ready=ready, message=message[:1024])

    async def _status(self, url: str) -> int:
        # A session of its own: nothing of one machine, such as a cookie, is for another.
        headers = {"User-Agent": self._agent}
        async with (
            aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url + self._path, ssl=self._trust(), allow_redirects=False) as response,
        ):
            return response.status

    def _trust(self) -> ssl.SSLContext:
        return tls_context(self._access.authority, insecure=self._access.insecure)


def _internal_address(control_node: Object) -> str:
    for each in control_node.status.get("addresses") or ():
        if each.get("type") == "InternalIP":
            return str(each.get("address") or "")
    return ""
