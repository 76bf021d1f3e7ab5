"""GET of one object and LIST of a thousand, beside kube-apiserver and beside a server that only sends the bytes.

`any` is resourceVersion=0, which a cache may answer as it stands; `consistent` names no version, so the answer must
hold all that was acknowledged before the request. kube-apiserver reads a single object from etcd each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from bench.api.access import Access
from bench.api.objects import numbered
from bench.api.rounds import Aim, Measure, Sample
from bench.api.stage import COUNT, LISTED, Stage
from bench.api.wrk import Wrk

CLIENTS = (16, 64)
SERVERS = ("sqlite", "etcd", "kube")

GET_AIMS = (Aim("sqlite", "kube", at_least=4), Aim("sqlite", "bare", at_least=0.6), Aim("etcd", "kube"))
PLAIN_AIMS = (Aim("sqlite", "kube", at_least=2), Aim("sqlite", "bare", at_least=0.7), Aim("etcd", "kube"))
GZIP_AIMS = (Aim("sqlite", "kube", at_least=10), Aim("sqlite", "bare", at_least=0.7), Aim("etcd", "kube"))


def reads(stage: Stage, wrk: Wrk, seconds: int) -> Iterator[Measure]:
    one = stage.kind.at(LISTED, numbered(COUNT // 2))
    consistent = stage.kind.collection(LISTED)
    cached = f"{consistent}?resourceVersion=0"
    accesses = {name: stage.server(name).access for name in SERVERS}
    accesses["bare"] = stage.bare([(one, False), *product((cached, consistent), (False, True))])

    def measure(
        name: str, title: str, path: str, clients: int, aims: tuple[Aim, ...], *, gzip: bool = False
    ) -> Measure:
        def sample(access: Access) -> Sample:
            request = access.request("GET", path, gzip=gzip)
            return lambda: wrk.run(access, request, clients=clients, seconds=seconds).rate

        samples = {contender: sample(access) for contender, access in accesses.items()}
        return Measure(name, f"{title}, {clients} clients", "/s", samples, aims)

    for clients in CLIENTS:
        yield measure("get", "GET", one, clients, GET_AIMS)
    for clients, gzip, (word, path) in product(
        CLIENTS, (False, True), (("any", cached), ("consistent", consistent))
    ):
        title = f"LIST {COUNT}, {word}, {'gzip' if gzip else 'plain'}"
        yield measure("list", title, path, clients, GZIP_AIMS if gzip else PLAIN_AIMS, gzip=gzip)
