"""Two control planes on one machine that know the same volumes: one is a copy of the other, or has been told its paths."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kit.waiting import eventually
from tests.node.volumes.plane import NODE, Plane, plane

from pilothouse.api.kind_names import CoreEvent, Namespace, PersistentVolume, PersistentVolumeClaim
from pilothouse.api.local_volumes import FINALIZER
from pilothouse.api.objects import Object
from pilothouse.node.interfaces import VolumeNotReady

DIRECTORY = "pilothouse.io/directory"
OURS = {"pv.kubernetes.io/provisioned-by": DIRECTORY, "pilothouse.io/node": NODE}


@contextlib.asynccontextmanager
async def two_planes(folder: Path) -> AsyncIterator[tuple[Plane, Plane]]:
    """With a tier in common."""
    for name in ("first", "second"):
        (folder / name).mkdir()
    tiers = {"fast": folder / "fast"}
    async with plane(folder / "first", tiers) as first, plane(folder / "second", tiers) as second:
        for each in (first, second):
            await each.storage_class("fast", DIRECTORY, parameters={"tier": "fast"})
        yield first, second


@pytest.fixture
def attributes(tmp_path: Path) -> None:
    try:
        os.setxattr(tmp_path, "trusted.test" if os.geteuid() == 0 else "user.test", b"1")
    except OSError as problem:
        pytest.skip(f"this filesystem has no extended attributes for us: {problem.strerror}")


async def uid_of(here: Plane) -> str:
    return (await here.api.get(Namespace, "kube-system")).uid


async def adopt(here: Plane, uid: str) -> None:
    fields = {"metadata": {"annotations": {"pilothouse.io/adopts-volumes-of": uid}}}
    await here.api.patch(Namespace, "kube-system", "", fields)


async def written(here: Plane) -> tuple[Object, Path]:
    """A pod and its volume, with a file in it."""
    await here.claim("data", "1Gi", "fast")
    pod = await here.pod("db", "data")
    path = await here.mounted(pod)
    (path / "row").write_text("precious")
    return pod, path


async def copied(here: Plane, path: Path, annotations: dict[str, str]) -> Object:
    """A claim, and a volume object with the path of another control plane's; the pod that wants it."""
    claim = await here.claim("data", "1Gi", "fast", volumeName="copied")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": claim.uid}
    affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "local": {"path": str(path)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
        "claimRef": reference,
    }
    metadata = {
        "name": "copied",
        "annotations": annotations,
        "finalizers": [FINALIZER] if annotations else [],
    }
    await here.api.create(PersistentVolume, {"metadata": metadata, "spec": spec})
    return await here.pod("db", "data")


@contextlib.contextmanager
def container_with(path: Path) -> Iterator[int]:
    """A process that has the folder mounted, in a mount namespace of its own, and no agent."""
    program = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.unshare(0x20000) == 0, ctypes.get_errno()\n"
        "assert libc.mount(None, b'/', None, 0x44000, None) == 0, ctypes.get_errno()\n"
        "assert libc.mount(os.fsencode(sys.argv[1]), b'/mnt', None, 4096, None) == 0, ctypes.get_errno()\n"
        "print('mounted', flush=True)\n"
        "sys.stdin.read()\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "mounted\n"
        yield running.pid
    finally:
        running.communicate()


async def test_another_control_plane_neither_mounts_nor_deletes_nor_grows_it(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as (first, second):
        _, path = await written(first)
        pod = await copied(second, path, OURS)
        with pytest.raises(VolumeNotReady) as refused:
            await second.mounted(pod)
        for named in (
            await uid_of(first),
            await uid_of(second),
            str(first.data),
            "belongs to another control plane",
        ):
            assert named in refused.value.message
        helps = (
            f"kubectl annotate namespace kube-system pilothouse.io/adopts-volumes-of={await uid_of(first)}"
        )
        assert helps in refused.value.message

        await second.grow("data", "2Gi")
        said = await second.condition("data", "NodeResizeError")
        assert "belongs to another control plane" in said["message"]

        await second.api.delete(PersistentVolumeClaim, "data", "default")
        await second.delete_pod(pod)

        async def refused_delete() -> bool:
            found = (await second.api.list(CoreEvent)).objects
            told = [one["message"] for one in found if one["reason"] == "VolumeFailedDelete"]
            return any("belongs to another control plane" in each for each in told)

        await eventually(refused_delete)
        assert (path / "row").read_text() == "precious"


@pytest.mark.parametrize("inside", ["", "sub"])
async def test_a_path_into_it_that_somebody_wrote_down_is_no_way_in(tmp_path: Path, inside: str) -> None:
    async with two_planes(tmp_path) as (first, second):
        _, path = await written(first)
        (path / "sub").mkdir()
        # A pod of the first says that its volume is the second's.
        forged = {"cluster": await uid_of(second), "node": NODE, "data": str(second.data)}
        path.chmod(0o700)
        (path / "owner.json").write_text(json.dumps(forged))
        (tmp_path / "link").symlink_to(path)
        pod = await copied(second, tmp_path / "link" / inside, {})
        with pytest.raises(VolumeNotReady, match="belongs to another control plane"):
            await second.mounted(pod)


async def test_a_volume_in_another_nodes_data_folder_is_not_mounted_as_a_path_of_the_machine(
    tmp_path: Path,
) -> None:
    async with two_planes(tmp_path) as (first, second):
        await first.storage_class("own", DIRECTORY)
        await first.claim("data", "1Gi", "own")
        path = await first.mounted(await first.pod("db", "data"))
        pod = await copied(second, path, OURS)
        with pytest.raises(VolumeNotReady, match="is in none of this node's tiers"):
            await second.mounted(pod)


async def test_a_successor_gets_it_once_the_other_is_gone_and_then_the_other_does_not(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as (first, second):
        pod, path = await written(first)
        successor = await copied(second, path, OURS)
        await adopt(second, await uid_of(first))
        with pytest.raises(VolumeNotReady, match="is in use by another node agent on this machine"):
            await second.mounted(successor)
        await first.volumes.release(pod.uid)
        assert (await second.mounted(successor) / "row").read_text() == "precious"

        with pytest.raises(VolumeNotReady) as refused:
            await first.mounted(pod)
        assert await uid_of(second) in refused.value.message
        # Nor by taking turns, while the second has it.
        await adopt(first, await uid_of(second))
        with pytest.raises(VolumeNotReady, match="is in use by another node agent"):
            await first.mounted(pod)
        await second.volumes.release(successor.uid)
        assert (await first.mounted(pod) / "row").read_text() == "precious"


@pytest.mark.usefixtures("attributes")
async def test_a_folder_of_the_machine_belongs_to_the_first_that_has_it_as_a_local_volume(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    async with two_planes(tmp_path) as (first, second):
        assert await first.mounted(await copied(first, disk, {})) == disk
        pod = await copied(second, disk, {})
        with pytest.raises(VolumeNotReady, match="belongs to another control plane") as refused:
            await second.mounted(pod)
        assert await uid_of(first) in refused.value.message
        assert os.listdir(disk) == []
        await adopt(second, await uid_of(first))
        assert await second.mounted(pod) == disk


async def test_a_successor_does_not_get_it_from_an_agent_that_runs(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as (first, second):
        pod, path = await written(first)
        await first.delete_pod(pod)
        await adopt(second, await uid_of(first))
        successor = await copied(second, path, OURS)
        # As an agent has its data folder.
        first.data.mkdir()
        with (first.data / "agent.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(VolumeNotReady, match=r"which is running: stop it first \(pilothouse down\)"):
                await second.mounted(successor)
        assert (await second.mounted(successor) / "row").read_text() == "precious"


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("is_marked", [True, False])
async def test_a_successor_does_not_get_it_while_a_container_without_its_agent_has_it(
    tmp_path: Path, is_marked: bool
) -> None:
    async with two_planes(tmp_path) as (first, second):
        _, path = await written(first)
        successor = await copied(second, path, OURS)
        await adopt(second, await uid_of(first))
        await first.stop_node()
        if not is_marked:
            (path.parent / "owner.json").unlink()
        with (
            container_with(path) as pid,
            pytest.raises(VolumeNotReady, match=f"is in use by process {pid}, in a container of another"),
        ):
            await second.mounted(successor)
        assert (await second.mounted(successor) / "row").read_text() == "precious"
        first.start_node()


async def test_a_volume_that_could_not_be_mounted_is_not_held_for_a_pod_that_is_gone(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as (first, second):
        pod, path = await written(first)
        await first.volumes.release(pod.uid)
        path.rename(path.with_name("elsewhere"))
        with pytest.raises(VolumeNotReady, match="does not exist on this node"):
            await first.mounted(pod)
        await first.delete_pod(pod)
        path.with_name("elsewhere").rename(path)
        await adopt(second, await uid_of(first))
        assert (await second.mounted(await copied(second, path, OURS)) / "row").read_text() == "precious"


async def test_a_copy_of_a_nodes_folder_with_the_same_identity_gets_it_only_when_it_is_the_last(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path / "one", {"fast": tmp_path / "fast"}) as here:
        await here.storage_class("fast", DIRECTORY, parameters={"tier": "fast"})
        pod, _ = await written(here)
        await here.stop_node()
        before = here.data
        (before / "pods").mkdir(parents=True)
        here.data = tmp_path / "two"
        shutil.copytree(before, here.data)
        here.start_node()
        with pytest.raises(VolumeNotReady, match="one is a copy of the other"):
            await here.mounted(pod)
        shutil.rmtree(before)
        assert (await here.mounted(pod) / "row").read_text() == "precious"


async def test_a_volume_from_before_there_were_owners_is_its_first_users(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as (first, second):
        pod, path = await written(first)
        await first.volumes.release(pod.uid)
        (path.parent / "owner.json").unlink()
        await first.mounted(pod)
        await first.volumes.release(pod.uid)
        with pytest.raises(VolumeNotReady, match="belongs to another control plane"):
            await second.mounted(await copied(second, path, OURS))


async def test_what_another_control_plane_has_begun_is_not_swept(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as (first, second):
        pod, path = await written(first)
        # As in the moment before its object was made.
        (path.parent / "announced").unlink()
        await second.stop_node()
        (tmp_path / "fast" / "pvc-1234" / "data").mkdir(parents=True)
        second.start_node()

        async def swept() -> bool:
            return not (tmp_path / "fast" / "pvc-1234").exists()

        await eventually(swept)
        assert (path / "row").read_text() == "precious"
        assert (await first.mounted(pod) / "row").exists()


async def test_pods_see_nothing_of_whose_it_is(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("own", DIRECTORY)
        await here.claim("data", "1Gi", "own")
        path = await here.mounted(await here.pod("db", "data"))
        assert os.listdir(path) == []
        assert (path.parent / "owner.json").stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
