"""The IOPS limits of volumes are on a node's page, for rules that compare them with what is used."""

from __future__ import annotations

from pathlib import Path

from pilothouse.node.volumes.claim_volumes import VolumeInUse
from pilothouse.node.volumes.throttles import throttle
from pilothouse.node.volumes.volume_usage import measured, metrics


def test_a_limit_is_reported_by_the_name_of_the_volume(tmp_path: Path) -> None:
    limits = throttle({"iops": "500", "writeIops": "200"}, "7:0", 1 << 30)
    volumes = [
        VolumeInUse("pv-1", "shop", "data-0", tmp_path, throttle=limits),
        VolumeInUse("pv-2", "shop", "data-1", tmp_path),
    ]
    found = [line for line in metrics(map(measured, volumes)) if "iops_limit{" in line]
    assert found == [
        'pilothouse_volume_read_iops_limit{volumename="pv-1"} 500',
        'pilothouse_volume_write_iops_limit{volumename="pv-1"} 200',
    ]


def test_without_a_limit_nothing_is_reported(tmp_path: Path) -> None:
    volume = VolumeInUse("pv-1", "shop", "data-0", tmp_path)
    assert not [line for line in metrics([measured(volume)]) if "iops_limit" in line]
