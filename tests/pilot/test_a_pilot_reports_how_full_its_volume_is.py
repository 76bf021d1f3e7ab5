"""The volume of an instance's data in its Pilot's status: measured, written when it is news, Degraded when it is nearly full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.disk_usage import DiskUsage
from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.data_volume import DataVolume, usage_at
from pilothouse.pilot.driver import DesiredState, Observation
from pilothouse.pilot.instance_lifecycle import InstanceHistory
from pilothouse.pilot.pilot_metrics import render_metrics
from pilothouse.pilot.pilot_status import InstanceFacts, pilot_status, worth_writing

GIB = 1 << 30
SIZE = 100 * GIB


def known(used: int | None, *, seen: Observation | None = None, application: str = "redis") -> InstanceFacts:
    life = InstanceHistory().preparing().launched(DesiredState(1, "a", {}))
    volume = DiskUsage(used, SIZE) if used is not None else None
    observation = seen or Observation(ready=True)
    return InstanceFacts(
        life, DesiredState(1, "a", {}), application, observation, 1, 7, folder="/data", volume=volume
    )


def status_after(*used: int, seen: Observation | None = None) -> Tree:
    """What it is once all of these were seen, one after the other."""
    status: Tree = {}
    for each in used:
        status = pilot_status(pilot(status), known(each, seen=seen), 0.0)
    return status


def pilot(status: Tree) -> Object:
    return Object(
        Pilot, {"metadata": {"name": "cache-0", "namespace": "default"}, "spec": {}, "status": status}
    )


def degraded(status: Tree) -> tuple[str, str, str]:
    [found] = [each for each in status["conditions"] if each["type"] == "Degraded"]
    return found["status"], found["reason"], found["message"]


def test_it_is_in_the_status_of_every_kind_of_database() -> None:
    assert status_after(41 * GIB)["volume"] == {
        "path": "/data",
        "usedBytes": 41 * GIB,
        "capacityBytes": SIZE,
        "usedPercent": 41,
    }
    assert "volume" not in pilot_status(pilot({}), known(None), 0.0), "what is not known is not said"


def test_what_moves_by_less_than_a_hundredth_is_not_written() -> None:
    before = status_after(41 * GIB)
    for used in (41 * GIB + GIB // 2, 40 * GIB + GIB // 2, 41 * GIB + 1):
        after = pilot_status(pilot(before), known(used), 0.0)
        assert not worth_writing(before, after, since=1e9)
    assert worth_writing(before, pilot_status(pilot(before), known(42 * GIB), 0.0), since=0.0)


def test_much_free_space_is_enough_unless_the_database_goes_by_percentages_alone() -> None:
    for headroom, status in ((True, "False"), (False, "True")):
        facts = known(96 * GIB, seen=Observation(ready=True, disk_headroom=headroom))
        large = msgspec.structs.replace(facts, volume=DiskUsage(9_600 * GIB, 10_000 * GIB))
        assert degraded(pilot_status(pilot({}), large, 0.0))[0] == status


def test_a_disk_at_a_watermark_is_not_written_with_every_breath() -> None:
    below, above = 85 * GIB - 1, 85 * GIB
    status = status_after(84 * GIB + GIB // 2, above)
    assert degraded(status)[0] == "True", "past it is news at once"
    for used in (below, above, below):
        assert pilot_status(pilot(status), known(used), 0.0) == status
    assert degraded(status_after(above, 84 * GIB - GIB // 2))[0] == "False"


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (84, ("False", "AsExpected")),
        (85, ("True", "VolumeNearlyFull")),
        (94, ("True", "VolumeNearlyFull")),
        (95, ("True", "VolumeFull")),
        (100, ("True", "VolumeFull")),
    ],
)
def test_nearly_full_is_degraded_with_the_folder_and_what_helps(
    percent: int, expected: tuple[str, str]
) -> None:
    status, reason, message = degraded(status_after(percent * GIB))
    assert (status, reason) == expected
    if status == "True":
        assert f"at /data, is {percent} % ({percent} GiB of 100 GiB) full: make it larger" in message


def test_a_database_that_refuses_writes_says_so_first() -> None:
    seen = Observation(ready=True, writes_refused="Redis refuses writes: no space")
    assert degraded(status_after(10 * GIB, seen=seen)) == ("True", "WritesRefused", seen.writes_refused)


def test_what_was_said_of_a_volume_stays_while_it_can_not_be_seen() -> None:
    status = pilot_status(pilot(status_after(96 * GIB)), known(None), 0.0)
    assert status["volume"]["usedPercent"] == 96
    assert degraded(status)[0] == "True"


def test_prometheus_gets_every_figure() -> None:
    page = render_metrics("cache-0", known(41 * GIB + 1), leads=False, beats=0, now=0.0, start_took=None)
    assert f'pilothouse_pilot_volume_used_bytes{{pilot="cache-0"}} {41 * GIB + 1}\n' in page
    assert f'pilothouse_pilot_volume_capacity_bytes{{pilot="cache-0"}} {SIZE}\n' in page


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of four megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a filesystem")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_real_filesystem_is_measured(small_disk: Path) -> None:
    volume = DataVolume(small_disk)
    await volume.measure()
    assert volume.usage == DiskUsage(0, 4 << 20)
    (small_disk / "filler").write_bytes(bytes(4 * 1000**2))
    await volume.measure()
    assert volume.usage is not None
    assert (volume.usage.percent, volume.usage.watermark) == (95, "FloodStage")
    expected: Any = shutil.disk_usage(small_disk)
    assert volume.usage.used == expected.used


def test_a_folder_that_is_not_there_yet_has_no_usage(tmp_path: Path) -> None:
    assert usage_at(tmp_path / "later") is None
