"""From a volume that passes its threshold to a larger filesystem.

    python -m bench.rules.growth [--rounds 5]           # as root: volumes are filesystems of their own

`up`, a pod with a volume of 320Mi, and a rule that grows it by half as soon as it has been half full for ``for`` seconds. Each round
writes more than half of the volume at once, and looks at the filesystem until it is larger. What is measured is the time from the
beginning of the write, less ``for``; of it, a poll may pass until the value is seen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.up.__main__ import started

HOLD, POLL = 5, 1
MOST_SECONDS = 5.0
PATIENCE = 120.0
_MI = 2**20
Json = dict[str, Any]

CLAIM: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "loop",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "320Mi"}},
    },
}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "writer"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "sh",
                "image": "host/sh",
                "args": ["-c", "trap 'exit 0' TERM; while :; do sleep 1; done"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}
RULE: Json = {
    "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
    "kind": "AutopilotRule",
    "metadata": {"name": "grow"},
    "spec": {
        "pollInterval": POLL,
        "conditions": {
            "for": HOLD,
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["50"]}],
        },
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
        "actionsCoolDownPeriod": 1,
    },
}


class Cluster:
    def __init__(self, data: Path) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise SystemExit("kubectl is not on PATH")
        self._kubectl = [program, "--kubeconfig", str(data / "admin.kubeconfig")]

    def apply(self, *trees: Json) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": trees}
        argv = [*self._kubectl, "apply", "-f", "-"]
        subprocess.run(argv, input=json.dumps(listed), text=True, check=True, capture_output=True)

    def get(self, *what: str) -> Json:
        done = subprocess.run([*self._kubectl, "get", *what, "-o", "json"], capture_output=True, check=False)
        found: Json = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

    def state(self) -> str:
        items = self.get("autopilotruleobjects").get("items", ())
        return str((items[0].get("status") or {}).get("state")) if items else ""

    def mount(self) -> Path:
        """Where the volume is on this machine."""
        volume = self.get("pvc", "data")["spec"]["volumeName"]
        mounted = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
        return Path(next(path for path in mounted if volume in path))


def until(done: Callable[[], bool], pause: float) -> float:
    """When it is done, by the monotonic clock."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"it has not come about in {PATIENCE:g} s")
        time.sleep(pause)
    return time.monotonic()


def size_of(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


def measure(folder: Path) -> float:
    """Seconds beyond ``for``, from the beginning of the write."""
    with started(folder / "data") as up:
        up.ready()
        cluster = Cluster(folder / "data")
        cluster.apply(CLAIM, POD, RULE)
        until(lambda: cluster.state() == "Normal", 0.2)
        path = cluster.mount()
        size = size_of(path)
        began = time.monotonic()
        with (path / "rows").open("wb") as file:
            file.write(bytes(180 * _MI))
            file.flush()
            os.fsync(file.fileno())
        return until(lambda: size_of(path) > size, 0.01) - began - HOLD


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if os.geteuid() != 0:
        raise SystemExit("it makes and mounts filesystems, which only root may")
    found = []
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            found.append(measure(Path(name)))
        print(f"round {number}: {found[-1]:.2f} s after `for`, load {os.getloadavg()[0]:.1f}", flush=True)
    print(
        f"median {statistics.median(found):.2f} s, wanted <= {POLL + MOST_SECONDS:g} s with the poll of {POLL} s"
    )


if __name__ == "__main__":
    main()
