"""Several instances on one etcd: what they get done together, beside what one gets done.

    python -m bench.api --instances 1,2,3

As many clients as otherwise, shared out evenly: each instance has its own wrk. All of them share one etcd, and here the
machine's cores, with each other and with the load. Where there are more instances than cores left, figures show what is
lost by sharing, not what is won by more machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from bench.api.access import Access
from bench.api.contenders import Pilothouse
from bench.api.fetching import fetch
from bench.api.objects import numbered
from bench.api.rounds import Aim, Measure, Sample
from bench.api.stage import COUNT, CREATED, LISTED, WRITTEN, Stage
from bench.api.wrk import SERIAL, SLOT, Wrk

CLIENTS = 48
MERGE = "application/merge-patch+json"

Request = Callable[[Access], bytes]


def instances(stage: Stage, wrk: Wrk, seconds: int, counts: Sequence[int]) -> Iterator[Measure]:
    """Reads and writes of each number of instances, beside the first number."""
    kind = stage.kind
    turns = count()
    first = stage.server("etcd")
    accesses = [first.access]
    for number in range(2, max(counts) + 1):
        server = Pilothouse(stage.folder / f"etcd-{number}", "etcd", beside=first)
        accesses.append(stage.keep(server).access)

    cached = f"{kind.collection(LISTED)}?resourceVersion=0"
    for access in accesses:
        fetch(access, cached, gzip=True)  # Each compresses it once.

    def together(request: Request, number: int) -> Sample:
        def one(access: Access) -> float:
            return wrk.run(
                access, request(access), clients=CLIENTS // number, seconds=seconds, slots=COUNT
            ).rate

        def sample() -> float:
            with ThreadPoolExecutor(number) as pool:
                return sum(pool.map(one, accesses[:number]))

        return sample

    def get(access: Access) -> bytes:
        return access.request("GET", kind.at(LISTED, numbered(COUNT // 2)))

    def any_list(access: Access) -> bytes:
        return access.request("GET", cached, gzip=True)

    def create(access: Access) -> bytes:
        # A name is free only once, so each turn has names of its own.
        name = f"i{next(turns):04}-{SERIAL}"
        return access.request("POST", kind.collection(CREATED), kind.manifest(name, serial=SERIAL))

    def patch(access: Access) -> bytes:
        body = kind.patch(f"{next(turns)}-{SERIAL}")
        return access.request("PATCH", kind.at(WRITTEN, f"obj-{SLOT}"), body, type=MERGE)

    names = {number: f"{number} on etcd" for number in counts}
    base, *more = counts
    aims = (Aim(names[base], None), *(Aim(names[number], names[base]) for number in more))
    for title, request in (
        ("GET", get),
        (f"LIST {COUNT}, any, gzip", any_list),
        ("create", create),
        ("patch", patch),
    ):
        samples = {names[number]: together(request, number) for number in counts}
        yield Measure("instances", f"{title}, {CLIENTS} clients in all", "/s", samples, aims)
