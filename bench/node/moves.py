"""How long a pod is away while its volume moves to another tier, beside a plain copy. Wants root, for loop devices.

    python -m bench.node.moves [--files 1024] [--megabytes 1] [--folder DIR] [--kind xfs --kind ext4 --kind btrfs]

A volume of files, a tenth of which is written anew while it moves. XFS and ext4 are copied while the pod uses them; then the pod
stops, and is away from its deletion until the volume is ready for the next one: what has changed is copied, and the copy compared.
A plain copy stops the pod first, and takes as long as ``cp`` from one filesystem to another and the write to the disk. btrfs moves
below the pod, which is not stopped: there the longest pause between two writes that reached the disk is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from tests.kit.waiting import eventually
from tests.node.volumes.plane import Plane, plane

from pilothouse.aio.commands import run
from pilothouse.api.kind_names import PersistentVolumeClaim, VolumeAttributesClass
from pilothouse.api.local_volumes import AWAITING_RESTART, LOOP, VOLUME_MOVE
from pilothouse.api.objects import Object
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.mount_table import unmount

MI = 1 << 20
PATIENCE = 600.0


class Move:
    def __init__(self, here: Plane, pod: Object, path: Path, files: int, size: int) -> None:
        self.here = here
        self.pod = pod
        self.path = path
        self.files = files
        self.size = size
        self._rng = Random(7)

    def write(self, every: int = 1) -> None:
        for number in range(0, self.files, every):
            (self.path / f"file-{number}").write_bytes(self._rng.randbytes(self.size))
        _write_back(self.path)

    async def ask(self) -> None:
        fields = {"spec": {"volumeAttributesClassName": "fast"}}
        await self.here.api.patch(PersistentVolumeClaim, "data", "default", fields)

    async def reached(self, reason: str) -> None:
        async def look() -> bool:
            condition = (await self.here.find_claim("data")).condition(VOLUME_MOVE) or {}
            return condition.get("reason") == reason

        await eventually(look, seconds=PATIENCE)

    async def over(self) -> None:
        async def look() -> bool:
            return (await self.here.find_claim("data")).status.get(
                "currentVolumeAttributesClassName"
            ) == "fast"

        await eventually(look, seconds=PATIENCE)

    async def restarted(self) -> float:
        """Seconds from the deletion of the pod until the next one has the volume."""
        began = time.monotonic()
        await self.here.delete_pod(self.pod)
        self.pod = await self.here.pod("db", "data")

        async def look() -> Path | None:
            try:
                return await self.here.mounted(self.pod)
            except VolumeNotReady as why:
                if why.reason != "VolumeMoving":
                    raise
                return None

        self.path = await eventually(look, seconds=PATIENCE)
        return time.monotonic() - began


@asynccontextmanager
async def moving(folder: Path, kind: str, files: int, size: int) -> AsyncIterator[Move]:
    fast = folder / "fast"
    fast.mkdir()
    async with plane(folder, {"fast": fast}) as here:
        await here.storage_class("some", LOOP, parameters={"fsType": kind})
        body = {
            "metadata": {"name": "fast"},
            "driverName": LOOP,
            "parameters": {"tier": "fast", "keep": "0s"},
        }
        await here.api.create(VolumeAttributesClass, body)
        await here.claim("data", f"{_needed(files, size) // MI}Mi", "some")
        pod = await here.pod("db", "data")
        yield Move(here, pod, await here.mounted(pod), files, size)


async def copied_plainly(move: Move, folder: Path, kind: str) -> float:
    """Seconds that a copy to a new filesystem beside the other tier takes, until it is on the disk."""
    disk, target = folder / "fast" / "plain", folder / "plain"
    target.mkdir()
    with disk.open("wb") as out:
        out.truncate(_needed(move.files, move.size))
    await run(f"mkfs.{kind}", "-q", str(disk))
    await run("mount", "-o", "loop", str(disk), str(target))
    try:
        await _forget(move.path)
        began = time.monotonic()
        await run("cp", "--archive", f"{move.path}/.", str(target))
        await asyncio.to_thread(_write_back, target)
        return time.monotonic() - began
    finally:
        unmount(target)
        disk.unlink()


async def measure(folder: Path, kind: str, files: int, size: int) -> str:
    async with moving(folder, kind, files, size) as move:
        await asyncio.to_thread(move.write)
        if kind == "btrfs":
            pause = await _longest_pause(move)
            return f"the pod stays; the longest pause of a writer {pause:.2f} s"
        plain = await copied_plainly(move, folder, kind)
        await _forget(move.path)
        await move.ask()
        await move.reached("Copying")
        await asyncio.to_thread(move.write, 10)
        await move.reached(AWAITING_RESTART)
        away = await move.restarted()
        return f"away {away:.2f} s, a plain copy {plain:.2f} s: {away / plain:.2f} of it"


async def _longest_pause(move: Move) -> float:
    """The longest time between two writes that reached the disk, while a tenth of the files is written anew."""
    over, longest = asyncio.Event(), 0.0

    def put() -> None:
        with (move.path / "row").open("wb") as out:
            out.write(b"x" * 8192)
            out.flush()
            os.fsync(out.fileno())

    async def write() -> None:
        nonlocal longest
        last = time.monotonic()
        while not over.is_set():
            await asyncio.to_thread(put)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            await asyncio.sleep(0.01)

    writing = asyncio.create_task(write())
    await move.ask()
    await asyncio.to_thread(move.write, 10)
    await move.over()
    over.set()
    await writing
    return longest


def _needed(files: int, size: int) -> int:
    """Bytes of the volume: btrfs needs unallocated space to move."""
    return max(1024 * MI, 3 * files * size)


def _write_back(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    os.sync()


async def _forget(path: Path) -> None:
    """The content of the files, so that each copy reads it from the disk."""

    def forget() -> None:
        for each in path.glob("file-*"):
            handle = os.open(each, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)

    await asyncio.to_thread(forget)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1024)
    parser.add_argument("--megabytes", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the tiers are; by default for temporary files")
    parser.add_argument("--kind", action="append", choices=["xfs", "ext4", "btrfs"])
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it makes loop devices, which only root may")
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {chosen.files} files of {chosen.megabytes} MiB"
    )
    for kind in chosen.kind or ["xfs", "ext4", "btrfs"]:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
            found = asyncio.run(measure(Path(name), kind, chosen.files, chosen.megabytes * MI))
        print(f"{kind:>6}: {found}", flush=True)


if __name__ == "__main__":
    main()
