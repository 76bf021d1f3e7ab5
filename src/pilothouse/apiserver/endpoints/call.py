"""A request for a resource: which object, through which version, by which verb."""

from __future__ import annotations

import msgspec

from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.registry.strategy import STANDARD, Strategy
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.storage.leadership_fence import WriteFence


class ResourceRequest(msgspec.Struct, frozen=True):
    request: Request
    served: ServedVersion
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    params: dict[str, str] = {}
    fence: WriteFence | None = None
    """The leadership that a write is made under."""
    strategy: Strategy = STANDARD
    """How the server treats the kind."""

    @property
    def key(self) -> str:
        return self.served.key(self.namespace, self.name)
