"""Create, update and patch, each durable before it is acknowledged, beside kube-apiserver and beside raw etcd puts.

Updates name no resourceVersion and go round a thousand objects, as merge patches do: no two clients meet, and every
write changes something (kube-apiserver does not store a write that changes nothing).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count

from bench.api.access import Access
from bench.api.rounds import Aim, Measure, Sample
from bench.api.stage import COUNT, CREATED, WRITTEN, Stage
from bench.api.wrk import SERIAL, SLOT, LoadFailed, Wrk

CLIENTS = (16, 64)
SERVERS = ("sqlite", "etcd", "kube")
MERGE = "application/merge-patch+json"

Request = Callable[[Access], bytes]


def aims(clients: int) -> tuple[Aim, ...]:
    """Beside kube-apiserver we aim at 64 clients; the figures at 16 stand beside it."""
    beside_kube = 3 if clients == 64 else None
    return (
        Aim("sqlite", "kube", at_least=beside_kube),
        Aim("etcd", "kube", at_least=beside_kube),
        Aim("etcd", "puts", at_least=0.3),
    )


def writes(stage: Stage, wrk: Wrk, seconds: int) -> Iterator[Measure]:
    kind = stage.kind
    turns = count()

    def create(access: Access) -> bytes:
        # A name is free only once, so each turn has names of its own.
        name = f"t{next(turns):04}-{SERIAL}"
        return access.request("POST", kind.collection(CREATED), kind.manifest(name, serial=SERIAL))

    def update(access: Access) -> bytes:
        name = f"obj-{SLOT}"
        return access.request("PUT", kind.at(WRITTEN, name), kind.manifest(name, serial=_serial(next(turns))))

    def patch(access: Access) -> bytes:
        body = kind.patch(_serial(next(turns)))
        return access.request("PATCH", kind.at(WRITTEN, f"obj-{SLOT}"), body, type=MERGE)

    accesses = {name: stage.server(name).access for name in SERVERS}
    endpoint = stage.etcd().endpoint.removeprefix("http://")

    def sample(request: Request, access: Access, clients: int) -> Sample:
        return lambda: wrk.run(access, request(access), clients=clients, seconds=seconds, slots=COUNT).rate

    for request in (create, update, patch):
        for clients in CLIENTS:
            samples = {name: sample(request, access, clients) for name, access in accesses.items()}
            samples["puts"] = _puts(endpoint, clients, seconds)
            title = f"{request.__name__}, {clients} clients"
            yield Measure(request.__name__, title, "/s", samples, aims(clients))


def _serial(turn: int) -> str:
    """A value that no other turn writes: within a turn the request's own number differs."""
    return f"{turn}-{SERIAL}"


def _puts(endpoint: str, clients: int, seconds: int) -> Sample:
    argv = [sys.executable, "-m", "bench.api.etcd_puts", endpoint, str(clients), str(seconds)]

    def sample() -> float:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 60)
        if ran.returncode:
            raise LoadFailed(f"raw puts: {ran.stderr[-1000:]}")
        said = json.loads(ran.stdout)
        return float(said["requests"] / said["seconds"])

    return sample
