"""A TLS context that can be exchanged while a server listens with it.

    live = ReloadableContext(context)
    await server.listen(host, port, live.listening)
    live.replace(other)         # connections that begin from now on get the other one; those that are open stay

A context can be given another certificate while it is in use, but whom it trusts only ever grows. So each handshake is
moved over to the latest context at its very beginning, when the client's first message has been read and nothing has
been answered.
"""

from __future__ import annotations

import ssl


class ReloadableContext:
    """What a server listens with, and what its next handshake uses."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.listening = context
        self._latest = context
        # Called for every handshake, also when the client names no server.
        context.sni_callback = self._move

    def replace(self, context: ssl.SSLContext) -> None:
        """Use another context from now on."""
        self._latest = context

    def _move(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        if self._latest is not context:
            connection.context = self._latest
