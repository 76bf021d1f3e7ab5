"""Asks every controller of the control plane whether it is ready.

    probe = ReadinessProbe(access, clock, path="/readyz")
    await probe.ask(control_node)               # ReadinessAnswer(name="c1", ready=True, message="HTTP 200")

The address comes from the ControlNode's own status, so no credentials are sent: ``/readyz`` needs none. The
certificate is verified with the control plane's authority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Literal

from pilothouse.api.k0s.v1beta2 import ReadinessAnswer
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.access import Access, AccessError
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.transport import ClientRequest, TransportError

DEFAULT_PATH: Final = "/readyz"
DEFAULT_PORT: Final = 6443
SECONDS: Final = 10.0
"""How long one controller has time to answer."""
_LONGEST_ANSWER: Final = 2**16


class ReadinessProbe:
    def __init__(
        self,
        access: Access,
        clock: Clock,
        *,
        agent: str,
        path: str = DEFAULT_PATH,
        scheme: Literal["https", "http"] = "https",
        seconds: float = SECONDS,
    ) -> None:
        """``access`` is the manager's own, of which only the authority is used."""
        self._access = access
        self._clock = clock
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
        except (TransportError, AccessError, OSError, ValueError) as problem:
            ready, message = False, f"no answer from {url}{self._path}: {problem}"
        else:
            ready, message = 200 <= status < 300, f"HTTP {status} from {url}{self._path}"
        return ReadinessAnswer(name=control_node.name, ready=ready, message=message[:1024])

    async def _status(self, url: str) -> int:
        access = Access(
            url,
            authority=self._access.authority,
            authority_file=self._access.authority_file,
            insecure=self._access.insecure,
        )
        async with HttpTransport.open(access, self._clock, agent=self._agent) as transport:
            call = ClientRequest("GET", self._path, longest=_LONGEST_ANSWER)
            return (await transport.request(call)).status


def _internal_address(control_node: Object) -> str:
    for each in control_node.status.get("addresses") or ():
        if each.get("type") == "InternalIP":
            return str(each.get("address") or "")
    return ""
