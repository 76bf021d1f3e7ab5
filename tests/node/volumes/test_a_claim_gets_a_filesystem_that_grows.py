from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from random import Random

import pytest
from tests.kit.waiting import eventually
from tests.node.volumes.plane import Plane, plane

from pilothouse.aio.commands import run
from pilothouse.api.kind_names import (
    CoreEvent,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttributesClass,
)
from pilothouse.api.objects import Object
from pilothouse.base.clock import ManualClock, SystemClock
from pilothouse.client.informer import Informer
from pilothouse.node.volumes.filesystems import BTRFS, EXT4, KNOWN, XFS, FilesystemError, chosen
from pilothouse.node.volumes.loop_backend import LoopBackend
from pilothouse.node.volumes.mount_table import at, mounts
from pilothouse.node.volumes.volume_backend import VolumeBackendError

LOOP = "pilothouse.io/loop"
MI = 1 << 20


def devices(disk: Path) -> list[str]:
    """The loop devices that a file is on."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if backing.read_text().strip() == str(disk):
                found.append(backing.parts[3])
    return found


async def gone(disk: Path) -> bool:
    return not devices(disk)


def size(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


@pytest.mark.parametrize(
    ("asked", "megabytes", "has", "found"),
    [
        ("", 320, {"xfs", "btrfs", "ext4"}, XFS),
        ("", 200, {"xfs", "btrfs", "ext4"}, BTRFS),
        ("", 64, {"xfs", "btrfs", "ext4"}, EXT4),
        ("", 320, {"btrfs"}, BTRFS),
        ("ext4", 1000, {"xfs", "ext4"}, EXT4),
    ],
)
def test_the_first_filesystem_that_will_do_is_taken(
    asked: str, megabytes: int, has: set[str], found: object
) -> None:
    programs = {program for name in has for program in KNOWN[name].programs}
    assert chosen(asked, megabytes * MI, has=programs.__contains__) is found


@pytest.mark.parametrize(
    ("asked", "megabytes", "has", "said"),
    [
        ("zfs", 320, {"xfs"}, "there are xfs, btrfs, ext4"),
        ("xfs", 100, {"xfs"}, "xfs needs 300Mi at least"),
        ("xfs", 320, set(), "install xfsprogs"),
        ("", 320, set(), "install xfsprogs or btrfs-progs or e2fsprogs"),
        ("", 1, {"ext4"}, "too few for any filesystem"),
    ],
)
def test_what_would_help_is_said_if_none_will_do(
    asked: str, megabytes: int, has: set[str], said: str
) -> None:
    programs = {program for name in has for program in KNOWN[name].programs}
    with pytest.raises(FilesystemError, match=said):
        chosen(asked, megabytes * MI, has=programs.__contains__)


async def test_who_stops_between_a_device_and_its_mount_leaves_none(mkfs: None, tmp_path: Path) -> None:
    loops, disk = LoopBackend(root=True), tmp_path / "disk"
    await loops.make(tmp_path, 128 * MI, {"fsType": "btrfs"})
    await loops.unmount(tmp_path)
    for _ in range(5):
        bringing = asyncio.create_task(loops.mount(tmp_path))
        while not (bringing.done() or devices(disk)):  # noqa: ASYNC110 - the kernel tells of a device by its files alone
            await asyncio.sleep(0)
        bringing.cancel()
        await asyncio.gather(bringing, return_exceptions=True)
        if at(mounts(), tmp_path / loops.inner) is not None:
            await loops.unmount(tmp_path)
        await eventually(lambda: gone(disk), seconds=30)


@pytest.mark.parametrize(("kind", "megabytes"), [("xfs", 320), ("btrfs", 128)])
async def test_a_filesystem_grows_while_it_is_written_to(
    mkfs: None, tmp_path: Path, kind: str, megabytes: int
) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP, parameters={"fsType": kind})
        await here.claim("data", f"{megabytes}Mi", "loop")
        path = await here.mounted(await here.pod("db", "data"))
        mounted = at(mounts(), path)
        assert mounted is not None
        assert mounted.kind == kind
        before = size(path)
        assert before <= megabytes * MI
        writing = asyncio.create_task(_write(path))
        await here.grow("data", f"{2 * megabytes}Mi")

        async def grown() -> bool:
            return bool(
                (await here.find_claim("data")).status["capacity"] == {"storage": f"{2 * megabytes}Mi"}
            )

        await eventually(grown)
        assert size(path) > before + megabytes * MI * 8 // 10
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert {content.stat().st_size for content in path.glob("row-*")} == {4096}
        assert (await here.volumes.usage())[0].capacity == size(path)


async def _write(path: Path) -> None:
    number = 0
    while True:
        (path / f"row-{number}").write_bytes(os.urandom(4096))
        number += 1
        await asyncio.sleep(0.001)


async def test_what_is_written_outlives_pods_and_agents_and_goes_with_the_claim(
    mkfs: None, tmp_path: Path
) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "320Mi", "loop")
        pod = await here.pod("db", "data")
        path = await here.mounted(pod)
        (path / "row").write_text("precious")
        await here.stop_node()
        here.start_node()
        # The new agent finds it mounted, and mounts nothing over it.
        assert await here.mounted(pod) == path
        assert len([one for one in mounts() if one.target == path]) == 1
        await here.delete_pod(pod)
        assert at(mounts(), path) is None
        assert not (path / "row").exists()
        again = await here.pod("db", "data")
        assert (await here.mounted(again) / "row").read_text() == "precious"
        volume = await here.volume_of("data")
        await here.api.delete(PersistentVolumeClaim, "data", "default")
        await here.delete_pod(again)
        await here.gone(volume.name)
        assert not path.parent.exists()
        assert str(path) not in await run("losetup", "--list")


async def test_a_volume_grows_though_nobody_has_it_mounted(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "320Mi", "loop")
        pod = await here.pod("db", "data")
        before = size(await here.mounted(pod))
        await here.delete_pod(pod)
        await here.grow("data", "640Mi")

        async def grown() -> bool:
            return bool((await here.find_claim("data")).status["capacity"] == {"storage": "640Mi"})

        await eventually(grown)
        assert size(await here.mounted(await here.pod("db", "data"))) > before + 256 * MI


async def test_a_growth_that_was_cut_short_is_finished_by_the_next_agent(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "320Mi", "loop")
        pod = await here.pod("db", "data")
        path = await here.mounted(pod)
        before = size(path)
        await here.stop_node()
        # As far as an agent may have come: the file is larger, and nobody knows.
        os.truncate(path.parent / "disk", 640 * MI)
        await here.grow("data", "640Mi")
        here.start_node()

        async def grown() -> bool:
            return bool((await here.find_claim("data")).status["capacity"] == {"storage": "640Mi"})

        await eventually(grown)
        assert size(path) > before + 256 * MI


async def test_a_disk_without_room_is_told_and_nothing_is_left(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "100Ti", "loop")
        await here.pod("db", "data")
        condition = await here.condition("data", "pilothouse.io/Provisioned")
        assert "there is not enough space for 100Ti" in condition["message"]
        assert not list((here.data / "volumes").glob("*/disk*"))
        assert (await here.api.list(PersistentVolume)).objects == []


async def test_growth_without_room_is_told_and_the_volume_stays_as_it_is(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "320Mi", "loop")
        path = await here.mounted(await here.pod("db", "data"))
        before = size(path)
        await here.grow("data", "100Ti")
        condition = await here.condition("data", "NodeResizeError")
        assert "there is not enough space for 100Ti" in condition["message"]
        assert (await here.find_claim("data")).status["capacity"] == {"storage": "320Mi"}
        assert size(path) == before


async def test_a_growth_that_fails_says_so_until_a_retry_succeeds(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "320Mi", "loop")
        await here.mounted(await here.pod("db", "data"))
        informer = Informer(here.api, PersistentVolumeClaim, Random(4), SystemClock())
        seen: list[Object] = []
        informer.subscribe(lambda change: seen.append(change.new) if change.new is not None else None)
        watching = asyncio.create_task(informer.run())
        await here.grow("data", "100Ti")

        async def retried() -> bool:
            found = (await here.api.list(CoreEvent, "default")).objects
            return (
                sum(int(one.get("count", 1)) for one in found if one["reason"] == "VolumeResizeFailed") >= 3
            )

        await eventually(retried)
        first = next(index for index, one in enumerate(seen) if one.condition("NodeResizeError"))
        assert all(one.condition("NodeResizeError") for one in seen[first:])
        # Another size is another attempt: the error that stays is its own.
        await here.grow("data", "200Ti")

        async def other() -> bool:
            found = (await here.find_claim("data")).condition("NodeResizeError") or {}
            return "there is not enough space for 200Ti" in str(found.get("message"))

        await eventually(other)
        await here.grow("data", "640Mi")

        async def grown() -> bool:
            return bool((await here.find_claim("data")).status["capacity"] == {"storage": "640Mi"})

        await eventually(grown)
        assert (await here.find_claim("data")).condition("NodeResizeError") is None
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_another_size_is_tried_without_waiting_for_the_retry_of_the_last_one(
    mkfs: None, tmp_path: Path
) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP)
        await here.claim("data", "320Mi", "loop")
        await here.mounted(await here.pod("db", "data"))
        await here.stop_node()
        # Time stands still from here on: no retry ever becomes due.
        here.start_node(ManualClock(now=SystemClock().now()))
        await here.grow("data", "100Ti")

        async def failed() -> bool:
            return (await here.find_claim("data")).condition("NodeResizeError") is not None

        await eventually(failed)
        await here.grow("data", "640Mi")

        async def grown() -> bool:
            return bool((await here.find_claim("data")).status["capacity"] == {"storage": "640Mi"})

        await eventually(grown)


async def test_a_class_may_ask_for_no_more_than_is_written(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP, parameters={"allocation": "sparse"})
        await here.claim("data", "10Gi", "loop")
        path = await here.mounted(await here.pod("db", "data"))
        assert (path.parent / "disk").stat().st_blocks * 512 < 1 << 30


async def test_an_ordinary_user_is_told_what_to_do_instead(tmp_path: Path) -> None:
    loops = LoopBackend(root=False)
    with pytest.raises(VolumeBackendError, match="use a class of pilothouse"):
        await loops.make(tmp_path / "volume", 320 * MI, {})


async def _limited(here: Plane, provisioner: str, driver: str, **parameters: str) -> None:
    await here.storage_class("some", provisioner)
    await here.claim("data", "320Mi", "some")
    await here.mounted(await here.pod("db", "data"))
    body = {"metadata": {"name": "slow"}, "driverName": driver, "parameters": parameters}
    await here.api.create(VolumeAttributesClass, body)
    fields = {"spec": {"volumeAttributesClassName": "slow"}}
    await here.api.patch(PersistentVolumeClaim, "data", "default", fields)


async def test_limits_are_those_of_the_volumes_own_device(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await _limited(here, LOOP, LOOP, iops="100", writeThroughput="10Mi")

        async def done() -> bool:
            return (await here.find_claim("data")).status.get("currentVolumeAttributesClassName") == "slow"

        await eventually(done)
        assert (await here.volume_of("data")).spec["volumeAttributesClassName"] == "slow"
        pod = await here.pod("second", "data", nodeName="n1")
        path = (await here.volumes.prepare(pod))["data"].path
        (limits,) = here.volumes.throttles(pod.uid)
        device = os.stat(path).st_dev
        assert limits.device == f"{os.major(device)}:{os.minor(device)}"
        assert (limits.read_operations, limits.write_operations) == (100, 100)
        assert (limits.read_bytes, limits.write_bytes) == (None, 10 * MI)


@pytest.mark.parametrize(
    ("provisioner", "driver", "parameters", "said"),
    [
        (
            "pilothouse.io/directory",
            "pilothouse.io/directory",
            {"iops": "1"},
            "only loop volumes can have limits",
        ),
        (LOOP, "csi.example.com", {"iops": "1"}, "is for volumes of csi.example.com"),
        (LOOP, LOOP, {"speed": "1"}, "parameters.speed is not known"),
        (LOOP, LOOP, {"iops": "many"}, "parameters.iops"),
    ],
)
async def test_limits_that_can_not_be_are_told_on_the_claim(
    mkfs: None, tmp_path: Path, provisioner: str, driver: str, parameters: dict[str, str], said: str
) -> None:
    async with plane(tmp_path) as here:
        await _limited(here, provisioner, driver, **parameters)
        condition = await here.condition("data", "ModifyVolumeError")
        assert said in condition["message"]
        status = (await here.find_claim("data")).status["modifyVolumeStatus"]
        assert status == {"targetVolumeAttributesClassName": "slow", "status": "Infeasible"}
