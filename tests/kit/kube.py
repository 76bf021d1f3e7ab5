"""The real Kubernetes: kube-apiserver on an etcd of its own, and kube-controller-manager attached to any server.

server = KubeServer(folder)
with controller_manager(server.target, folder):     # garbage collection and namespace deletion work
    …
server.close()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.kit import etcd_gateway, kubeconfig, tools
from tests.kit.certificates import Authority, Pair
from tests.kit.etcd import EtcdServer
from tests.kit.kubeconfig import Access
from tests.kit.processes import Process, free_port
from tests.kit.servers import AUDIT_POLICY, TOKENS, Server, Target

NAME = "kube"
CONTROLLERS = ("garbage-collector-controller", "namespace-controller")


class KubeServer(Server):
    """kube-apiserver with role-based authorization; the administrator is in system:masters."""

    def __init__(self, folder: Path, *, flags: Sequence[str] = (), beside: KubeServer | None = None) -> None:
        """With `beside` it shares that one's etcd, keys and authority."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._flags = flags
        self.authority: Authority = beside.authority if beside else Authority.create(folder / "pki")
        self._pair: Pair = beside._pair if beside else self.authority.server()
        admin = self.authority.client("admin", group="system:masters")
        self._port = free_port()
        (folder / "tokens.csv").write_text(TOKENS)
        (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
        self.audit_log = folder / "audit" / "audit.log"
        access = Access(f"https://127.0.0.1:{self._port}", self.authority.cert, admin.cert, admin.key)
        self.target = Target(NAME, access, folder / "admin.kubeconfig")
        kubeconfig.write(self.target.kubeconfig, access)
        self._own_etcd = beside is None
        self._etcd: EtcdServer = beside._etcd if beside else EtcdServer.start(folder / "etcd")
        try:
            self.process = self._start()
        except BaseException:
            if self._own_etcd:
                self._etcd.stop()
            raise

    def _start(self) -> Process:
        options = {
            "etcd-servers": self._etcd.endpoint,
            "bind-address": "127.0.0.1",
            "secure-port": str(self._port),
            "cert-dir": str(self._folder / "certs"),
            "tls-cert-file": str(self._pair.cert),
            "tls-private-key-file": str(self._pair.key),
            "client-ca-file": str(self.authority.cert),
            "token-auth-file": str(self._folder / "tokens.csv"),
            "authorization-mode": "RBAC",
            "audit-log-path": str(self.audit_log),
            "audit-policy-file": str(self._folder / "audit-policy.yaml"),
            "service-cluster-ip-range": "10.96.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(self._pair.key),
            "service-account-signing-key-file": str(self._pair.key),
            # A loopback address can't be an endpoint of the kubernetes Service.
            "endpoint-reconciler-type": "none",
            # Streaming lists are off by default in this release.
            "feature-gates": "WatchList=true",
        }
        argv = [str(tools.find("kube-apiserver")), *(f"--{name}={value}" for name, value in options.items())]
        argv += self._flags
        process = Process.start("kube-apiserver", argv, log=self._folder / "kube-apiserver.log")
        try:
            process.wait_until(self.target.is_ready, seconds=90)
        except BaseException:
            process.kill()
            raise
        return process

    def beside(self, folder: Path) -> KubeServer:
        return KubeServer(folder, flags=self._flags, beside=self)

    def revive(self) -> None:
        self.process = self._start()

    def restart(self) -> None:
        # A graceful end waits up to a minute for open watches, which says nothing about what was stored.
        self.process.kill()
        self.revive()

    def forget_history(self, path: str, version: str) -> None:
        etcd_gateway.compact(self._etcd.endpoint, int(version))

    def close(self) -> None:
        self.process.end(seconds=2)
        if self._own_etcd:
            self._etcd.stop()


@contextlib.contextmanager
def scheduler(target: Target, folder: Path) -> Iterator[Process]:
    """The real kube-scheduler, for any target."""
    options = {"kubeconfig": str(target.kubeconfig), "leader-elect": "false", "secure-port": "0"}
    argv = [str(tools.find("kube-scheduler")), *(f"--{name}={value}" for name, value in options.items())]
    process = Process.start("kube-scheduler", argv, log=folder / "kube-scheduler.log")
    try:
        yield process
    finally:
        process.end(seconds=2)


@contextlib.contextmanager
def controller_manager(
    target: Target, folder: Path, *, controllers: tuple[str, ...] = CONTROLLERS, flags: Sequence[str] = ()
) -> Iterator[Process]:
    """The real kube-controller-manager, running these controllers against any target."""
    options = {
        "kubeconfig": str(target.kubeconfig),
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "secure-port": "0",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
    }
    argv = [str(tools.find("kube-controller-manager")), *(f"--{k}={v}" for k, v in options.items()), *flags]
    process = Process.start("kube-controller-manager", argv, log=folder / "kube-controller-manager.log")
    try:
        yield process
    finally:
        process.end(seconds=2)
