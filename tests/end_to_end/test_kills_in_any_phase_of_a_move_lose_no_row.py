"""The volume of a Postgres moves to another tier and back while rows are inserted. In each phase the node agent, the API
server, the controller-manager or Postgres is killed with SIGKILL. No acknowledged row is lost, checksums stay equal, one
whole copy is there at every moment, and no two are ever mounted.

Moves are ApplicationActions, so that their executor is at work in the manager. Each of the four is killed once in each
phase, Postgres in those in which it runs: on XFS 8 times, Postgres 6 times; on btrfs 3 times. PILOTHOUSE_SOAK makes this
six rounds, with 66 kills of each, and 54 of Postgres.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from tests.kit.acknowledged_rows import AcknowledgedRows
from tests.kit.growing_postgres import MI, Postgres
from tests.kit.moved_volumes import HOME, OTHER, MountWatch, MovedVolume, postmasters
from tests.kit.role_processes import ROLES, RoleProcesses
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

from pilothouse.aio.commands import run
from pilothouse.api.attributes_classes import computed_name, parameters_of, requested_class
from pilothouse.api.kind_names import (
    ApplicationAction,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttributesClass,
)
from pilothouse.api.local_volumes import AWAITING_RESTART, LOOP, VOLUME_MOVE
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import MOVE
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.mount_table import mounts
from pilothouse.node.volumes.move_journal import MovePhase

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ROUNDS = 6 if os.environ.get("PILOTHOUSE_SOAK") else 1
POSTGRES = "postgres"
VICTIMS = (*ROLES, POSTGRES)
SECONDS = 180.0
T = TypeVar("T")
ORDER = (
    {MovePhase.COPYING, MovePhase.REPLACING},
    {MovePhase.FINISHING},
    {MovePhase.KEPT},
    {MovePhase.REMOVING},
)
"""What follows what in a move. A later agent may take up an earlier phase again, but none of an earlier line."""


class Phase(NamedTuple):
    name: str
    line: int
    """The last line of ``ORDER`` in which it may be."""
    has_begun: Callable[[Moves], bool] = lambda _: True
    runs: bool = True
    """Whether Postgres runs meanwhile."""


COPIED = (
    Phase("the move is written down", 0),
    Phase("the copy has a file", 0, lambda it: (it.target / "disk").exists()),
    Phase("the copy is written", 0, lambda it: (it.target / "copy" / "db").exists()),
    Phase("the pod is awaited", 0, lambda it: it.reason == AWAITING_RESTART),
    Phase("the rest is copied", 1, lambda it: it.line() == 1, runs=False),
    Phase("the copy is the volume", 2, lambda it: it.is_switched(), runs=False),
    Phase("the pod runs on the copy", 2, lambda it: it.is_switched() and it.watch.address != ""),
    Phase("the old copy goes", 3, lambda it: it.line() == 3),
)
REPLACED = (
    Phase("the move is written down", 0),
    Phase("btrfs has both files", 0, lambda it: (it.target / "disk").exists()),
    Phase("the other file is the volume", 3, lambda it: it.is_switched()),
)


class Moves:
    """The moves of a volume, and kills while it is moved."""

    def __init__(
        self, plane: RoleProcesses, api: Api, volume: MovedVolume, watch: MountWatch, rows: AcknowledgedRows
    ) -> None:
        self._plane = plane
        self._api = api
        self._rows = rows
        self.volume = volume
        self.watch: MountWatch = watch
        self.target: Path = volume.copy
        """The directory that the volume moves to."""
        self.tier = OTHER
        self.reason: str = ""
        """Of the claim's condition."""
        self.message = ""
        self._count = 0

    def line(self) -> int:
        """Where in ``ORDER`` the move is; after its last line, once it is over."""
        move = self.volume.move()
        return next((at for at, phases in enumerate(ORDER) if move and move.phase in phases), len(ORDER))

    def is_switched(self) -> bool:
        return self.volume.tier() == self.tier

    async def claim(self) -> Object:
        return await self._api.get(PersistentVolumeClaim, "data-postgres-0", "default")

    async def pod(self) -> Object:
        return await self._api.get(Pod, "postgres-0", "default")

    async def follow_reason(self) -> None:
        while True:
            with contextlib.suppress(TransportError, StatusError):
                condition = (await self.claim()).condition(VOLUME_MOVE) or {}
                self.reason, self.message = (str(condition.get(key, "")) for key in ("reason", "message"))
            await asyncio.sleep(0.05)

    async def walk(self, phases: tuple[Phase, ...]) -> None:
        """Moves there and back, until each has been killed in each phase as often as it should be."""
        pending = {
            phase.name: [
                VICTIMS[(number + at) % len(VICTIMS)]
                for number in range(ROUNDS * len(VICTIMS))
                if phase.runs or VICTIMS[(number + at) % len(VICTIMS)] != POSTGRES
            ]
            for at, phase in enumerate(phases)
        }
        most = 3 * ROUNDS * len(VICTIMS)
        while any(pending.values()):
            assert self._count < most, f"not reached in {most} moves: {pending}"
            await self._move(phases, pending)

    async def _move(self, phases: tuple[Phase, ...], pending: dict[str, list[str]]) -> None:
        last = self._rows.acknowledged[-1]
        before = await self._checksum(last)
        self._count += 1
        self.tier = HOME if self.volume.tier() == OTHER else OTHER
        self.target, source = self.volume.folder(self.tier), self.volume.folder(self.volume.tier())
        action = await self._begin()
        for phase in phases:
            if pending[phase.name] and await self._reached(phase, victim := pending[phase.name][0]):
                self._kill(victim)
                pending[phase.name].pop(0)
        ended = await self._eventually(lambda: self._ended(action))
        assert ended.status["phase"] == "Succeeded", ended.status
        await self._eventually(self._is_over)
        assert await self._checksum(last) == before
        assert self.volume.tier() == self.tier
        assert not (source / "disk").exists()
        assert len([one for one in mounts() if one.target == self.volume.home / "mount"]) == 1
        disk = str(self.target / "disk")
        devices = await run("losetup", "--associated", disk, "--noheadings", "--output", "NAME")
        assert len(devices.split()) == 1
        self.watch.check()

    async def _begin(self) -> str:
        """Create the action as the engine does."""
        claim = await self._eventually(self.claim)
        name, old = f"move-{self._count}", requested_class(claim)
        parameters: dict[str, str] = {}
        if old:
            parameters = parameters_of(
                await self._eventually(lambda: self._api.get(VolumeAttributesClass, old))
            )
        target = computed_name(LOOP, {**parameters, "tier": self.tier})
        body: Tree = {
            "apiVersion": ApplicationAction.api_version,
            "kind": ApplicationAction.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "rule": "tiers",
                "object": {"apiVersion": "v1", "kind": claim.kind, "name": claim.name, "uid": claim.uid},
                "action": MOVE,
                "parameters": {"tier": self.tier, "keep": "1s"},
                "target": {"from": self.volume.tier(), "to": self.tier, "class": target},
            },
        }

        async def created() -> Object | None:
            if found := await self._api.find(ApplicationAction, name, "default"):
                return found
            return await self._api.create(ApplicationAction, body)

        await self._eventually(created)
        return name

    async def _reached(self, phase: Phase, victim: str) -> bool:
        """Wait for a phase; False if it is over, or over before the victim runs."""
        deadline, has_begun = time.monotonic() + SECONDS, False
        while True:
            line = self.line()
            has_begun = has_begun or line < len(ORDER)
            if has_begun and line > phase.line:
                return False
            runs = victim != POSTGRES or self.watch.address
            if has_begun and runs and phase.has_begun(self):
                return True
            assert time.monotonic() < deadline, f"{phase.name}: not reached; {self.reason} {self.message}"
            await asyncio.sleep(0.001)

    def _kill(self, victim: str) -> None:
        if victim != POSTGRES:
            self._plane.kill(victim)
            return
        for server in postmasters(self._plane.data):
            os.kill(server.pid, signal.SIGKILL)
        self.watch.address = ""

    async def _ended(self, name: str) -> Object | None:
        action = await self._api.get(ApplicationAction, name, "default")
        return action if action.status.get("phase") in ("Succeeded", "Failed", "Declined") else None

    async def _is_over(self) -> bool:
        """Whether the old copy is gone, and Postgres is back."""
        condition, pod = (await self.claim()).condition(VOLUME_MOVE), await self.pod()
        is_ready = (pod.condition("Ready") or {}).get("status") == "True"
        return self.volume.move() is None and condition is None and is_ready

    async def _checksum(self, last: int) -> str:
        async def look() -> str:
            return await asyncio.to_thread(self._rows.checksum, last)

        return await self._eventually(look)

    async def _eventually(self, probe: Callable[[], Awaitable[T | None]]) -> T:
        """The same, with an API server that is away at times; fails at once when a look was wrong."""

        async def tolerant() -> T | None:
            self.watch.check()
            try:
                return await probe()
            except TransportError:
                return None
            except StatusError as refused:
                if refused.code < 500 and refused.code != 409:
                    raise
                return None

        return await eventually(tolerant, seconds=SECONDS)


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[RoleProcesses]:
    if os.geteuid() != 0:
        pytest.skip("it makes and mounts filesystems, which only root may")
    needed("postgres", "psql", "mkfs.xfs", "mkfs.btrfs")
    (tmp_path / OTHER).mkdir(mode=0o700)
    with RoleProcesses(tmp_path, "--tier", f"{OTHER}={tmp_path / OTHER}") as running:
        yield running


@contextlib.asynccontextmanager
async def moving(plane: RoleProcesses, filesystem: str, size: int) -> AsyncIterator[Moves]:
    """A Postgres on a volume of this filesystem, which is written to all the time."""
    async with plane.api() as api:
        kind: Tree = {
            "apiVersion": StorageClass.api_version,
            "kind": StorageClass.kind,
            "metadata": {"name": "moved"},
            "provisioner": LOOP,
            "volumeBindingMode": "WaitForFirstConsumer",
            "parameters": {"fsType": filesystem},
        }
        await api.create(StorageClass, kind)
        await Postgres(plane, "default").start(f"{size // MI}Mi", "moved")
        claim = await api.get(PersistentVolumeClaim, "data-postgres-0", "default")
        name = f"pvc-{claim.uid}"
        volume = MovedVolume(plane.data / "node" / "volumes" / name, plane.folder / OTHER / name, size)
        with MountWatch(volume, plane.data) as watch:
            rows = AcknowledgedRows(lambda: watch.address)
            await eventually(lambda: asyncio.sleep(0, watch.address))
            rows.create()
            moves = Moves(plane, api, volume, watch, rows)
            following = asyncio.create_task(moves.follow_reason())
            with rows.written():
                await eventually(lambda: asyncio.sleep(0, rows.acknowledged))
                yield moves
                written = len(rows.acknowledged)
                await eventually(lambda: asyncio.sleep(0, len(rows.acknowledged) > written))
            following.cancel()
            rows.check()
        watch.check()
        assert watch.looks > 0


async def test_on_xfs(plane: RoleProcesses) -> None:
    async with moving(plane, "xfs", 320 * MI) as moves:
        await moves.walk(COPIED)


async def test_on_btrfs(plane: RoleProcesses) -> None:
    """Its pod goes on: it is neither stopped nor held."""
    async with moving(plane, "btrfs", 512 * MI) as moves:
        first = await moves.pod()
        await moves.walk(REPLACED)
        assert (await moves.pod()).uid == first.uid
