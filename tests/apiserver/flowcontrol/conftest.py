"""An edge with a handler of the test's own, as the edge's suite has it."""

from __future__ import annotations

from tests.apiserver.server.conftest import dial, keyring, serve

__all__ = ["dial", "keyring", "serve"]
