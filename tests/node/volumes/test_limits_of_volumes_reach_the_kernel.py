"""The limits of a VolumeAttributesClass, in the control groups of the containers that use the volume."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.supervise import cgroups
from pilothouse.supervise.container_records import read_state

pytestmark = pytest.mark.long

LOOP = "pilothouse.io/loop"


@pytest.fixture
def plane(tmp_path: Path, mkfs: None) -> Iterator[UpPlane]:
    if why := cgroups.find("pilothouse/test").unavailable.get("io"):
        pytest.skip(f"this machine limits no I/O: {why}")
    with UpPlane(tmp_path) as plane:
        yield plane


def attributes(name: str, **parameters: str) -> dict[str, Any]:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass"}
    return {**kind, "metadata": {"name": name}, "driverName": LOOP, "parameters": parameters}


def limits(pid: int, device: str) -> set[str]:
    """What the kernel has for a device in the groups of a process, in either version's words."""
    found = set()
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            for file in Path(f"/sys/fs/cgroup/blkio{path}").glob("blkio.throttle.*_device"):
                for row in file.read_text().splitlines():
                    if row.startswith(f"{device} "):
                        found.add(f"{file.name.split('.')[2].removesuffix('_device')}={row.split()[1]}")
        elif not controllers and (limit := Path(f"/sys/fs/cgroup{path}/io.max")).exists():
            for row in limit.read_text().splitlines():
                if row.startswith(f"{device} "):
                    names = {
                        "rbps": "read_bps",
                        "wbps": "write_bps",
                        "riops": "read_iops",
                        "wiops": "write_iops",
                    }
                    pairs = (pair.split("=") for pair in row.split()[1:])
                    found |= {f"{names[key]}={value}" for key, value in pairs if value != "max"}
    return found


async def test_they_are_there_from_the_start_and_change_while_it_runs(plane: UpPlane) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "loop",
            "volumeAttributesClassName": "slow",
            "resources": {"requests": {"storage": "320Mi"}},
        },
    }
    container = {
        "name": "sh",
        "image": "host/sh",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db"},
        "spec": {
            "terminationGracePeriodSeconds": 3,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }
    slow, fast = attributes("slow", iops="50", writeThroughput="1Mi"), attributes("fast", iops="500")
    for body in (slow, fast, claim, pod):
        (await plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))).ok()
    (await plane.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=60s")).ok()
    uid = (await plane.kubectl("get", "pod", "db", "-o", "jsonpath={.metadata.uid}")).ok()
    state = read_state(plane.data / "node" / "pods" / uid / "containers" / "sh" / "0")
    assert state is not None
    pid = state.program.pid
    number = os.stat(f"/proc/{pid}/root/data").st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    assert limits(pid, device) == {"read_iops=50", "write_iops=50", "write_bps=1048576"}
    (await plane.kubectl("patch", "pvc", "data", "-p", '{"spec":{"volumeAttributesClassName":"fast"}}')).ok()

    async def changed() -> bool:
        return limits(pid, device) == {"read_iops=500", "write_iops=500"}

    await eventually(changed, seconds=60)
    current = "jsonpath={.status.currentVolumeAttributesClassName}"
    assert (await plane.kubectl("get", "pvc", "data", "-o", current)).ok() == "fast"
