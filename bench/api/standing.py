"""What a server costs before anybody asks it anything: time to ready, and memory with ten thousand objects.

Memory is that of the API server's process and of its etcd's, if it has one, after everything was read once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from itertools import count

from bench.api.contenders import ApiServer
from bench.api.fetching import fetch
from bench.api.filling import fill
from bench.api.memory import Held, held
from bench.api.rounds import Aim, Measure, Sample
from bench.api.stage import Stage

OBJECTS = 10_000
NAMESPACE = "bench-many"
SERVERS = ("sqlite", "etcd", "kube")

MEMORY_AIMS = (Aim("sqlite", "kube", at_most=0.25), Aim("sqlite", None, at_most=100), Aim("etcd", "kube"))
START_AIMS = (Aim("sqlite", None, at_most=1), Aim("sqlite", "kube"), Aim("etcd", "kube"))

MEGABYTE = 1e6
SETTLED_WITHIN = 30.0


def standing(stage: Stage) -> Iterator[Measure]:
    folders = (stage.folder / f"start-{number}" for number in count())

    def first(name: str) -> Sample:
        def sample() -> float:
            with stage.fresh(name, next(folders)) as server:
                return server.seconds_to_ready

        return sample

    yield Measure("start", "first start to ready", "s", {name: first(name) for name in SERVERS}, START_AIMS)

    with contextlib.ExitStack() as stack:
        servers: dict[str, ApiServer] = {}
        memory: dict[str, Held] = {}
        path = stage.kind.collection(NAMESPACE)
        for name in SERVERS:
            server = servers[name] = stack.enter_context(stage.fresh(name, next(folders)))
            asyncio.run(fill(server.access, stage.kind, NAMESPACE, count=OBJECTS))
            # What an informer does: everything is read once.
            fetch(server.access, f"{path}?resourceVersion=0", gzip=True)
            memory[name] = settled(server.pids())
            # The next one must not share its pages with this one.
            server.pause()
        title = f"memory (RSS), {OBJECTS:,} objects"
        yield Measure(
            "memory", title, "MB", {n: _constant(m.rss / MEGABYTE) for n, m in memory.items()}, MEMORY_AIMS
        )
        title = f"memory (PSS), {OBJECTS:,} objects"
        yield Measure(
            "memory", title, "MB", {n: _constant(m.pss / MEGABYTE) for n, m in memory.items()}, MEMORY_AIMS
        )

        def again(name: str) -> Sample:
            def sample() -> float:
                servers[name].resume()
                seconds = servers[name].seconds_to_ready
                servers[name].pause()
                return seconds

            return sample

        title = f"start to ready, {OBJECTS:,} objects"
        yield Measure("start", title, "s", {name: again(name) for name in SERVERS}, START_AIMS)


def _constant(value: float) -> Sample:
    """Memory does not swing from round to round: it is taken once."""
    return lambda: value


def settled(pids: list[int]) -> Held:
    """Memory once it moves by less than a hundredth in two seconds: a collector gives back late."""
    deadline = time.monotonic() + SETTLED_WITHIN
    before = held(pids)
    while time.monotonic() < deadline:
        time.sleep(2)
        after = held(pids)
        if abs(after.rss - before.rss) < before.rss / 100:
            return after
        before = after
    return before
