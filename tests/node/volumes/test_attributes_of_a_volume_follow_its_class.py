"""What a VolumeAttributesClass says of a volume: limits that grow with it, and how its file is allocated."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.kit.waiting import eventually
from tests.node.volumes.plane import Plane, plane

from pilothouse.api.kind_names import PersistentVolumeClaim, VolumeAttributesClass
from pilothouse.api.local_volumes import DIRECTORY, LOOP
from pilothouse.node.volumes.throttles import ThrottleError, throttle
from pilothouse.node.volumes.volume_attributes import AttributesError, read_attributes

GI, MI = 1 << 30, 1 << 20
SCALED = {
    "io_throttle_iops_scale_factor": "400",
    "io_throttle_min_iops": "1500",
    "io_throttle_rd_iops": "6000",
    "io_throttle_wr_iops": "3000",
    "io_throttle_bw_scale_factor": "0.1",
    "io_throttle_min_bw": "1000",
    "io_throttle_rd_bw": "1500",
    "io_throttle_wr_bw": "1500",
}


def test_factors_follow_the_size_within_their_bounds() -> None:
    """px-D10: 10 GiB at 400 a GiB are 4000 reads, at most 3000 writes, and 1024 MB a second."""
    found = throttle(SCALED, "7:0", 10 * GI)
    assert (found.read_operations, found.write_operations) == (4000, 3000)
    assert (found.read_bytes, found.write_bytes) == (1024 * MI, 1024 * MI)


@pytest.mark.parametrize(
    ("gigabytes", "reads", "writes", "megabytes"),
    [(1, 1500, 1500, 1000), (5, 2000, 2000, 1000), (20, 6000, 3000, 1500)],
)
def test_small_volumes_get_the_least_and_large_ones_the_most(
    gigabytes: int, reads: int, writes: int, megabytes: int
) -> None:
    found = throttle(SCALED, "7:0", gigabytes * GI)
    assert (found.read_operations, found.write_operations) == (reads, writes)
    assert found.read_bytes == found.write_bytes == megabytes * MI


def test_a_bound_without_a_factor_is_the_limit() -> None:
    found = throttle({"io_throttle_rd_iops": "700", "io_throttle_wr_bw": "20"}, "7:0", GI)
    assert (found.read_operations, found.write_operations) == (700, None)
    assert (found.read_bytes, found.write_bytes) == (None, 20 * MI)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"io_throttle_iops_scale_factor": "many"}, "parameters.io_throttle_iops_scale_factor"),
        ({"io_throttle_iops_scale_factor": "-1"}, "must be a number, more than 0"),
        ({"io_throttle_iops_scale_factor": "NaN"}, "must be a number, more than 0"),
        ({"io_throttle_bw_scale_factor": "1.5"}, "must be at most 1"),
        (
            {"io_throttle_min_iops": "5"},
            "parameters.io_throttle_min_iops needs io_throttle_iops_scale_factor",
        ),
        (SCALED | {"io_throttle_rd_iops": "10"}, "parameters.io_throttle_rd_iops: 10 is less than"),
    ],
)
def test_factors_that_can_not_be_are_refused(parameters: dict[str, str], said: str) -> None:
    with pytest.raises(ThrottleError, match=said):
        throttle(parameters, "7:0", GI)


@pytest.mark.parametrize(
    ("provisioner", "parameters", "said"),
    [
        (LOOP, {"speed": "1"}, "parameters.speed is not known; there are iops"),
        (LOOP, {"allocation": "thin"}, "parameters.allocation: 'thin' is not known"),
        (LOOP, {"keep": "1"}, "parameters.keep"),
        (LOOP, {"deadline": "-1m"}, "parameters.deadline: '-1m' must not be negative"),
        (LOOP, {"iops": "0"}, "parameters.iops"),
        (DIRECTORY, {"allocation": "sparse"}, "parameters.allocation: a directory shares its disk"),
    ],
)
def test_other_parameters_that_can_not_be_are_refused(
    provisioner: str, parameters: dict[str, str], said: str
) -> None:
    with pytest.raises(AttributesError, match=said):
        read_attributes(parameters, provisioner, GI)


async def attributes(here: Plane, name: str, **parameters: str) -> None:
    """Make a class, and give it to the claim."""
    body = {"metadata": {"name": name}, "driverName": LOOP, "parameters": parameters}
    await here.api.create(VolumeAttributesClass, body)
    fields = {"spec": {"volumeAttributesClassName": name}}
    await here.api.patch(PersistentVolumeClaim, "data", "default", fields)

    async def applied() -> bool:
        return (await here.find_claim("data")).status.get("currentVolumeAttributesClassName") == name

    await eventually(applied)


async def test_limits_grow_with_the_volume(mkfs: None, tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP, parameters={"fsType": "btrfs", "allocation": "sparse"})
        await here.claim("data", "1Gi", "loop")
        pod = await here.pod("db", "data")
        await here.mounted(pod)
        await attributes(here, "scaled", io_throttle_iops_scale_factor="100")
        (limits,) = here.volumes.throttles(pod.uid)
        assert limits.read_operations == 100
        await here.grow("data", "3Gi")

        async def follow() -> bool:
            (limits,) = here.volumes.throttles(pod.uid)
            return limits.read_operations == limits.write_operations == 300

        await eventually(follow)


async def test_a_sparse_volume_returns_what_is_unused_and_a_reserved_one_takes_it(
    root: None, tmp_path: Path
) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("loop", LOOP, parameters={"fsType": "ext4"})
        await here.claim("data", "256Mi", "loop")
        path = await here.mounted(await here.pod("db", "data"))
        disk = path.parent / "disk"
        (path / "row").write_bytes(content := os.urandom(8 * MI))
        os.sync()
        assert disk.stat().st_blocks * 512 >= 250 * MI
        await attributes(here, "thin", allocation="sparse")
        assert 8 * MI <= disk.stat().st_blocks * 512 < 100 * MI
        await attributes(here, "thick", allocation="reserved")
        assert disk.stat().st_blocks * 512 >= 250 * MI
        assert (path / "row").read_bytes() == content


async def test_a_volume_is_made_in_the_tier_that_its_attributes_name(tmp_path: Path) -> None:
    async with plane(tmp_path, {"fast": tmp_path / "fast"}) as here:
        await here.storage_class("some", DIRECTORY)
        body = {"metadata": {"name": "gold"}, "driverName": DIRECTORY, "parameters": {"tier": "fast"}}
        await here.api.create(VolumeAttributesClass, body)
        await here.claim("data", "1Gi", "some", volumeAttributesClassName="gold")
        path = await here.mounted(await here.pod("db", "data"))
        assert path.parent.parent == tmp_path / "fast"

        async def applied() -> bool:
            return (await here.find_claim("data")).status.get("currentVolumeAttributesClassName") == "gold"

        await eventually(applied)
