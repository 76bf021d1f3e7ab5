"""Requests that are made as another user.

    api.impersonating("system:serviceaccount:kube-system:pilothouse-rules")

The server asks whether the client may impersonate that user, and then decides by what the user may do.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec

from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport

HEADER = "Impersonate-User"


class ImpersonatingTransport:
    """Adds the user to each request."""

    def __init__(self, transport: Transport, user: str) -> None:
        self._transport = transport
        self._user = user

    async def request(self, call: ClientRequest) -> ClientResponse:
        return await self._transport.request(self._as_user(call))

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        return self._transport.stream(self._as_user(call))

    def _as_user(self, call: ClientRequest) -> ClientRequest:
        return msgspec.structs.replace(call, headers={**call.headers, HEADER: self._user})
