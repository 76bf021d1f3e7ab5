"""The node agent, the API server or the controller-manager is killed while a volume is moved to another tier, in each
phase; the next one finishes the move, and no row that the pod has written is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.aio.commands import run
from pilothouse.node.volumes.mount_table import mounts
from pilothouse.node.volumes.move_journal import MovePhase, read_move
from pilothouse.node.volumes.volume_backend import read_record

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
ROUNDS = 5 if os.environ.get("PILOTHOUSE_SOAK") else 1

LOOP = "pilothouse.io/loop"
TIERS = {"gold": "fast", "plain": "default"}
WRITER = """
trap 'exit 0' TERM
n=$(wc -l < /data/log 2>/dev/null || echo 0)
while :; do n=$((n + 1)); echo "row $n" >> /data/log; sync /data/log; sleep 0.02; done
"""
"""Numbers its rows: a row that is lost shows as one that comes twice."""


class Moved:
    """The volume of a set's pod, and where it may be."""

    def __init__(self, plane: UpPlane, kind: str, uid: str) -> None:
        self._plane = plane
        self.name = kind
        self.home = plane.data / "node" / "volumes" / f"pvc-{uid}"
        self.copy = plane.folder / "fast" / f"pvc-{uid}"

    def place(self, name: str) -> Path:
        return self.copy if TIERS[name] == "fast" else self.home

    def phase(self) -> MovePhase | None:
        move = read_move(self.home)
        return move.phase if move is not None else None

    def data(self) -> Path:
        """Where the volume is, by its record."""
        record = read_record(self.home)
        assert record is not None
        return self.copy if record.tier == "fast" else self.home

    async def rows(self) -> list[str]:
        pod = f"{self.name}-0"

        async def read() -> list[str] | None:
            found = await self._plane.kubectl("exec", pod, "--", "cat", "/data/log")
            return found.out.splitlines()[:-1] if found.code == 0 else None

        return await eventually(read, seconds=120)

    async def claim(self) -> dict[str, Any]:
        async def read() -> dict[str, Any] | None:
            found = await self._plane.kubectl("get", "pvc", f"data-{self.name}-0", "-o", "json")
            return json.loads(found.out) if found.code == 0 else None

        return await eventually(read, seconds=120)

    async def reason(self) -> str:
        conditions = (await self.claim())["status"].get("conditions") or ()
        return next((one["reason"] for one in conditions if one["type"] == "pilothouse.io/VolumeMove"), "")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, mkfs: None) -> Iterator[UpPlane]:
    folder = tmp_path_factory.mktemp("plane")
    (folder / "fast").mkdir(mode=0o700)
    with UpPlane(folder, "--tier", f"fast={folder / 'fast'}") as plane:
        yield plane


async def moved(plane: UpPlane, kind: str, size: str) -> Moved:
    """A set of one pod that writes to a volume of this filesystem."""
    container = {
        "name": "sh",
        "image": "host/sh",
        "command": ["sh", "-c", WRITER],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": kind,
        "resources": {"requests": {"storage": size}},
    }
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": kind},
        "spec": {
            "serviceName": kind,
            "replicas": 1,
            "selector": {"matchLabels": {"app": kind}},
            "template": {
                "metadata": {"labels": {"app": kind}},
                "spec": {"terminationGracePeriodSeconds": 3, "containers": [container]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": kind},
        "provisioner": LOOP,
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"fsType": kind},
    }
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttributesClass",
            "metadata": {"name": name},
            "driverName": LOOP,
            "parameters": {"tier": tier, "keep": "2s"},
        }
        for name, tier in TIERS.items()
    ]
    for each in (storage, *classes, body):
        (await plane.kubectl("apply", "-f", "-", stdin=json.dumps(each))).ok()

    async def ready() -> bool:
        found = await plane.kubectl("get", "pod", f"{kind}-0", "-o", "jsonpath={.status.phase}")
        return found.code == 0 and found.out == "Running"

    await eventually(ready)
    found = await plane.kubectl("get", "pvc", f"data-{kind}-0", "-o", "jsonpath={.metadata.uid}")
    return Moved(plane, kind, found.ok())


def kill_once(reached: Callable[[], bool], victim: int, seconds: float = 120.0) -> None:
    deadline, pause = time.monotonic() + seconds, Event()
    while not reached():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
        pause.wait(0.0005)
    os.kill(victim, signal.SIGKILL)


def is_copied(it: Moved, place: Path) -> bool:
    return (place / "copy" / "log").exists()


COPIES: dict[str, Callable[[Moved, Path], bool]] = {
    "the move is written down": lambda it, _: it.phase() is MovePhase.COPYING,
    "the copy has a file": lambda it, place: (place / "disk").exists(),
    "the copy is being written": is_copied,
    "the pod is away": lambda it, _: it.phase() is MovePhase.FINISHING,
    "the record has switched": lambda it, place: it.data() == place,
    "the old copy is kept": lambda it, _: it.phase() is MovePhase.KEPT,
    "the old copy goes": lambda it, _: it.phase() is MovePhase.REMOVING,
}
REPLACED: dict[str, Callable[[Moved, Path], bool]] = {
    "the move is written down": lambda it, _: it.phase() is MovePhase.REPLACING,
    "btrfs has both files": lambda it, place: (place / "disk").exists(),
    "the record has switched": lambda it, place: it.data() == place,
}


async def move_and_kill(
    plane: UpPlane, it: Moved, name: str, reached: Callable[[Moved, Path], bool], role: str = "node"
) -> None:
    victim, place = plane.role(role)["pid"], it.place(name)
    before = await it.rows()
    killing = asyncio.create_task(asyncio.to_thread(kill_once, lambda: reached(it, place), victim))
    patch = json.dumps({"spec": {"volumeAttributesClassName": name}})

    async def asked() -> bool:
        return (await plane.kubectl("patch", "pvc", f"data-{it.name}-0", "-p", patch)).code == 0

    await eventually(asked, seconds=60)
    evicted = False

    async def over() -> bool:
        nonlocal evicted
        assert (it.data() / "disk").exists()
        reason = await it.reason()
        if reason == "AwaitingRestart" and not evicted:
            evicted = (await plane.kubectl("delete", "pod", f"{it.name}-0", "--wait=false")).code == 0
        current = (await it.claim())["status"].get("currentVolumeAttributesClassName")
        return killing.done() and current == name and not reason

    await eventually(over, seconds=180)
    await killing
    after = await it.rows()
    assert after[: len(before)] == before
    assert after == [f"row {number}" for number in range(1, len(after) + 1)]
    assert it.data() == place
    other = it.home if place == it.copy else it.copy
    assert not (other / "disk").exists()
    assert it.phase() is None
    assert len([one for one in mounts() if one.target == it.home / "mount"]) == 1
    devices = await run("losetup", "--associated", str(place / "disk"), "--noheadings", "--output", "NAME")
    assert len(devices.split()) == 1


async def test_a_copy_is_finished_or_undone(plane: UpPlane) -> None:
    it = await moved(plane, "xfs", "320Mi")
    names = list(TIERS)
    for number, point in enumerate([*COPIES] * ROUNDS):
        await move_and_kill(plane, it, names[number % 2], COPIES[point])


async def test_the_control_plane_may_die_meanwhile(plane: UpPlane) -> None:
    it = await moved(plane, "xfs", "320Mi")
    names, roles = list(TIERS), itertools.cycle(("apiserver", "controller-manager"))
    if (await it.claim())["status"].get("currentVolumeAttributesClassName") == names[0]:
        names.reverse()
    for number, (point, role) in enumerate(zip([*COPIES] * ROUNDS, roles, strict=False)):
        await move_and_kill(plane, it, names[number % 2], COPIES[point], role)


async def test_btrfs_goes_on(plane: UpPlane) -> None:
    it = await moved(plane, "btrfs", "512Mi")
    names = list(TIERS)
    for number, point in enumerate([*REPLACED] * ROUNDS):
        await move_and_kill(plane, it, names[number % 2], REPLACED[point])
