"""``python -m bench.up [--rounds 5]``: from the start of the process to Node Ready, and memory at rest.

Each round has a data folder of its own. Time counts from before the process is made until the API says that the Node is Ready, seen from
outside. It is taken for the first start, which makes keys and everything else, and for the second on the same data. Memory is that of all
roles together a few seconds later: by share (what pages that several processes have in common count once in all) and resident (where they
count for each).
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
from pathlib import Path

from pilothouse.client.access import AccessError
from pilothouse.client.asking import AskError, ask
from pilothouse.client.kubeconfig import load

NAME = "bench"
PATIENCE = 60.0
REST = 8.0
MOST_SECONDS, MOST_MIB = 3.0, 200.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.up", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, {rounds} rounds"
    )
    first, second, shares, residents = [], [], [], []
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            data = Path(name) / "data"
            first.append(one_start(data, None))
            second.append(one_start(data, (memory := [])))
        share = sum(each[1] for each in memory)
        resident = sum(each[2] for each in memory)
        shares.append(share)
        residents.append(resident)
        told = ", ".join(f"{role} {part:.0f}/{whole:.0f}" for role, part, whole in memory)
        print(
            f"{number}: first start {first[-1]:.2f} s, second {second[-1]:.2f} s; {share:.0f}/{resident:.0f} MiB: {told}"
        )
    print()
    print("process start to Node Ready, median   first start  second start  wanted")
    print(
        f"  seconds                             {_median(first):>11}  {_median(second):>12}  <= {MOST_SECONDS:g}"
    )
    print("memory of all roles, median           by share     resident      wanted")
    print(
        f"  MiB                                 {_median(shares):>8}     {_median(residents):>8}      <= {MOST_MIB:g}"
    )


def one_start(data: Path, memory: list[tuple[str, float, float]] | None) -> float:
    """Seconds until the Node is ready; fills in role, share and resident MiB of each process if asked to."""
    began = time.monotonic()
    flags = ("--data", str(data), "--listen", "127.0.0.1:0", "--name", NAME)
    with (data.parent / "up.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pilothouse", "up", *flags],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        while not is_ready(data, process):
            if time.monotonic() - began > PATIENCE:
                raise SystemExit(f"not ready in {PATIENCE:g} s:\n{(data.parent / 'up.log').read_text()}")
            time.sleep(0.02)
        took = time.monotonic() - began
        if memory is not None:
            time.sleep(REST)
            report = json.loads((data / "up.json").read_text())
            pids = {"up": report["pid"], **{role["name"]: role["pid"] for role in report["roles"]}}
            memory += [(role, *_account(pid)) for role, pid in pids.items()]
        return took
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def is_ready(data: Path, process: subprocess.Popen[bytes]) -> bool:
    """Whether the API says so, and this start of the server is the one that says it."""
    if process.poll() is not None:
        raise SystemExit(f"it ended:\n{(data.parent / 'up.log').read_text()}")
    try:
        report = json.loads((data / "up.json").read_text())
        url = report["url"]
        access = load(data / "admin.kubeconfig")
        if not url or access.url != url:
            return False
        with ask(access, f"/api/v1/nodes/{NAME}", {}, agent="bench", patience=1.0) as answer:
            node = json.loads(b"".join(answer.pieces()))
        with ask(
            access,
            f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}",
            {},
            agent="bench",
        ) as answer:
            lease = json.loads(b"".join(answer.pieces()))
    except (OSError, ValueError, AccessError, AskError):
        return False
    ready = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}.get(
        "Ready"
    ) == "True"
    return ready and lease["spec"]["renewTime"] > time.strftime(
        "%Y-%m-%dT%H:%M:%S", time.gmtime(report["since"])
    )


def _account(pid: int) -> tuple[float, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return found["Pss"], found["Rss"]


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}" if max(values) < 100 else f"{statistics.median(values):.0f}"


if __name__ == "__main__":
    main()
