"""API servers to test against, as a client sees them and as the test run owns them.

    server.target.url, server.target.kubeconfig
    server.restart()                          # the same address and data, another process
    server.forget_history()                   # revisions written so far can no longer be read or watched

Every server takes a free port of the loopback address, keeps all its files below a folder, and is ended by pid.
`kube` has the real one, `ours` has Pilothouse's.
"""

from __future__ import annotations

import abc
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.kubeconfig import Access

# Users whom every server knows, in the format of a static token file.
TOKENS = 'alice-token,alice,u-alice,"dev,ops"\nbob-token,bob,u-bob,\n'


@dataclass(frozen=True)
class Target:
    """A running API server, as a client sees it."""

    name: str
    access: Access
    kubeconfig: Path

    @property
    def url(self) -> str:
        return self.access.url

    def trust(self) -> ssl.SSLContext:
        """A TLS context of the administrator."""
        context = ssl.create_default_context(cafile=str(self.access.ca))
        if self.access.cert and self.access.key:
            context.load_cert_chain(self.access.cert, self.access.key)
        return context

    def fetch(self, path: str) -> tuple[int, dict[str, Any]]:
        """One GET without an event loop: its status, and its body if that is JSON. Status 0: nobody answered."""
        request = urllib.request.Request(self.url + path)
        if self.access.token:
            request.add_header("Authorization", f"Bearer {self.access.token}")
        try:
            with urllib.request.urlopen(request, context=self.trust(), timeout=5) as answer:
                return int(answer.status), _decoded(answer.read())
        except urllib.error.HTTPError as refused:
            return refused.code, _decoded(refused.read())
        except (urllib.error.URLError, OSError):
            return 0, {}

    def is_ready(self) -> bool:
        status, _ = self.fetch("/readyz")
        return status == 200


class Server(abc.ABC):
    """A server that the test run owns."""

    target: Target

    @abc.abstractmethod
    def restart(self) -> None:
        """End the process and start another on the same address and data; ready on return."""

    @abc.abstractmethod
    def forget_history(self) -> None:
        """Make every revision older than the latest unreadable."""

    @abc.abstractmethod
    def close(self) -> None: ...


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
