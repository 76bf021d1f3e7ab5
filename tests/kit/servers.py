"""API servers to test against, each as a process: a real kube-apiserver on etcd, and ours on each of its stores.

    with start("kube", folder) as server:        # or "sqlite", "etcd", "memory": ours
        server.target.url, server.target.kubeconfig
        server.restart()                          # the same address and data, another process
        server.forget_history()                   # revisions written so far can no longer be read or watched

Every server takes a free port of the loopback address, keeps all its files below `folder`, and is ended by pid.
"""

from __future__ import annotations

import abc
import contextlib
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kit import kubeconfig, tools
from tests.kit.certificates import Authority
from tests.kit.etcd_process import EtcdProcess
from tests.kit.kubeconfig import Access
from tests.kit.processes import Process, free_port

KUBE = "kube"
OURS = ("sqlite", "etcd", "memory")

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

    def is_ready(self) -> bool:
        request = urllib.request.Request(self.url + "/readyz")
        if self.access.token:
            request.add_header("Authorization", f"Bearer {self.access.token}")
        try:
            with urllib.request.urlopen(request, context=self.trust(), timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


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


class KubeServer(Server):
    """kube-apiserver on an etcd of its own; role-based authorization, the administrator in system:masters."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority.create(folder / "pki")
        self._server = self._authority.server()
        admin = self._authority.client("admin", group="system:masters")
        self._port = free_port()
        self._etcd = EtcdProcess.start(folder / "etcd")
        (folder / "tokens.csv").write_text(TOKENS)
        access = Access(f"https://127.0.0.1:{self._port}", self._authority.cert, admin.cert, admin.key)
        self.target = Target(KUBE, access, folder / "admin.kubeconfig")
        kubeconfig.write(self.target.kubeconfig, access)
        try:
            self._process = self._start()
        except BaseException:
            self._etcd.end()
            raise

    def _start(self) -> Process:
        server = self._server
        options = {
            "etcd-servers": self._etcd.url,
            "bind-address": "127.0.0.1",
            "secure-port": str(self._port),
            "cert-dir": str(self._folder / "certs"),
            "tls-cert-file": str(server.cert),
            "tls-private-key-file": str(server.key),
            "client-ca-file": str(self._authority.cert),
            "token-auth-file": str(self._folder / "tokens.csv"),
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.96.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(server.key),
            "service-account-signing-key-file": str(server.key),
            # A loopback address can't be an endpoint of the kubernetes Service.
            "endpoint-reconciler-type": "none",
            # Off by default in this release; case 55 is about it.
            "feature-gates": "WatchList=true",
            "shutdown-delay-duration": "0s",
        }
        argv = [str(tools.find("kube-apiserver")), *(f"--{name}={value}" for name, value in options.items())]
        process = Process.start("kube-apiserver", argv, log=self._folder / "kube-apiserver.log")
        try:
            process.wait_until(self.target.is_ready, seconds=90)
        except BaseException:
            process.kill()
            raise
        return process

    def restart(self) -> None:
        # A graceful end waits up to a minute for open watches, which says nothing about what was stored.
        self._process.kill()
        self._process = self._start()

    def forget_history(self) -> None:
        self._etcd.compact()

    def close(self) -> None:
        self._process.end(seconds=2)
        self._etcd.end()


class PilothouseServer(Server):
    """`pilothouse apiserver` on one of its stores."""

    def __init__(self, folder: Path, store: str) -> None:
        self._folder = folder
        self._store = store
        self._data = folder / "data"
        self._etcd = EtcdProcess.start(folder / "etcd") if store == "etcd" else None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokens.csv").write_text(TOKENS)
        self._starts = 0
        try:
            self._process, url = self._start("127.0.0.1:0")
        except BaseException:
            if self._etcd:
                self._etcd.end()
            raise
        config = self._data / "admin.kubeconfig"
        access = kubeconfig.read(config, unpack=folder / "pki")
        if access.url != url:
            raise ValueError(f"{config} points to {access.url}, but the server said {url}")
        self.target = Target(store, access, config)

    def _start(self, listen: str) -> tuple[Process, str]:
        argv = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(self._data)]
        argv += ["--listen", listen, "--store", self._store]
        argv += ["--token-auth-file", str(self._folder / "tokens.csv")]
        if self._etcd:
            argv += ["--etcd-servers", self._etcd.url]
        self._starts += 1
        log = self._folder / f"apiserver-{self._starts}.log"
        process = Process.start("pilothouse apiserver", argv, log=log)

        def ready() -> str | None:
            said = re.search(r"https://[0-9.]+:[0-9]+", process.output())
            return said[0] if said else None

        try:
            return process, process.wait_until(ready, seconds=30)
        except BaseException:
            process.kill()
            raise

    def restart(self) -> None:
        if self._store == "memory":
            raise ValueError("the memory store has nothing to restart from")
        self._process.end()
        self._process, _ = self._start(self.target.url.removeprefix("https://"))

    def forget_history(self) -> None:
        if self._etcd:
            self._etcd.compact()

    def close(self) -> None:
        self._process.end()
        if self._etcd:
            self._etcd.end()


@contextlib.contextmanager
def start(name: str, folder: Path) -> Iterator[Server]:
    """The server called `name`, until the block ends."""
    server: Server = KubeServer(folder) if name == KUBE else PilothouseServer(folder, name)
    try:
        yield server
    finally:
        server.close()


CONTROLLERS = ("garbage-collector-controller", "namespace-controller")


@contextlib.contextmanager
def controller_manager(
    target: Target, folder: Path, *, controllers: tuple[str, ...] = CONTROLLERS
) -> Iterator[Process]:
    """The real kube-controller-manager attached to any target."""
    options = {
        "kubeconfig": str(target.kubeconfig),
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "secure-port": "0",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
    }
    argv = [str(tools.find("kube-controller-manager")), *(f"--{k}={v}" for k, v in options.items())]
    process = Process.start("kube-controller-manager", argv, log=folder / "kube-controller-manager.log")
    try:
        yield process
    finally:
        process.end(seconds=2)
