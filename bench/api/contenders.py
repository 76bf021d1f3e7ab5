"""The servers that are measured, as processes of this run.

    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Pilothouse(folder / "sqlite", "sqlite"))
        kube = stack.enter_context(Kube(folder / "kube"))
        ours.access, ours.seconds_to_ready, ours.pids()

Each takes a free port, keeps its files below its folder and is ended by pid. The clock of `seconds_to_ready` runs from
the start of the API server's own process (an etcd below it is up by then) to the first 200 of `/readyz`.
"""

from __future__ import annotations

import abc
import http.client
import sys
import time
from pathlib import Path
from types import TracebackType

from tests.kit import tools
from tests.kit.certificates import Authority
from tests.kit.etcd import EtcdServer
from tests.kit.processes import Process, free_port

from bench.api.access import TOKEN, TOKEN_FILE, Access, unverified

# Loads write gigabytes of history between two compactions.
ETCD_OPTIONS = {"quota-backend-bytes": str(8 * 2**30)}


class ApiServer(abc.ABC):
    """A running API server."""

    name: str

    def __init__(self, folder: Path, *, etcd: bool, beside: ApiServer | None = None) -> None:
        """With `beside` it shares that one's etcd, which has to outlive it."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.access = Access(free_port())
        self.tokens = folder / "tokens.csv"
        self.tokens.write_text(TOKEN_FILE)
        self._guest = beside is not None
        self.etcd: EtcdServer | None
        if beside is not None:
            self.etcd = beside.etcd
        else:
            self.etcd = EtcdServer.start(folder / "etcd", options=ETCD_OPTIONS) if etcd else None
        try:
            self.start()
        except BaseException:
            self._stop_etcd()
            raise

    @abc.abstractmethod
    def command(self) -> list[str]:
        """What starts the API server."""

    def start(self) -> None:
        began = time.monotonic()
        self._process = Process.start(self.name, self.command(), log=self.folder / "server.log")
        try:
            self._process.wait_until(lambda: _is_ready(self.access), seconds=90)
        except BaseException:
            self._process.kill()
            raise
        self.seconds_to_ready = time.monotonic() - began

    def pause(self) -> None:
        """End its processes; its data stays."""
        # A graceful end waits for what is open; nothing here depends on it.
        self._process.kill()
        self._stop_etcd()

    def resume(self) -> None:
        """The same data and address, other processes."""
        if self.etcd:
            self.etcd.begin()
            self.etcd.wait_until_healthy()
        self.start()

    def pids(self) -> list[int]:
        """Its own process, and its etcd's."""
        return [self._process.pid] + ([self.etcd.pid] if self.etcd else [])

    def __enter__(self) -> ApiServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.end(seconds=3)
        self._stop_etcd()

    def _stop_etcd(self) -> None:
        if self.etcd and not self._guest:
            self.etcd.stop()


class Pilothouse(ApiServer):
    """Ours, on one of its stores."""

    def __init__(self, folder: Path, store: str, *, beside: ApiServer | None = None) -> None:
        self.name = f"pilothouse on {store}"
        self._store = store
        super().__init__(folder, etcd=store == "etcd", beside=beside)

    def command(self) -> list[str]:
        options = {
            "data": str(self.folder / "data"),
            "listen": self.access.host,
            "store": self._store,
            "token-auth-file": str(self.tokens),
        }
        if self.etcd:
            options["etcd-servers"] = self.etcd.endpoint
        return [sys.executable, "-m", "pilothouse", "apiserver", *_flags(options)]


class Kube(ApiServer):
    """The real kube-apiserver with its defaults, on etcd."""

    name = "kube-apiserver on etcd"

    def __init__(self, folder: Path) -> None:
        authority = Authority.create(folder / "pki")
        self._pair = authority.server()
        super().__init__(folder, etcd=True)

    def command(self) -> list[str]:
        assert self.etcd
        return [
            str(tools.find("kube-apiserver")),
            *_flags(
                {
                    "etcd-servers": self.etcd.endpoint,
                    "bind-address": "127.0.0.1",
                    "secure-port": str(self.access.port),
                    "cert-dir": str(self.folder / "certificates"),
                    "tls-cert-file": str(self._pair.cert),
                    "tls-private-key-file": str(self._pair.key),
                    "token-auth-file": str(self.tokens),
                    "authorization-mode": "RBAC",
                    "service-cluster-ip-range": "10.96.0.0/24",
                    "service-account-issuer": "https://kubernetes.default.svc",
                    "service-account-key-file": str(self._pair.key),
                    "service-account-signing-key-file": str(self._pair.key),
                    # A loopback address can't be an endpoint of the kubernetes Service.
                    "endpoint-reconciler-type": "none",
                }
            ),
        ]


def _flags(options: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _is_ready(access: Access) -> bool:
    connection = http.client.HTTPSConnection("127.0.0.1", access.port, context=unverified(), timeout=5)
    try:
        connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
