"""One change to many watchers: until the last of them has it, and what a watcher takes of the server's memory.

A thousand of them beside kube-apiserver's, and ten thousand of our own on SQLite. What that many take is the difference
of the process's memory to before they came, so it holds everything: connection, TLS, and the watch itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

from bench.api.access import Access
from bench.api.filling import fill
from bench.api.objects import Kind, numbered
from bench.api.rounds import Aim, Measure
from bench.api.stage import WRITTEN, Stage
from bench.api.standing import settled

WATCHERS = 1000
MANY = 10_000
KILOBYTE = 1e3
SERVERS = ("sqlite", "etcd", "kube")
AIMS = (Aim("sqlite", "kube", at_most=1 / 3), Aim("etcd", "kube", at_most=1 / 3))


def watches(stage: Stage) -> Iterator[Measure]:
    with contextlib.ExitStack() as stack:
        crowds = {
            name: stack.enter_context(Crowd(stage.server(name).access, stage.kind, WATCHERS))
            for name in SERVERS
        }
        for crowd in crowds.values():
            crowd.change()
        samples = {name: crowd.change for name, crowd in crowds.items()}
        yield Measure("watch", f"last of {WATCHERS} watchers", "ms", samples, AIMS)


def crowds(stage: Stage) -> Iterator[Measure]:
    with stage.fresh("sqlite", stage.folder / "crowd") as server:
        asyncio.run(fill(server.access, stage.kind, WRITTEN, count=1))
        before = settled(server.pids())
        with Crowd(server.access, stage.kind, MANY) as crowd:
            crowd.change()
            each = (settled(server.pids()).rss - before.rss) / MANY / KILOBYTE
            title = f"memory (RSS) a watcher, {MANY:,} of them"
            yield Measure("crowd", title, "KB", {"sqlite": lambda: each}, (Aim("sqlite", None),))
            title = f"last of {MANY:,} watchers"
            yield Measure("crowd", title, "ms", {"sqlite": crowd.change}, (Aim("sqlite", None),))


class Crowd:
    """The process that watches (see `watchers`)."""

    def __init__(self, access: Access, kind: Kind, count: int) -> None:
        argv = [sys.executable, "-m", "bench.api.watchers", str(access.port), str(count)]
        argv += [kind.collection(WRITTEN), kind.at(WRITTEN, numbered(0))]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._hear("watching")

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def change(self) -> float:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._hear("milliseconds")

    def _hear(self, word: str) -> float:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise ConnectionError(f"the watching process ended with status {self._process.wait()}")
        return float(json.loads(line)[word])
