"""A claim that names a class of another tier: its volume moves there, and nothing that was written is lost."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed
from tests.node.volumes.plane import Plane, plane

from pilothouse.aio.commands import run
from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttributesClass
from pilothouse.api.local_volumes import DIRECTORY, LOOP, VOLUME_MOVE
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.base.rfc3339 import format_time
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.assembly import open_volumes
from pilothouse.node.volumes.mount_table import at, mount, mounts, unmount
from pilothouse.node.volumes.move_journal import MovePhase, read_move
from pilothouse.supervise.cgroup_settings import DeviceThrottle

MI = 1 << 20
SIZES = {"xfs": 320, "ext4": 64, "btrfs": 512}
MAKERS = {"xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs"}


@pytest.fixture
def fast(tmp_path: Path, root: None) -> Iterator[Path]:
    """A tier in memory."""
    folder = tmp_path / "fast"
    folder.mkdir()
    mount("tmpfs", folder, "tmpfs", options="size=1200m,mode=0700")
    yield folder
    while at(mounts(), folder) is not None:
        unmount(folder, lazily=True)


class Moving:
    """A claim with a pod, and classes for two tiers."""

    def __init__(self, here: Plane, provisioner: str) -> None:
        self.here = here
        self.provisioner = provisioner
        self.pod: Object

    async def attributes(self, name: str, **parameters: str) -> None:
        body = {"metadata": {"name": name}, "driverName": self.provisioner, "parameters": parameters}
        await self.here.api.create(VolumeAttributesClass, body)

    async def ask(self, name: str) -> None:
        fields = {"spec": {"volumeAttributesClassName": name}}
        await self.here.api.patch(PersistentVolumeClaim, "data", "default", fields)

    async def condition(self, reason: str, kind: str = VOLUME_MOVE) -> dict[str, Any]:
        """The condition of the claim, once it has this reason."""

        async def look() -> dict[str, Any] | None:
            found = (await self.here.find_claim("data")).condition(kind)
            return dict(found) if found is not None and found.get("reason") == reason else None

        return await eventually(look)

    async def start(self) -> Path:
        """A pod with the volume, as an owner makes it again after an eviction."""
        self.pod = await self.here.pod("db", "data")
        return await self.prepared()

    async def prepared(self) -> Path:
        """The pod's volume, once it has it."""

        async def look() -> Path | None:
            try:
                return await self.here.mounted(self.pod)
            except VolumeNotReady as why:
                if why.reason != "VolumeMoving":
                    raise
                return None

        return await eventually(look)

    async def restart(self) -> Path:
        await self.here.delete_pod(self.pod)
        return await self.start()

    async def ready(self, *, is_ready: bool = True) -> None:
        condition = {
            "type": "Ready",
            "status": str(is_ready),
            "lastTransitionTime": format_time(SystemClock().now()),
        }
        fields = {"status": {"conditions": [condition]}}
        await self.here.api.patch(Pod, "db", "default", fields, subresource="status")

    async def over(self, name: str) -> None:
        """The claim has the class, and no move."""

        async def look() -> bool:
            claim = await self.here.find_claim("data")
            has = claim.status.get("currentVolumeAttributesClassName") == name
            return has and claim.condition(VOLUME_MOVE) is None

        await eventually(look)
        status = (await self.here.find_claim("data")).status
        assert not status.get("modifyVolumeStatus")
        assert {one["type"] for one in status.get("conditions") or ()} <= {"Bound"}


@asynccontextmanager
async def moving(tmp_path: Path, fast: Path, kind: str) -> AsyncIterator[Moving]:
    if kind in MAKERS:
        needed(MAKERS[kind])
    async with plane(tmp_path, {"fast": fast}) as here:
        provisioner = DIRECTORY if kind == "directory" else LOOP
        parameters = {} if kind == "directory" else {"fsType": kind}
        await here.storage_class("some", provisioner, parameters=parameters)
        await here.claim("data", f"{SIZES.get(kind, 64)}Mi", "some")
        found = Moving(here, provisioner)
        await found.attributes("gold", tier="fast", keep="0s")
        await found.attributes("plain", tier="default", keep="0s")
        await found.start()
        yield found


class Writer:
    """Writes rows and keeps their checksums; a row counts once it is on the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._running: asyncio.Task[None] | None = None
        self._rows: dict[str, str] = {}

    async def _write(self) -> None:
        while True:
            name, content = f"row-{self.count % 100}", os.urandom(8192)
            with (self.path / name).open("wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            self._rows[name] = hashlib.sha256(content).hexdigest()
            self.count += 1
            await asyncio.sleep(0.002)

    def start(self) -> None:
        self._running = asyncio.create_task(self._write())

    async def stop(self) -> None:
        assert self._running is not None
        assert not self._running.done(), self._running.exception()
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def more(self, count: int) -> None:
        """Return once it has written this many rows more."""
        goal = self.count + count

        async def look() -> bool:
            return self.count >= goal

        await eventually(look)

    def check(self) -> None:
        found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in self.path.glob("row-*")}
        assert found == self._rows


async def attached(folder: Path) -> bool:
    return bool((await run("losetup", "--associated", str(folder / "disk"))).strip())


@pytest.mark.parametrize("kind", ["directory", "ext4", "xfs"])
async def test_a_copy_takes_its_place_once_the_pod_has_stopped_and_goes_back_likewise(
    tmp_path: Path, fast: Path, kind: str
) -> None:
    async with moving(tmp_path, fast, kind) as it:
        volume = await it.here.volume_of("data")
        home = Path(volume.spec["local"]["path"]).parent
        writer = Writer(await it.here.mounted(it.pod))
        for name, source, target in (("gold", home, fast / home.name), ("plain", fast / home.name, home)):
            writer.start()
            await writer.more(20)
            await it.ask(name)
            waiting = await it.condition("AwaitingRestart")
            assert waiting["status"] == "True"
            assert "%" in waiting["message"]
            status = (await it.here.find_claim("data")).status
            assert status["modifyVolumeStatus"] == {
                "targetVolumeAttributesClassName": name,
                "status": "InProgress",
            }
            await writer.more(40)
            await writer.stop()
            writer.path = await it.restart()
            writer.check()
            await it.ready()
            await it.over(name)
            inner = "data" if kind == "directory" else "disk"
            assert (target / inner).exists()
            assert not (source / inner).exists()
            assert kind == "directory" or not await attached(source)
            assert read_move(home) is None
            if kind != "directory":
                assert len([one for one in mounts() if one.target == home / "mount"]) == 1
        after = await it.here.volume_of("data")
        assert (after.uid, after.spec["local"]) == (volume.uid, volume.spec["local"])
        assert not (fast / home.name).exists()


async def test_btrfs_moves_while_the_pod_writes_and_goes_back_likewise(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "btrfs") as it:
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        writer = Writer(await it.here.mounted(it.pod))
        writer.start()
        for name, source, target in (("gold", home, fast / home.name), ("plain", fast / home.name, home)):
            await writer.more(20)
            await it.ask(name)
            await it.over(name)
            assert (target / "disk").exists()
            assert not (source / "disk").exists()
            assert await attached(target)
            await writer.more(20)
        await writer.stop()
        writer.check()
        writer.path = await it.restart()
        writer.check()
        assert not (fast / home.name).exists()


async def test_limits_follow_a_volume_to_its_device(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        await it.attributes("limited", tier="fast", iops="200", keep="0s")
        await it.ask("limited")
        await it.condition("AwaitingRestart")
        path = await it.restart()

        async def limited() -> Sequence[DeviceThrottle]:
            return it.here.volumes.throttles(it.pod.uid)

        (limits,) = await eventually(limited)
        device = os.stat(path).st_dev
        assert (limits.device, limits.read_operations) == (f"{os.major(device)}:{os.minor(device)}", 200)
        assert (await it.here.volume_of("data")).spec["volumeAttributesClassName"] == "limited"


async def test_the_old_copy_stays_until_the_pod_was_ready_for_a_while(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        await it.attributes("kept", tier="fast", keep="1h")
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        await it.ask("kept")
        await it.condition("AwaitingRestart")
        await it.restart()
        await it.ready()
        kept = await it.condition("Kept")
        assert "has been ready for 3600 s" in kept["message"]
        assert (home / "disk").exists()
        claim = await it.here.find_claim("data")
        assert claim.status["currentVolumeAttributesClassName"] == "kept"
        assert not claim.status.get("modifyVolumeStatus")

        async def seen() -> bool:
            move = read_move(home)
            return move is not None and move.was_ready

        await eventually(seen)
        # Another move doesn't wait for the hour.
        await it.ask("plain")
        await it.condition("AwaitingRestart")
        await it.restart()
        await it.ready()
        await it.over("plain")
        assert (home / "disk").exists()


async def test_a_pod_that_does_not_become_ready_gets_the_old_copy_back(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        await it.attributes("broken", tier="fast", deadline="1s")
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        (await it.here.mounted(it.pod) / "row").write_text("before")
        await it.ask("broken")
        await it.condition("AwaitingRestart")
        path = await it.restart()
        (path / "row").write_text("by a pod that was never ready")
        assert "else the volume returns" in (await it.condition("AwaitingReady"))["message"]

        async def returning() -> bool:
            found = (await it.here.find_claim("data")).condition(VOLUME_MOVE) or {}
            return found.get("reason") == "AwaitingRestart" and "to return to" in str(found.get("message"))

        await eventually(returning)
        path = await it.restart()
        assert (path / "row").read_text() == "before"
        assert not (fast / home.name).exists()
        told = await it.condition("Returned")
        assert told["status"] == "False"
        claim = await it.here.find_claim("data")
        assert claim.status["modifyVolumeStatus"]["status"] == "Infeasible"
        assert not claim.status.get("currentVolumeAttributesClassName")
        # It is not tried again by itself, but may be asked for anything else.
        await it.ready()
        await it.ask("plain")
        await it.over("plain")
        assert read_move(home) is None


async def test_a_pod_that_was_ready_once_keeps_the_copy(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "directory") as it:
        await it.attributes("shaky", tier="fast", deadline="2s", keep="1h")
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        await it.ask("shaky")
        await it.condition("AwaitingRestart")
        await it.restart()
        await it.ready()

        async def seen() -> bool:
            move = read_move(home)
            return move is not None and move.was_ready

        await eventually(seen)
        await it.ready(is_ready=False)

        async def late() -> bool:
            move = read_move(home)
            assert move is not None
            return SystemClock().now() - move.mounted > 4

        await eventually(late)
        found = (await it.here.find_claim("data")).condition(VOLUME_MOVE) or {}
        assert found.get("reason") == "Kept"


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
async def test_a_tier_that_the_node_lacks_is_told(tmp_path: Path, fast: Path, kind: str) -> None:
    async with moving(tmp_path, fast, kind) as it:
        await it.attributes("nowhere", tier="gone")
        await it.ask("nowhere")
        condition = await it.here.condition("data", "ModifyVolumeError")
        assert "the tier 'gone', and this node has default, fast" in condition["message"]
        # Asked for what it has, it says no more of it.
        await it.ask("plain")
        await it.over("plain")


async def test_a_tier_without_room_is_told_and_nothing_is_left(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        (await it.here.mounted(it.pod) / "row").write_text("precious")
        (fast / "full").write_bytes(bytes(1160 * MI))
        await it.ask("gold")
        told = await it.condition("Failed")
        assert "there is not enough space for 64Mi" in told["message"]
        error = await it.here.condition("data", "ModifyVolumeError")
        assert "there is not enough space" in error["message"]

        async def empty() -> bool:
            return not list(fast.glob("pvc-*"))  # noqa: ASYNC240

        await eventually(empty)
        (fast / "full").unlink()
        await it.condition("AwaitingRestart")
        assert (await it.restart() / "row").read_text() == "precious"


async def test_a_disk_that_becomes_full_half_way_leaves_the_volume_whole(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "directory") as it:
        path = await it.here.mounted(it.pod)
        for number in range(200):
            (path / f"row-{number}").write_text(str(number))
        # There is room for the bytes, and not for as many files.
        await run("mount", "-o", "remount,nr_inodes=100", str(fast))
        await it.ask("gold")
        told = await it.condition("Failed")
        assert f"{fast} became full while" in told["message"]
        assert not list(fast.glob("pvc-*/data/row-*"))  # noqa: ASYNC240
        assert sorted(os.listdir(path)) == sorted(f"row-{number}" for number in range(200))
        await run("mount", "-o", "remount,nr_inodes=10000", str(fast))
        await it.condition("AwaitingRestart")
        path = await it.restart()
        assert path.parent.parent == fast
        assert all((path / f"row-{number}").read_text() == str(number) for number in range(200))


async def test_names_that_no_message_can_have_end_no_agent(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "directory") as it:
        folder = os.open(await it.here.mounted(it.pod), os.O_RDONLY)
        name = b"\xff\n\x1b[31m" + b"n" * 200
        # Deeper than what is copied.
        for _ in range(202):
            os.mkdir(name, dir_fd=folder)
            inner = os.open(name, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
        os.close(folder)
        await it.ask("gold")
        message = (await it.condition("Failed"))["message"]
        assert "levels deep can't be copied" in message
        assert message.isprintable()
        assert len(message) < 400


async def test_a_pod_that_is_deleted_while_its_volume_is_copied_finds_all_of_it(
    tmp_path: Path, fast: Path
) -> None:
    async with moving(tmp_path, fast, "directory") as it:
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        path = await it.here.mounted(it.pod)
        written = {f"row-{number}": os.urandom(16 * MI) for number in range(12)}
        for name, content in written.items():
            (path / name).write_bytes(content)
        await it.ask("gold")
        await it.condition("Copying")
        await it.here.delete_pod(it.pod)
        said = (await it.here.find_claim("data")).condition(VOLUME_MOVE)
        assert said is not None
        assert said["reason"] in ("Copying", "Finishing")

        async def is_switched() -> bool:
            found = read_move(home)
            return found is None or found.phase is MovePhase.KEPT

        # No pod has to stop for it any more.
        await eventually(is_switched)
        path = await it.start()
        assert path.parent.parent == fast
        assert {name: (path / name).read_bytes() for name in written} == written
        await it.ready()
        await it.over("gold")
        assert not (home / "data").exists()


async def test_another_class_ends_a_move_that_waits(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        await it.ask("gold")
        await it.condition("AwaitingRestart")
        await it.ask("plain")
        await it.over("plain")
        assert not (fast / home.name).exists()
        assert not [one for one in mounts() if fast in one.target.parents]
        assert read_move(home) is None


async def test_a_claim_that_grows_meanwhile_is_as_large_afterwards(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "xfs") as it:
        path = await it.here.mounted(it.pod)
        (path / "row").write_text("precious")
        await it.ask("gold")
        await it.condition("AwaitingRestart")
        await it.here.grow("data", "640Mi")

        async def grown() -> bool:
            return bool((await it.here.find_claim("data")).status["capacity"] == {"storage": "640Mi"})

        await eventually(grown)
        path = await it.restart()
        found = os.statvfs(path)
        assert found.f_blocks * found.f_frsize > 500 * MI
        assert (path / "row").read_text() == "precious"


async def test_a_claim_that_is_deleted_meanwhile_leaves_nothing(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        volume = await it.here.volume_of("data")
        home = Path(volume.spec["local"]["path"]).parent
        await it.ask("gold")
        await it.condition("AwaitingRestart")
        await it.here.api.delete(PersistentVolumeClaim, "data", "default")
        await it.here.delete_pod(it.pod)
        await it.here.gone(volume.name)
        assert not home.exists()
        assert not (fast / home.name).exists()


async def test_a_moved_volume_goes_with_its_claim(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        volume = await it.here.volume_of("data")
        home = Path(volume.spec["local"]["path"]).parent
        await it.ask("gold")
        await it.condition("AwaitingRestart")
        await it.restart()
        await it.ready()
        await it.over("gold")
        await it.here.api.delete(PersistentVolumeClaim, "data", "default")
        await it.here.delete_pod(it.pod)
        await it.here.gone(volume.name)
        assert not home.exists()
        assert not (fast / home.name).exists()
        assert (await it.here.api.list(PersistentVolume)).objects == []


async def test_a_class_that_is_deleted_meanwhile_is_told(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        await it.here.stop_node()
        await it.ask("gold")
        await it.here.api.delete(VolumeAttributesClass, "gold")
        it.here.start_node()
        condition = await it.here.condition("data", "ModifyVolumeError")
        assert 'volumeattributesclass.storage.k8s.io "gold" not found' in condition["message"]
        assert not (fast / home.name).exists()


async def test_a_pod_that_comes_too_early_waits_and_says_how_far_it_is(tmp_path: Path, fast: Path) -> None:
    async with moving(tmp_path, fast, "ext4") as it:
        home = Path((await it.here.volume_of("data")).spec["local"]["path"]).parent
        await it.ask("gold")
        await it.condition("AwaitingRestart")
        await it.here.stop_node()
        await it.here.delete_pod(it.pod)
        # As an agent that was killed while it finished the move leaves it.
        move = read_move(home)
        assert move is not None
        text = (home / "move.json").read_text()
        (home / "move.json").write_text(text.replace(MovePhase.COPYING, MovePhase.FINISHING))
        it.pod = await it.here.pod("db", "data", nodeName="n1")
        tiers, clock = {"fast": fast}, SystemClock()
        idle = open_volumes(
            it.here.api, node="n1", data=it.here.data, clock=clock, rng=Random(1), tiers=tiers
        )
        with pytest.raises(VolumeNotReady, match="it is moved to the tier fast") as waits:
            await idle.prepare(it.pod)
        assert waits.value.reason == "VolumeMoving"
        idle.close()
        it.here.start_node()
        path = await it.prepared()
        assert path == home / "mount"
