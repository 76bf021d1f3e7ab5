"""A hostPath, by whatever way it leads there, never shows a pod the node's data, keys or other pods' volumes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.volumes.conftest import World

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.base.clock import ManualClock
from pilothouse.client.api import Api
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.mount_table import BIND, mount, unmount
from pilothouse.node.volumes.pod_volumes import PodVolumes


def one(path: Path, **mount: str) -> tuple[dict[str, object], dict[str, object]]:
    """A hostPath volume, and a container that has it at /host."""
    volume: dict[str, object] = {"name": "h", "hostPath": {"path": str(path)}}
    return volume, {"volumeMounts": [{"name": "h", "mountPath": "/host", **mount}]}


@pytest.mark.parametrize("below", ["", "pods", "images/sha256", "not/yet/there"])
async def test_a_path_in_the_data_folder_is_refused(
    world: World, volumes: PodVolumes, data: Path, below: str
) -> None:
    (data / "pods").mkdir()
    volume, container = one(data / below)
    volume["hostPath"] = {"path": str(data / below), "type": "DirectoryOrCreate"}
    with pytest.raises(VolumeNotReady, match="the node itself"):
        await volumes.prepare(await world.pod(volume, container=container))
    assert not (data / "not").exists()


async def test_a_link_is_no_way_around(world: World, volumes: PodVolumes, data: Path, tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to(data)
    volume, container = one(tmp_path / "innocent")
    with pytest.raises(VolumeNotReady, match="the node itself"):
        await volumes.prepare(await world.pod(volume, container=container))


async def test_a_second_mount_is_no_way_around(
    root: None, world: World, volumes: PodVolumes, data: Path, tmp_path: Path
) -> None:
    (data / "pki").mkdir()
    alias = tmp_path / "alias"
    alias.mkdir()
    mount(str(data), alias, flags=BIND)
    try:
        volume, container = one(alias / "pki")
        with pytest.raises(VolumeNotReady, match="the node itself"):
            await volumes.prepare(await world.pod(volume, container=container))
    finally:
        unmount(alias)


async def test_a_link_that_comes_later_is_no_way_around(
    world: World, volumes: PodVolumes, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "innocent").mkdir()
    volume, container = one(tmp_path / "innocent")
    pod = await world.pod(volume, container=container)
    prepared = await volumes.prepare(pod)
    (tmp_path / "innocent").rmdir()
    (tmp_path / "innocent").symlink_to(data)
    with pytest.raises(VolumeNotReady, match="belongs to the node itself"):
        volumes.mounts(pod, _container(pod), prepared)


async def test_a_part_of_a_path_is_no_way_around(world: World, volumes: PodVolumes, data: Path) -> None:
    (data / "pods").mkdir()
    volume, container = one(data.parent, subPath="node/pods")
    pod = await world.pod(volume, container=container)
    prepared = await volumes.prepare(pod)
    with pytest.raises(VolumeNotReady, match="belongs to the node itself"):
        volumes.mounts(pod, _container(pod), prepared)


@pytest.mark.parametrize("above", [1, 2])
async def test_in_a_folder_that_holds_it_the_data_folder_is_covered(
    world: World, volumes: PodVolumes, data: Path, above: int
) -> None:
    folder = data.parents[above - 1]
    volume, container = one(folder)
    pod = await world.pod(volume, container=container)
    shown, cover = volumes.mounts(pod, _container(pod), await volumes.prepare(pod))
    assert (shown.source, shown.target, shown.mapped) == (str(folder), "/host", True)
    assert (cover.kind, cover.read_only) == ("tmpfs", True)
    assert cover.target == f"/host/{data.relative_to(folder)}"


async def test_a_volume_of_the_cluster_with_such_a_path_is_no_way_around(
    world: World, api: Api, volumes: PodVolumes, data: Path, clock: ManualClock
) -> None:
    (data / "pki").mkdir()
    claim = await api.create(
        PersistentVolumeClaim,
        {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeName": "v",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    reference = {"namespace": "default", "name": "c", "uid": claim.uid}
    await api.create(
        PersistentVolume,
        {
            "metadata": {"name": "v"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": str(data / "pki")},
                "claimRef": reference,
            },
        },
    )
    bound = {"status": {"phase": "Bound"}}
    await api.patch(PersistentVolumeClaim, "c", "default", bound, subresource="status")
    volume = {"name": "h", "persistentVolumeClaim": {"claimName": "c"}}
    pod = await world.pod(volume, container={"volumeMounts": [{"name": "h", "mountPath": "/host"}]})
    prepared = await volumes.prepare(pod)
    with pytest.raises(VolumeNotReady, match="belongs to the node itself"):
        volumes.mounts(pod, _container(pod), prepared)


def _container(pod: Object) -> dict[str, object]:
    (found,) = pod.spec["containers"]
    return dict(found)
