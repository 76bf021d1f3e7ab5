"""The servers of a run, started when first asked for and ended with the run, and what they hold.

    with Stage(folder, kind) as stage:
        stage.server("kube").access      # LISTED and WRITTEN are filled
        stage.bare([("/api/…", False)])  # a bare server with our answers to these requests

`sqlite` and `etcd` are ours on these stores, `kube` is the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tests.kit.certificates import Authority
from tests.kit.etcd import EtcdServer
from tests.kit.processes import Process

from bench.api.access import Access
from bench.api.contenders import ETCD_OPTIONS, ApiServer, Kube, Pilothouse
from bench.api.fetching import fetch
from bench.api.filling import fill
from bench.api.objects import Kind

LISTED = "bench-list"
WRITTEN = "bench-write"
CREATED = "bench-create"
COUNT = 1000


class Stage:
    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder = folder
        self.kind = kind
        self._servers: dict[str, ApiServer] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def server(self, name: str) -> ApiServer:
        """The contender of this name, with objects in it."""
        if name not in self._servers:
            server = self.fresh(name, self.folder / name)
            self._servers[name] = self._stack.enter_context(server)
            for namespace, count in ((LISTED, COUNT), (WRITTEN, COUNT), (CREATED, 0)):
                asyncio.run(fill(server.access, self.kind, namespace, count=count))
        return self._servers[name]

    def keep(self, server: ApiServer) -> ApiServer:
        """End this server with the run, before those that were started earlier."""
        return self._stack.enter_context(server)

    @staticmethod
    def fresh(name: str, folder: Path) -> ApiServer:
        """A server of this name with nothing in it; the caller ends it."""
        return Kube(folder) if name == "kube" else Pilothouse(folder, name)

    def etcd(self) -> EtcdServer:
        """An etcd that nobody else uses."""
        etcd = EtcdServer.start(self.folder / "puts", options=ETCD_OPTIONS)
        self._stack.callback(etcd.stop)
        return etcd

    def bare(self, requests: Iterable[tuple[str, bool]]) -> Access:
        """A bare server that answers these paths (and whether gzip is accepted) as ours on SQLite does."""
        folder = self.folder / "bare"
        folder.mkdir()
        index = []
        for number, (path, gzip) in enumerate(requests):
            body = fetch(self.server("sqlite").access, path, gzip=gzip)
            (folder / f"{number}.body").write_bytes(body)
            index.append({"path": path, "gzip": gzip, "file": f"{number}.body"})
        (folder / "index.json").write_text(json.dumps(index))
        pair = Authority.create(folder).server()
        argv = [sys.executable, "-m", "bench.api.bare", str(folder), str(pair.cert), str(pair.key)]
        process = Process.start("bare aiohttp", argv, log=folder / "log")
        self._stack.callback(process.end)
        return Access(int(process.wait_until(process.output, seconds=30)))
