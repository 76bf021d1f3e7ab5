"""API servers to test against, as a client sees them and as the test run owns them.

    server.target.url, server.target.kubeconfig
    server.restart()                          # the same address and data, another process
    other = server.beside(folder)             # another address and process, the same data
    server.forget_history(path, version)      # what the list at path was at that version can't be read any more

Every server takes a free port of the loopback address, keeps all its files below a folder, and is ended by pid.
`kube` has the real one, `ours` has Pilothouse's.
"""

from __future__ import annotations

import abc
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.kit.kubeconfig import Access
from tests.kit.processes import Process

# Users whom every server knows, in the format of a static token file.
TOKENS = 'alice-token,alice,u-alice,"dev,ops"\nbob-token,bob,u-bob,\n'

# What every server records: config maps with all they hold, what else happens to objects without.
AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: RequestResponse, omitManagedFields: true, resources: [{group: "", resources: [configmaps]}]}
- {level: None, verbs: [delete], resources: [{group: "", resources: [serviceaccounts]}]}
- {level: Metadata, resources: [{group: ""}]}
- {level: None}
"""


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

    def fetch(self, path: str) -> int:
        """The status of one GET, made without an event loop; 0 when nobody answered."""
        request = urllib.request.Request(self.url + path)
        if self.access.token:
            request.add_header("Authorization", f"Bearer {self.access.token}")
        try:
            with urllib.request.urlopen(request, context=self.trust(), timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code
        except (urllib.error.URLError, OSError):
            return 0

    def is_ready(self) -> bool:
        return self.fetch("/readyz") == 200


class Server(abc.ABC):
    """A server that the test run owns."""

    target: Target
    audit_log: Path
    """Where it records what AUDIT_POLICY wants told."""

    process: Process

    @abc.abstractmethod
    def beside(self, folder: Path) -> Server:
        """Another instance on the same store, with files of its own below `folder`; ready on return.

        The caller closes it, before the one that it stands beside. ValueError where a store takes one instance only.
        """

    @abc.abstractmethod
    def revive(self) -> None:
        """Start another process, in the place of one that has ended, on the same address and data; ready on return."""

    @abc.abstractmethod
    def restart(self) -> None:
        """End the process and start another on the same address and data; ready on return."""

    @abc.abstractmethod
    def forget_history(self, path: str, version: str) -> None:
        """Forget until the list at `path`, which has changed since, can't be read at `version` any more."""

    @abc.abstractmethod
    def close(self) -> None: ...
