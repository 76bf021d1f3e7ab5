"""What recording a request adds to it: two servers side by side, one of them with an audit log, the same load on each.

    python -m bench.audit                    # microseconds of CPU a GET, without and with, in interleaved rounds

Of each the best round counts: whatever else the machine does can only add. Most of a record is made after its request
was answered, and is counted here all the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.kit.processes import Process

from bench.api.access import TOKEN_FILE, Access
from bench.api.costs import CLIENTS, cpu_seconds
from bench.api.wrk import Wrk

ONE = "/api/v1/namespaces/default"


def start(folder: Path, *flags: str) -> tuple[Process, Access]:
    folder.mkdir()
    (folder / "tokens.csv").write_text(TOKEN_FILE)
    argv = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(folder / "data")]
    argv += ["--listen", "127.0.0.1:0", "--store", "memory", "--token-auth-file", str(folder / "tokens.csv")]
    process = Process.start("pilothouse apiserver", [*argv, *flags], log=folder / "log")
    process.wait_until(lambda: "is ready at" in process.output(), seconds=30)
    port = int(process.output().split("https://127.0.0.1:")[1].split()[0])
    return process, Access(port)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = {
            "without": start(folder / "without"),
            "with": start(folder / "with", "--audit-log-path", str(folder / "audit.log")),
        }
        for process, _ in servers.values():
            stack.callback(process.end)
        wrk = Wrk(folder)
        costs: dict[str, list[float]] = {label: [] for label in servers}
        for _ in range(chosen.rounds):
            for label, (process, access) in servers.items():
                before = cpu_seconds(process.pid)
                flow = wrk.run(access, access.request("GET", ONE), clients=CLIENTS, seconds=chosen.seconds)
                costs[label].append((cpu_seconds(process.pid) - before) / flow.requests * 1e6)
        for label, found in costs.items():
            print(f"{label:8} {min(found):6.1f} µs of CPU a GET")
        added = min(costs["with"]) / min(costs["without"]) - 1
        print(f"added    {added:6.1%}")
        log = folder / "audit.log"
        lines = sum(1 for each in [log, *folder.glob("audit-*.log")] for _ in each.open("rb"))
        print(f"{lines:,} records written")


if __name__ == "__main__":
    main()
