"""``python -m bench.up [--rounds 5]``: from the start of the process to Node Ready, and memory at rest.

Each round has a data folder of its own. Time counts from before the process is made until the API says that the Node is Ready, seen from
outside: for the first start, which makes keys and everything else, and for the second on the same data. It depends on what else the
machine does, so the processor time that all roles had used by then is told too. Memory is that of all roles together a few seconds
later: by share (pages that several processes have in common count once in all) and resident (where they count for each).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pilothouse.client.access import AccessError
from pilothouse.client.kubeconfig import load
from pilothouse.client.single_request import RequestFailed, send_request

NAME = "bench"
NODE = f"/api/v1/nodes/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}"
PATIENCE = 60.0
REST = 8.0
MOST_SECONDS, MOST_MIB = 3.0, 200.0


@dataclass(frozen=True)
class Start:
    """One start: seconds by the clock, and of processors."""

    took: float
    worked: float


class Up:
    """A ``pilothouse up`` that runs."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._log = data.parent / "up.log"
        self._began = time.monotonic()
        flags = ("--data", str(data), "--listen", "127.0.0.1:0", "--name", NAME)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pilothouse", "up", *flags],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def ready(self) -> Start:
        """Wait until the Node is."""
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() - self._began > PATIENCE:
                raise SystemExit(f"it ended, or was not ready in {PATIENCE:g} s:\n{self._log.read_text()}")
            time.sleep(0.02)
        took = time.monotonic() - self._began
        return Start(took, sum(map(_worked, self._pids().values())))

    def memory(self) -> dict[str, tuple[float, float]]:
        """Of each role, by share and resident, in MiB."""
        return {role: _memory(pid) for role, pid in self._pids().items()}

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)

    def _pids(self) -> dict[str, int]:
        report = json.loads((self._data / "up.json").read_text())
        return {"up": report["pid"], **{each["name"]: each["pid"] for each in report["roles"] if each["pid"]}}

    def _is_ready(self) -> bool:
        """Whether the API says so, and this start of the node is the one that says it."""
        try:
            report = json.loads((self._data / "up.json").read_text())
            access = load(self._data / "admin.kubeconfig")
            if not report["url"] or access.url != report["url"]:
                return False
            with send_request(access, NODE, {}, agent="bench", patience=1.0) as answer:
                conditions = json.loads(b"".join(answer.pieces()))["status"].get("conditions", ())
            with send_request(access, LEASE, {}, agent="bench", patience=1.0) as answer:
                renewed = json.loads(b"".join(answer.pieces()))["spec"]["renewTime"]
        except (OSError, ValueError, AccessError, RequestFailed):
            return False
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(report["since"]))
        return (
            renewed > since
            and {"Ready": "True"}.items() <= {each["type"]: each["status"] for each in conditions}.items()
        )


@contextmanager
def started(data: Path) -> Iterator[Up]:
    up = Up(data)
    try:
        yield up
    finally:
        up.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.up", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}")
    first: list[Start] = []
    second: list[Start] = []
    shares: list[float] = []
    residents: list[float] = []
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            with started(Path(name) / "data") as up:
                first.append(up.ready())
            with started(Path(name) / "data") as up:
                second.append(up.ready())
                time.sleep(REST)
                memory = up.memory()
        shares.append(sum(share for share, _ in memory.values()))
        residents.append(sum(resident for _, resident in memory.values()))
        told = ", ".join(f"{role} {share:.0f}/{resident:.0f}" for role, (share, resident) in memory.items())
        print(f"round {number}: {first[-1].took:.2f} s, then {second[-1].took:.2f} s; MiB: {told}")
    print()
    print(f"{'median of ' + str(rounds) + ' rounds':44} {'first start':>12} {'second start':>12}  wanted")
    times = [statistics.median(each.took for each in starts) for starts in (first, second)]
    work = [statistics.median(each.worked for each in starts) for starts in (first, second)]
    print(
        f"{'from process start to Node Ready':44} {times[0]:>10.2f} s {times[1]:>10.2f} s  <= {MOST_SECONDS:g} s"
    )
    print(f"{'processor time of all roles by then':44} {work[0]:>10.2f} s {work[1]:>10.2f} s")
    print(f"{'':44} {'by share':>12} {'resident':>12}")
    sizes = [statistics.median(each) for each in (shares, residents)]
    print(
        f"{'memory of all roles at rest':44} {sizes[0]:>8.0f} MiB {sizes[1]:>8.0f} MiB  <= {MOST_MIB:g} MiB"
    )


def _memory(pid: int) -> tuple[float, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return found["Pss"], found["Rss"]


def _worked(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
