from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from tests.node.volumes.conftest import World

from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes import ownership
from pilothouse.node.volumes.memory_directories import memory_directories
from pilothouse.node.volumes.mount_table import BIND, at, mount, mounts
from pilothouse.node.volumes.pod_volumes import PodVolumes
from pilothouse.node.volumes.removal import remove


async def test_an_empty_dir_is_for_everyone_in_the_pod_and_outlives_containers(
    world: World, volumes: PodVolumes
) -> None:
    pod = await world.pod({"name": "e", "emptyDir": {}})
    path = (await volumes.prepare(pod))["e"].path
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    (path / "kept").write_text("x")
    assert (await volumes.prepare(pod))["e"].path == path
    assert (path / "kept").read_text() == "x"


async def test_an_empty_dir_that_outgrows_its_limit_is_told(world: World, volumes: PodVolumes) -> None:
    pod = await world.pod({"name": "e", "emptyDir": {"sizeLimit": "1Mi"}})
    path = (await volumes.prepare(pod))["e"].path
    await volumes.measure()
    assert volumes.excess(pod.uid) == ""
    (path / "large").write_bytes(os.urandom(2 << 20))
    await volumes.measure()
    assert volumes.excess(pod.uid) == 'Usage of EmptyDir volume "e" exceeds the limit "1Mi".'


async def test_all_that_a_pod_has_on_the_disk_is_its_usage_and_volumes_go_with_their_release(
    world: World, volumes: PodVolumes
) -> None:
    pod = await world.pod({"name": "e", "emptyDir": {}})
    path = (await volumes.prepare(pod))["e"].path
    (path / "large").write_bytes(os.urandom(2 << 20))
    for name in ("log", "own/tmp/scratch"):
        file = path.parents[1] / "containers" / "app" / "0" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(4 << 20))
    assert (await volumes.disk_usage(pod.uid)).size >> 20 == 10
    await volumes.release(pod.uid)
    assert (await volumes.disk_usage(pod.uid)).size >> 20 == 8


async def test_a_pod_that_outgrows_its_ephemeral_storage_is_told(world: World, volumes: PodVolumes) -> None:
    limited = {"resources": {"limits": {"ephemeral-storage": "2Mi"}}}
    pod = await world.pod({"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}, container=limited)
    prepared = await volumes.prepare(pod)
    for volume in prepared.values():
        (volume.path / "file").write_bytes(os.urandom(1 << 20))
    (prepared["a"].path / "file").unlink()
    await volumes.measure()
    assert volumes.excess(pod.uid) == ""
    (prepared["a"].path / "file").write_bytes(os.urandom(1 << 20))
    await volumes.measure()
    assert volumes.excess(pod.uid) == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi."
    )


async def test_an_empty_dir_in_memory_holds_no_more_than_its_limit(
    root: None, world: World, volumes: PodVolumes
) -> None:
    pod = await world.pod({"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
    path = (await volumes.prepare(pod))["m"].path
    mounted = at(mounts(), path)
    assert mounted is not None
    assert mounted.kind == "tmpfs"
    with pytest.raises(OSError, match="No space left"):
        (path / "large").write_bytes(b"x" * (2 << 20))


def test_an_agent_that_may_not_mount_uses_the_machines_own_memory(tmp_path: Path) -> None:
    memory = memory_directories(tmp_path, root=False)
    path = memory.sized("uid-1", "m", 1 << 20)
    assert str(path).startswith("/dev/shm/pilothouse-")
    memory.sized("uid-2", "m", None)
    memory.release("uid-1")
    assert not path.exists()
    assert path.parent.parent.exists()
    memory.release("uid-2")
    assert not path.parent.parent.exists()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    folder = tmp_path / "machine"
    (folder / "dir").mkdir(parents=True)
    (folder / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "socket"))
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dir", "Directory"),
        ("dir", ""),
        ("dir", "DirectoryOrCreate"),
        ("new/deep", "DirectoryOrCreate"),
        ("file", "File"),
        ("file", ""),
        ("made", "FileOrCreate"),
        ("socket", "Socket"),
    ],
)
async def test_a_host_path_of_the_right_type_is_taken(
    world: World, volumes: PodVolumes, machine: Path, name: str, kind: str
) -> None:
    source = {"path": str(machine / name), "type": kind}
    prepared = await volumes.prepare(await world.pod({"name": "h", "hostPath": source}))
    assert prepared["h"].path == machine / name
    assert prepared["h"].path.exists()
    assert not prepared["h"].read_only


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("none", "", "is not on this node; with type: DirectoryOrCreate the node creates it"),
        ("none", "Directory", "is not on this node"),
        ("file", "Directory", "is not a directory"),
        ("dir", "File", "is not a file"),
        ("dir", "FileOrCreate", "is not a file"),
        ("dir", "Socket", "is not a socket"),
        ("file", "CharDevice", "is not a character device"),
        ("file", "BlockDevice", "is not a block device"),
        ("file/below", "DirectoryOrCreate", "Not a directory"),
    ],
)
async def test_another_is_not(
    world: World, volumes: PodVolumes, machine: Path, name: str, kind: str, said: str
) -> None:
    source = {"path": str(machine / name), "type": kind}
    with pytest.raises(VolumeNotReady) as caught:
        await volumes.prepare(await world.pod({"name": "h", "hostPath": source}))
    assert said in caught.value.message
    assert not (machine / "none").exists()


async def test_a_group_owns_what_is_in_a_volume_and_what_comes_into_it(
    root: None, world: World, volumes: PodVolumes
) -> None:
    pod = await world.pod({"name": "e", "emptyDir": {}}, securityContext={"fsGroup": 4242})
    path = (await volumes.prepare(pod))["e"].path
    assert path.stat().st_gid == 4242
    assert path.stat().st_mode & stat.S_ISGID
    (path / "later").mkdir()
    assert (path / "later").stat().st_gid == 4242


def test_a_volume_is_given_to_a_group_without_following_links(root: None, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    volume = tmp_path / "volume"
    (volume / "in").mkdir(parents=True)
    (volume / "in" / "file").write_text("x")
    (volume / "in" / "file").chmod(0o600)
    (volume / "link").symlink_to(outside)
    ownership.set_group(volume, 4242)
    file = (volume / "in" / "file").stat()
    assert (file.st_gid, stat.S_IMODE(file.st_mode)) == (4242, 0o660)
    assert outside.stat().st_gid != 4242
    (volume / "in" / "file").chmod(0o600)
    ownership.set_group(volume, 4242, only_on_mismatch=True)
    assert stat.S_IMODE((volume / "in" / "file").stat().st_mode) == 0o600


def test_what_is_mounted_in_a_folder_is_let_go_and_not_emptied(root: None, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("keep me")
    folder = tmp_path / "pod"
    (folder / "mounted").mkdir(parents=True)
    (folder / "link").symlink_to(precious)
    mount(str(precious), folder / "mounted", flags=BIND)
    remove(folder)
    assert not folder.exists()
    assert (precious / "data").read_text() == "keep me"
