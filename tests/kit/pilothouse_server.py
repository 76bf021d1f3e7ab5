"""Pilothouse's own API server as a process, on any of its stores.

server = PilothouseServer(folder, "sqlite")
server.target.kubeconfig
server.close()
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.kit import etcd_gateway, kubeconfig
from tests.kit.etcd import EtcdCluster, EtcdServer
from tests.kit.processes import Process
from tests.kit.servers import AUDIT_POLICY, TOKENS, Server, Target

STORES = ("sqlite", "etcd", "memory")


class PilothouseServer(Server):
    """`pilothouse apiserver` with a data folder, and an etcd of its own when it stores there."""

    def __init__(
        self,
        folder: Path,
        store: str,
        *,
        etcd: EtcdServer | EtcdCluster | None = None,
        flags: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> None:
        """With `etcd` it shares that one with others, who end it; `flags` go to every start; `host` is where it listens."""
        self._host = host
        self._folder = folder
        self._shared_etcd = etcd
        self._flags = flags
        self._store = store
        self._data = folder / "data"
        self._starts = 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokens.csv").write_text(TOKENS)
        (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
        self.audit_log = folder / "audit" / "audit.log"
        own_etcd = store == "etcd" and etcd is None
        self._etcd = EtcdServer.start(folder / "etcd") if own_etcd else None
        try:
            self.process, url = self._start(f"{host}:0")
        except BaseException:
            if self._etcd:
                self._etcd.stop()
            raise
        config = self._data / "admin.kubeconfig"
        access = kubeconfig.read(config, unpack=folder / "pki")
        if access.url != url:
            raise ValueError(f"{config} points to {access.url}, but the server said {url}")
        self.target = Target(store, access, config)

    def _start(self, listen: str, *more: str) -> tuple[Process, str]:
        argv = [
            sys.executable,
            "-m",
            "pilothouse",
            "apiserver",
            "--data",
            str(self._data),
            "--listen",
            listen,
        ]
        argv += ["--store", self._store, "--token-auth-file", str(self._folder / "tokens.csv"), *more]
        argv += ["--audit-log-path", str(self.audit_log)]
        argv += ["--audit-policy-file", str(self._folder / "audit-policy.yaml"), *self._flags]
        if etcd := self._etcd or self._shared_etcd:
            argv += ["--etcd-servers", ",".join(etcd.endpoints)]
        self._starts += 1
        log = self._folder / f"apiserver-{self._starts}.log"
        process = Process.start("pilothouse apiserver", argv, log=log)

        def announced() -> str | None:
            said = re.search(r"https://[\w.]+:\d+", process.output())
            return said[0] if said else None

        try:
            return process, process.wait_until(announced, seconds=120)
        except BaseException:
            process.kill()
            raise

    def beside(self, folder: Path) -> PilothouseServer:
        etcd = self._etcd or self._shared_etcd
        if etcd is None:
            raise ValueError(f"one server owns a {self._store} store")
        return PilothouseServer(folder, self._store, etcd=etcd, flags=self._flags, host=self._host)

    def revive(self, *more: str) -> None:
        if self._store == "memory":
            raise ValueError("a memory store has nothing to start again from")
        self.process, _ = self._start(self.target.url.removeprefix("https://"), *more)

    def restart(self, *more: str) -> None:
        self.process.end()
        self.revive(*more)

    def forget_history(self, path: str, version: str) -> None:
        if self._etcd:
            etcd_gateway.compact(self._etcd.endpoint, int(version))
            self.restart()  # else the server itself still remembers
            return
        old = f"{path}?resourceVersionMatch=Exact&resourceVersion={version}"
        try:
            self.restart("--compaction-interval", "1s")
            self.process.wait_until(lambda: self.target.fetch(old) == 410, seconds=30)
        finally:
            self.restart()

    def close(self) -> None:
        self.process.end()
        if self._etcd:
            self._etcd.stop()
