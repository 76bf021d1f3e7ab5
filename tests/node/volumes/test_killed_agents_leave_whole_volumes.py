"""The agent is killed while it makes a volume, at each point that can be seen from outside; the next one finishes the work, once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.aio.commands import run
from pilothouse.node.volumes.mount_table import at, mounts

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

Reached = Callable[[Path], bool]
POINTS: dict[str, Reached] = {
    "its folder is there": lambda folder: folder.exists(),
    "its file is begun": lambda folder: (folder / "disk.draft").exists() or (folder / "disk").exists(),
    "its filesystem is made": lambda folder: (folder / "disk").exists(),
    "it is mounted": lambda folder: at(mounts(), folder / "mount") is not None,
    "it is written down": lambda folder: (folder / "volume.json").exists(),
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, mkfs: None) -> Iterator[UpPlane]:
    with UpPlane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


def kill_once(reached: Callable[[], bool], agent: int, seconds: float = 60.0) -> None:
    """Kill the agent as soon as this is so. Looks without a pause: some points are passed in a few milliseconds."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
    os.kill(agent, signal.SIGKILL)


def manifests(name: str) -> tuple[str, str]:
    """A claim, and a pod that has it."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "loop",
            "resources": {"requests": {"storage": "320Mi"}},
        },
    }
    container = {
        "name": "sh",
        "image": "host/sh",
        "command": ["sh", "-c", "echo life >> /data/lives; trap 'exit 0' TERM; while :; do sleep 0.1; done"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 3,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        },
    }
    return json.dumps(claim), json.dumps(pod)


@pytest.mark.parametrize("point", POINTS)
async def test_the_next_one_finishes_the_work(plane: UpPlane, point: str) -> None:
    name = point.replace(" ", "-")
    tier = plane.data / "node" / "volumes"
    agent = plane.role("node")["pid"]
    claim, pod = manifests(name)
    (await plane.kubectl("apply", "-f", "-", stdin=claim)).ok()
    uid = (await plane.kubectl("get", "pvc", name, "-o", "jsonpath={.metadata.uid}")).ok()
    folder = tier / f"pvc-{uid}"
    killing = asyncio.create_task(asyncio.to_thread(kill_once, lambda: POINTS[point](folder), agent))
    (await plane.kubectl("apply", "-f", "-", stdin=pod)).ok()
    await killing
    (await plane.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=90s")).ok()
    assert (await plane.kubectl("exec", name, "--", "cat", "/data/lives")).ok() == "life\n"
    assert len([one for one in mounts() if one.target == folder / "mount"]) == 1
    devices = await run("losetup", "--associated", str(folder / "disk"), "--noheadings", "--output", "NAME")
    assert len(devices.split()) == 1
    assert not (folder / "disk.draft").exists()
    volumes = json.loads((await plane.kubectl("get", "pv", "-o", "json")).ok())["items"]
    assert [one["spec"]["claimRef"]["name"] for one in volumes] == [name]
    (await plane.kubectl("delete", "pod,pvc", name, "--timeout=60s")).ok()

    async def gone() -> bool:
        listed = await run("losetup", "--list", "--noheadings", "--output", "BACK-FILE")
        return not folder.exists() and str(folder) not in listed

    await eventually(gone, seconds=60)
