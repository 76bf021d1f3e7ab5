"""Each tier of a node is a StoragePool; one of a fixed size holds no more than that, and grows when asked."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.metrics.scraped import Scraped
from tests.kit.waiting import eventually
from tests.node.volumes.plane import NODE, Plane, plane

from pilothouse.api.kind_names import Node, PersistentVolumeClaim, StoragePool
from pilothouse.api.objects import Object
from pilothouse.base.quantity import parse_quantity
from pilothouse.node.metrics import pool_stats, volume_devices
from pilothouse.node.volumes import block_devices
from pilothouse.node.volumes.block_devices import device_of, disk_below, medium_of
from pilothouse.node.volumes.pool_report import PoolDevice, is_due, pool_status
from pilothouse.node.volumes.pooled_backends import PooledDirectories
from pilothouse.node.volumes.storage_pools import GrowthRefused, PoolUsage, StoragePools
from pilothouse.node.volumes.volume_backend import VolumeBackendError, VolumeRecord, write_record
from pilothouse.node.volumes.volume_places import VolumePlaces

DIRECTORY, LOOP = "pilothouse.io/directory", "pilothouse.io/loop"
MI, GI = 1 << 20, 1 << 30


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def backing_file(device: str) -> Path:
    return Path(Path(f"/sys/block/{device}/loop/backing_file").read_text().strip())


async def pool_of(here: Plane, tier: str, **status: Any) -> Object:
    """The StoragePool of a tier, once its status has these values."""

    async def look() -> Object | None:
        found = await here.api.find(StoragePool, f"{NODE}-{tier}")
        matches = found is not None and status.items() <= dict(found.status).items()
        return found if matches and found is not None and found.status else None

    return await eventually(look, seconds=25)


async def expanded(here: Plane, reason: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = (await here.api.get(StoragePool, f"{NODE}-fast")).condition("Expanded")
        return dict(found) if found is not None and found["reason"] == reason else None

    return await eventually(look, seconds=25)


async def ask(here: Plane, capacity: str, tier: str = "fast") -> None:
    await here.api.patch(StoragePool, f"{NODE}-{tier}", "", {"spec": {"capacity": capacity}})


async def test_each_tier_is_a_storage_pool_of_its_node(tmp_path: Path) -> None:
    async with plane(tmp_path, {"fast": made(tmp_path / "fast")}, {"fast": 2 * GI}) as here:
        fast = await pool_of(here, "fast")
        node = await here.api.get(Node, NODE)
        assert fast.status["node"] == NODE
        assert (fast.status["tier"], fast.status["capacity"]) == ("fast", "2Gi")
        assert (fast.status["provisioned"], fast.status["expandable"]) == ("0", True)
        assert fast.labels == {
            "kubernetes.io/hostname": NODE,
            "pilothouse.io/node": NODE,
            "pilothouse.io/tier": "fast",
        }
        [owner] = fast.tree["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Node", node.uid)
        other = await pool_of(here, "default")
        disk = os.statvfs(tmp_path)
        assert parse_quantity(other.status["capacity"]).to_int() == disk.f_blocks * disk.f_frsize
        assert "expandable" not in other.status or not other.status["expandable"]
        assert other.status.get("device", "") == disk_below(device_of(tmp_path))


async def test_volumes_of_a_tier_are_at_most_its_size_together(tmp_path: Path) -> None:
    async with plane(tmp_path, {"fast": made(tmp_path / "fast")}, {"fast": GI}) as here:
        await here.storage_class("fast", DIRECTORY, parameters={"tier": "fast"})
        await here.claim("first", "600Mi", "fast")
        await here.pod("one", "first")
        await here.bound("first")
        await pool_of(here, "fast", provisioned="600Mi")
        await here.claim("second", "500Mi", "fast")
        await here.pod("two", "second")
        refused = await here.condition("second", "pilothouse.io/Provisioned")
        assert "not enough space for 500Mi in the tier fast, which holds 1Gi and has 424Mi left" in str(
            refused
        )
        # Growing is refused in the same way.
        await here.grow("first", "1200Mi")
        error = await here.condition("first", "NodeResizeError")
        assert "not enough space for 1.1Gi in the tier fast" in error["message"]
        # It succeeds by itself once the tier has grown.
        await ask(here, "2Gi")
        await here.bound("second")

        async def has_grown() -> bool:
            claim = await here.find_claim("first")
            return bool(claim.at("status", "capacity", "storage") == "1200Mi")

        await eventually(has_grown)
        await pool_of(here, "fast", capacity="2Gi", provisioned="1700Mi")
        page = Scraped.read("".join(pool_stats.families(NODE, here.volumes.pools)).encode())
        assert page.value("px_pool_stats_provisioned_bytes", pool="n1-fast") == 1700 * MI
        assert page.value("px_pool_stats_total_bytes", pool="n1-fast", tier="fast", node="n1") == 2 * GI


async def test_a_tier_grows_when_asked_and_stays_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with plane(tmp_path, {"fast": made(tmp_path / "fast")}, {"fast": GI}) as here:
        await pool_of(here, "fast", capacity="1Gi")
        await ask(here, "2Gi")
        assert (await expanded(here, "Expanded"))["status"] == "True"
        await pool_of(here, "fast", capacity="2Gi")
        # It never shrinks: not when less is asked, nor by a smaller flag.
        await ask(here, "1Gi")
        await here.stop_node()
        with caplog.at_level(logging.WARNING):
            here.start_node()
        assert "the tier fast has grown to 2Gi and keeps it, though its flag says 1Gi" in caplog.text
        here.volumes.pools.latest = []

        async def measured() -> list[PoolUsage]:
            return here.volumes.pools.latest

        usage = {each.tier: each for each in await eventually(measured)}
        assert usage["fast"].capacity == 2 * GI
        # A larger flag wins.
        await here.stop_node()
        here.tier_sizes = {"fast": 3 * GI}
        here.start_node()
        await pool_of(here, "fast", capacity="3Gi")


async def test_what_can_not_grow_says_why(tmp_path: Path) -> None:
    async with plane(tmp_path, {"fast": made(tmp_path / "fast")}, {"fast": GI}) as here:
        await pool_of(here, "fast")
        await ask(here, "8000Ti")
        refused = await expanded(here, "NoRoom")
        assert refused["status"] == "False"
        assert f"there is no room for 8000Ti on the disk of {tmp_path}/fast" in refused["message"]
        await pool_of(here, "fast", capacity="1Gi")
        await here.stop_node()
        here.tier_sizes = {}
        here.start_node()
        assert "start the node with --tier fast=FOLDER,size=SIZE" in str(
            await expanded(here, "NotExpandable")
        )


async def test_the_pool_of_a_tier_that_is_gone_is_deleted(tmp_path: Path) -> None:
    async with plane(tmp_path, tiers := {"fast": made(tmp_path / "fast")}) as here:
        await pool_of(here, "fast")
        await here.stop_node()
        tiers.clear()
        here.start_node()

        async def gone() -> bool:
            return await here.api.find(StoragePool, f"{NODE}-fast") is None

        await eventually(gone)
        await pool_of(here, "default")


async def test_labels_follow_those_of_the_node_when_an_agent_starts(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await pool_of(here, "default")
        await here.stop_node()
        await here.api.patch(Node, NODE, "", {"metadata": {"labels": {"disk": "nvme"}}})
        here.start_node()

        async def labelled() -> bool:
            return (await here.api.get(StoragePool, f"{NODE}-default")).labels.get("disk") == "nvme"

        await eventually(labelled)


@pytest.mark.usefixtures("mkfs")
async def test_a_loop_volume_counts_as_what_it_has_grown_to(tmp_path: Path) -> None:
    async with plane(tmp_path, {"fast": made(tmp_path / "fast")}, {"fast": 100 * MI}) as here:
        await here.storage_class("loop", LOOP, parameters={"tier": "fast", "fsType": "ext4"})
        await here.claim("data", "40Mi", "loop")
        path = await here.mounted(await here.pod("db", "data"))
        await here.grow("data", "80Mi")
        await pool_of(here, "fast", provisioned="80Mi")
        pools = here.volumes.pools
        [usage] = [each for each in await pools.measure() if each.tier == "fast"]
        assert (usage.provisioned, usage.capacity) == (80 * MI, 100 * MI)
        # The filesystem of the tier adds some blocks of its own.
        assert 0 < usage.used <= 81 * MI
        with pytest.raises(VolumeBackendError, match="has 20Mi left"):
            async with pools.reserved(tmp_path / "fast" / "pvc-other", 21 * MI):
                raise AssertionError
        # Its own block device, and the disk that its file is on.
        devices = volume_devices.VolumeDevices(pools)
        [found] = devices.find(here.volumes.in_use())
        assert found.device.startswith("loop")
        assert backing_file(found.device) == path.parent / "disk"
        assert found.disk == disk_below(device_of(tmp_path)) != found.device
        page = Scraped.read("".join(volume_devices.families(NODE, [found])).encode())
        claim = await here.api.get(PersistentVolumeClaim, "data", "default")
        assert page.labels("pilothouse_volume_info") == {
            "namespace": "default",
            "persistentvolumeclaim": "data",
            "volumename": claim.spec["volumeName"],
            "device": found.device,
            "disk": found.disk,
            "tier": "fast",
            "node": NODE,
        }
        of_disk = {"device": found.disk, "disk": found.disk, "node": NODE}
        assert page.labels("pilothouse_disk_info") == of_disk
        assert devices.find(here.volumes.in_use()) == [found]


async def test_volumes_that_are_made_at_once_share_the_room(tmp_path: Path) -> None:
    pools = StoragePools(NODE, {"fast": made(tmp_path / "fast")}, {"fast": 100 * MI}, tmp_path)
    one, other = tmp_path / "fast" / "pvc-1", tmp_path / "fast" / "pvc-2"
    async with pools.reserved(one, 60 * MI):
        with pytest.raises(VolumeBackendError, match="has 40Mi left"):
            async with pools.reserved(other, 60 * MI):
                raise AssertionError
    # It was never made: its place is free.
    async with pools.reserved(other, 60 * MI):
        pass
    with pytest.raises(OSError, match="failed"):
        async with pools.reserved(other, 100 * MI):
            raise OSError("failed")
    async with pools.reserved(one, 100 * MI):
        pass


async def test_tiers_of_fixed_size_on_one_disk_leave_room_for_each_other(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    half = disk.f_bavail * disk.f_frsize * 6 // 10
    tiers = {"fast": made(tmp_path / "fast"), "slow": made(tmp_path / "slow")}
    pools = StoragePools(NODE, tiers, {"fast": half, "slow": GI}, tmp_path)
    with pytest.raises(GrowthRefused, match="there is no room"):
        await pools.grow("slow", half)
    await StoragePools(NODE, {"slow": tiers["slow"]}, {"slow": GI}, tmp_path).grow("slow", half)


def usage(**changes: Any) -> PoolUsage:
    values = {"capacity": GI, "provisioned": 0, "used": 0, "available": GI, "expandable": True}
    return PoolUsage("fast", Path("/fast"), **{**values, **changes})


async def test_a_folder_that_was_moved_to_a_tier_counts_there(tmp_path: Path) -> None:
    slow, fast = made(tmp_path / "slow"), made(tmp_path / "fast")
    pools = StoragePools("n1", {"default": slow, "fast": fast}, {"fast": 100 * MI}, tmp_path)
    backend = PooledDirectories(pools, VolumePlaces({"default": slow, "fast": fast}))
    for name in ("pvc-1", "pvc-2"):
        await backend.make(slow / name, 80 * MI, {})
        write_record(slow / name, VolumeRecord(name, DIRECTORY, "uid", 80 * MI))
        made(fast / name)
    await backend.make_copy(slow / "pvc-1", fast / "pvc-1", "")
    with pytest.raises(VolumeBackendError, match="not enough space for 80Mi in the tier fast"):
        await backend.make_copy(slow / "pvc-2", fast / "pvc-2", "")
    # Another agent, after the switch, knows it by the record alone.
    write_record(slow / "pvc-1", VolumeRecord("pvc-1", DIRECTORY, "uid", 80 * MI, tier="fast"))
    pools = StoragePools("n1", {"default": slow, "fast": fast}, {"fast": 100 * MI}, tmp_path)
    assert {each.tier: each.provisioned for each in await pools.measure()} == {
        "default": 80 * MI,
        "fast": 80 * MI,
    }


async def test_a_tier_has_room_again_once_a_volume_was_moved_away(tmp_path: Path) -> None:
    slow, fast = made(tmp_path / "slow"), made(tmp_path / "fast")
    pools = StoragePools("n1", {"slow": slow, "fast": fast}, {"slow": 100 * MI, "fast": 100 * MI}, tmp_path)
    backend = PooledDirectories(pools, VolumePlaces({"slow": slow, "fast": fast}))
    home = slow / "pvc-1"
    await backend.make(home, 80 * MI, {})
    await backend.make_copy(home, made(fast / "pvc-1"), "")
    # The home of the volume stays, with its record.
    write_record(home, VolumeRecord("pvc-1", DIRECTORY, "uid", 80 * MI, tier="fast"))
    await backend.remove_data(home)
    assert {each.tier: each.provisioned for each in await pools.measure()} == {"slow": 0, "fast": 80 * MI}
    await backend.make(slow / "pvc-2", 80 * MI, {})


def test_a_status_is_written_when_it_has_changed_noticeably() -> None:
    def status(**changes: Any) -> dict[str, Any]:
        return pool_status(NODE, usage(**changes), PoolDevice("vda", "ssd"), [])

    known = status()
    assert not is_due(known, status(), age=1e9)
    assert is_due({}, status(), age=0)
    assert is_due(known, status(capacity=2 * GI), age=0)
    assert is_due(known, status(provisioned=MI), age=0)
    assert not is_due(known, status(used=100 * MI), age=59)
    assert is_due(known, status(used=100 * MI), age=60)
    assert not is_due(known, status(used=5 * MI), age=1e9)
    # A disk's size may depend on what is on it.
    known = status(expandable=False)
    assert not is_due(known, status(expandable=False, capacity=GI + MI), age=1e9)


def test_the_disk_below_a_device_is_found(tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    disk = sysfs / "devices/pci0/nvme0n1"
    (disk / "nvme0n1p2").mkdir(parents=True)
    (disk / "nvme0n1p2/partition").write_text("2\n")
    (sysfs / "devices/virtual/dm-0/slaves/nvme0n1p2").mkdir(parents=True)
    block = sysfs / "class/block"
    block.mkdir(parents=True)
    for name, at in (("nvme0n1", disk), ("nvme0n1p2", disk / "nvme0n1p2")):
        (block / name).symlink_to(at)
    (block / "dm-0").symlink_to(sysfs / "devices/virtual/dm-0")
    assert disk_below("nvme0n1", sysfs) == "nvme0n1"
    assert disk_below("nvme0n1p2", sysfs) == "nvme0n1"
    assert disk_below("dm-0", sysfs) == "nvme0n1"
    assert disk_below("", sysfs) == ""
    assert disk_below("sdz", sysfs) == ""
    # A loop device is on the disk of its file.
    numbers = sysfs / "dev/block"
    numbers.mkdir(parents=True)
    file = tmp_path / "file"
    file.touch()
    device = file.stat().st_dev
    (numbers / f"{os.major(device)}:{os.minor(device)}").symlink_to("../../class/block/dm-0")
    (sysfs / "devices/virtual/loop7/loop").mkdir(parents=True)
    (block / "loop7").symlink_to(sysfs / "devices/virtual/loop7")
    backing = sysfs / "devices/virtual/loop7/loop/backing_file"
    backing.write_text(f"{file}\n")
    assert disk_below("loop7", sysfs) == "nvme0n1"
    (disk / "queue").mkdir()
    for rotational, medium in (("0", "ssd"), ("1", "hdd")):
        (disk / "queue/rotational").write_text(f"{rotational}\n")
        assert medium_of(file, sysfs) == medium
    backing.write_text(f"{file}.gone (deleted)\n")
    assert disk_below("loop7", sysfs) == ""


def test_memory_has_no_device() -> None:
    mounted = block_devices.mount_of(Path("/dev/shm"))
    if mounted is None or mounted.kind != "tmpfs":
        pytest.skip("there is no tmpfs at /dev/shm")
    assert (device_of(Path("/dev/shm")), medium_of(Path("/dev/shm"))) == ("", "memory")


async def test_what_is_asked_of_a_pool_is_a_quantity(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await pool_of(here, "default")
        for wrong in ("much", "-1Gi", "0"):
            with pytest.raises(Exception, match=r"spec\.capacity"):
                await ask(here, wrong, "default")
