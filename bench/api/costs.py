"""What one request costs our server: the CPU time of its process, and where it goes.

    python -m bench.api.costs get patch watch           # microseconds of CPU a request, by load
    python -m bench.api.costs patch --spy patch.txt     # with stacks by py-spy, to be read or drawn as flames

CPU time hardly changes when the machine is busy with something else, so this is the figure to compare before and after
a change of code. With py-spy on PATH (`pip install py-spy`) the busiest functions are printed too.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.api.access import Access
from bench.api.objects import KINDS, Kind, numbered
from bench.api.stage import COUNT, CREATED, LISTED, WRITTEN, Stage
from bench.api.watches import WATCHERS, Crowd
from bench.api.wrk import SERIAL, SLOT, Wrk

CLIENTS = 64
MERGE = "application/merge-patch+json"
SHOWN = 25


def request(load: str, access: Access, kind: Kind) -> bytes:
    """The request of a load; no two runs write the same."""
    fresh = f"{time.time_ns() // 1000 % 10**8}-{SERIAL}"
    slot = f"obj-{SLOT}"
    collection = kind.collection(LISTED) + "?resourceVersion=0"
    match load:
        case "get":
            return access.request("GET", kind.at(LISTED, numbered(COUNT // 2)))
        case "list":
            return access.request("GET", collection)
        case "list-gzip":
            return access.request("GET", collection, gzip=True)
        case "create":
            return access.request("POST", kind.collection(CREATED), kind.manifest(f"c{fresh}", serial=SERIAL))
        case "update":
            return access.request("PUT", kind.at(WRITTEN, slot), kind.manifest(slot, serial=fresh))
        case "patch":
            return access.request("PATCH", kind.at(WRITTEN, slot), kind.patch(fresh), type=MERGE)
    raise ValueError(load)


LOADS = ("get", "list", "list-gzip", "create", "update", "patch", "watch")


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(stage: Stage, store: str, load: str, seconds: int, spy: Path | None) -> str:
    server = stage.server(store)
    pid = server.pids()[0]
    wrk = Wrk(stage.folder)

    def pump(for_seconds: int) -> tuple[int, str]:
        sent = request(load, server.access, stage.kind)
        flow = wrk.run(server.access, sent, clients=CLIENTS, seconds=for_seconds, slots=COUNT)
        return flow.requests, f"{flow.rate:,.0f}/s, p50 {flow.p50:.1f} ms, p99 {flow.p99:.1f} ms"

    def measured(work: Callable[[int], tuple[int, str]], unit: str) -> str:
        work(1)
        spying = _spy(pid, seconds, spy) if spy else None
        before = cpu_seconds(pid)
        done, words = work(seconds)
        cost = (cpu_seconds(pid) - before) / done
        if spying:
            spying.wait()
        return f"{load:10} {cost * 1e6:8,.0f} µs of CPU {unit} ({words})"

    if load != "watch":
        return measured(pump, "a request")
    with Crowd(server.access, stage.kind, WATCHERS) as crowd:

        def change(for_seconds: int) -> tuple[int, str]:
            deadline = time.monotonic() + for_seconds
            taken = []
            while time.monotonic() < deadline:
                taken.append(crowd.change())
            return len(taken) * WATCHERS, f"last of {WATCHERS} after {sorted(taken)[len(taken) // 2]:.1f} ms"

        return measured(change, "a delivery")


def _spy(pid: int, seconds: int, output: Path) -> subprocess.Popen[bytes]:
    program = shutil.which("py-spy")
    if not program:
        sys.exit("bench.api.costs: py-spy is not on PATH; pip install py-spy")
    argv = [program, "record", "--rate", "400", "--duration", str(seconds), "--format", "raw"]
    argv += ["--output", str(output), "--pid", str(pid)]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def busiest(stacks: Path) -> list[str]:
    """The functions that were running, and those that had called them, by share of samples."""
    own: Counter[str] = Counter()
    under: Counter[str] = Counter()
    for line in stacks.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_short(frame) for frame in stack.split(";")]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            under[frame] += int(count)
    total = own.total()
    lines = [f"  {'own':>6} {'with callees':>12}"]
    ranked = sorted(under, key=lambda frame: -max(own[frame] * 4, under[frame]))[:SHOWN]
    return lines + [f"  {own[frame] / total:6.1%} {under[frame] / total:12.1%}  {frame}" for frame in ranked]


def _short(frame: str) -> str:
    """`Core.answer (pilothouse/apiserver/request_handler.py:81)` without the line and what is before the package."""
    return re.sub(r":\d+\)$", ")", re.sub(r"\((?:\S*/)?(?:site-packages|src)/", "(", frame))


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.api.costs", description="CPU time a request.")
    # Without choices: Python 3.11 takes the list of no arguments, or of the default, for one of them.
    parser.add_argument(
        "loads",
        nargs="*",
        type=_load,
        default=list(LOADS),
        metavar="LOAD",
        help=f"{', '.join(LOADS)}; default: all",
    )
    parser.add_argument("--store", choices=("sqlite", "etcd", "kube"), default="sqlite")
    parser.add_argument("--kind", choices=sorted(KINDS), default="configmaps")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--spy", type=Path, help="write py-spy's stacks to this file (one load only)")
    return parser.parse_args(argv)


def _load(name: str) -> str:
    if name not in LOADS:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(LOADS)}")
    return name


def main() -> None:
    chosen = arguments()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with (
        tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name,
        Stage(Path(name), KINDS[chosen.kind]) as stage,
    ):
        for load in chosen.loads:
            print(run(stage, chosen.store, load, chosen.seconds, chosen.spy), flush=True)
            if chosen.spy:
                print("\n".join(busiest(chosen.spy)))


if __name__ == "__main__":
    main()
