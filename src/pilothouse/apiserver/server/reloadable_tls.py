"""A TLS context that can be replaced while a server listens with it.

    live = ReloadableContext(context)
    await server.listen(host, port, live.listening)
    live.replace(other)         # for new connections

A context in use can get another certificate, but its trusted CAs can't be removed. So each handshake is moved
to the latest context after ClientHello, before anything is sent.
"""

from __future__ import annotations

import ssl


class ReloadableContext:
    def __init__(self, context: ssl.SSLContext) -> None:
        self.listening = context
        self._latest = context
        # Called for every handshake, also when the client names no server.
        context.sni_callback = self._move

    def replace(self, context: ssl.SSLContext) -> None:
        self._latest = context

    def _move(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        if self._latest is not context:
            connection.context = self._latest
