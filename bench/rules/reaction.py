"""From a threshold to a larger filesystem, on ``pilothouse up``. Wants root, for loop devices.

    python -m bench.rules.reaction [--rounds 3]

A rule asks every five seconds how full a volume is, has to see it more than half full for five seconds, and grows it by half. Each
round writes until the threshold is passed, and measures from then on until the filesystem is larger, as the writer sees it. What is
more than the time for which the condition has to hold and one poll is ours: deciding, acting, resizing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import yaml
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.api.openstorage.actions import RESIZE

MI: Final = 1 << 20
FOR, POLL, COOL_DOWN = 5, 5, 5
PATIENCE = 120.0
CLAIM: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "labels": {"app": "bench"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "loop",
        "resources": {"requests": {"storage": "320Mi"}},
    },
}
POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "writer"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "host/sleep",
                "command": ["sleep", "infinity"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}
RULE: Final[dict[str, Any]] = {
    "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
    "kind": "AutopilotRule",
    "metadata": {"name": "grow"},
    "spec": {
        "selector": {"matchLabels": {"app": "bench"}},
        "pollInterval": POLL,
        "conditions": {
            "for": FOR,
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["50"]}],
        },
        "actions": [{"name": RESIZE, "params": {"scalepercentage": "50"}}],
        "actionsCoolDownPeriod": COOL_DOWN,
    },
}


async def measure(plane: UpPlane, rounds: int) -> list[float]:
    await _applied(plane, CLAIM, POD, RULE)
    claim = await eventually(lambda: _found(plane, "pvc", "data", "Bound"))
    volume = await _json(plane, "pv", claim["spec"]["volumeName"])
    path = Path(volume["spec"]["local"]["path"])
    await eventually(lambda: _found(plane, "pod", "writer", "Running"))
    seconds: list[float] = []
    for number in range(rounds):
        await eventually(lambda: _is_normal(plane))
        await asyncio.to_thread(_fill, path, number)
        size, began = _size(path), time.monotonic()
        while _size(path) == size:
            if time.monotonic() - began > PATIENCE:
                shown = await plane.kubectl("get", "ar,aro,aa,pvc", "-o", "yaml")
                sys.exit(f"the filesystem has not grown\n{shown.out}")
            await asyncio.sleep(0.02)
        seconds.append(time.monotonic() - began)
        print(f"round {number + 1}: {seconds[-1]:.2f} s, {size // MI} to {_size(path) // MI} MiB", flush=True)
    return seconds


def _fill(path: Path, number: int) -> None:
    """Write until more than half of the filesystem is used; the data is on the disk then.

    XFS reserves more than is written to a file, until it is closed: so there are many."""
    count = 0
    while (used := shutil.disk_usage(path)).used <= 0.52 * used.total:
        with (path / f"data-{number}-{count}").open("wb") as out:
            out.write(os.urandom(MI))
            out.flush()
            os.fsync(out.fileno())
        count += 1


def _size(path: Path) -> int:
    return shutil.disk_usage(path).total


async def _applied(plane: UpPlane, *objects: dict[str, Any]) -> None:
    path = plane.folder / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))

    async def apply() -> bool:
        return (await plane.kubectl("apply", "-f", str(path))).code == 0

    # The service account of the namespace may not be there yet.
    await eventually(apply)


async def _json(plane: UpPlane, *words: str) -> dict[str, Any]:
    got = await plane.kubectl("get", *words, "-o", "json")
    found: dict[str, Any] = json.loads(got.out) if got.code == 0 else {}
    return found


async def _found(plane: UpPlane, kind: str, name: str, phase: str) -> dict[str, Any] | None:
    found = await _json(plane, kind, name)
    return found if (found.get("status") or {}).get("phase") == phase else None


async def _is_normal(plane: UpPlane) -> bool:
    items = (await _json(plane, "autopilotruleobjects"))["items"]
    return [each.get("status", {}).get("state") for each in items] == ["Normal"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    if os.geteuid() != 0:
        sys.exit("it makes loop devices, which only root may")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name, UpPlane(Path(name)) as plane:
        seconds = asyncio.run(measure(plane, rounds))
    print(
        f"at most {max(seconds):.2f} s; {FOR} s of holding and {POLL} s of a poll leave {max(seconds) - FOR - POLL:.2f} s"
    )


if __name__ == "__main__":
    main()
