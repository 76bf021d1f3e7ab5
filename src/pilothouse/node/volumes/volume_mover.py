"""Moves the data of volumes between the tiers of a node.

    mover = VolumeMover(api, places, claims, clock)
    mover.begin(home, move)                     # a journal: the next agent continues with it
    await mover.run(subject)                    # until the move is over, undone, or fails

btrfs moves itself while pods use it. Other volumes are copied while pods use them, in passes. Then the
claim's condition asks for a restart of the pod. Once no pod has the volume, pods that want it wait; what has
changed is copied, the copy is compared with the source, and the volume's record switches to it. The source
stays until a pod has been ready on the copy for a while. If no pod becomes ready in time, the record switches
back.

One copy is the volume at every moment: the one that the record names. Its record changes atomically, while no
pod has it. A copy that the record doesn't name is never given to a pod; one that it names is never removed. A
move that fails is undone, and retried; the journal says how far it was (``move_journal``).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, Final, TypeVar

import msgspec

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.api.kind_names import PersistentVolume, Pod
from pilothouse.api.local_volumes import AWAITING_READY, AWAITING_RESTART, KEPT
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.client.api import Api
from pilothouse.node.files.directory_usage import measure_disk_usage
from pilothouse.node.volumes import claim_statuses
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.cluster_identity import read_identity
from pilothouse.node.volumes.mount_holders import mount_users
from pilothouse.node.volumes.move_journal import MovePhase, MoveRecord, read_move, remove_move, write_move
from pilothouse.node.volumes.move_plan import (
    AfterSwitch,
    PodReadiness,
    after_switch,
    is_another_pass_worthwhile,
    is_wanted,
    observed,
    readiness,
)
from pilothouse.node.volumes.move_status import MovedVolume, MoveStatus
from pilothouse.node.volumes.orphaned_volumes import folders, mark
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.tree_copy import CopyPass, CopyStopped, TreeCopy
from pilothouse.node.volumes.volume_backend import (
    VolumeBackendError,
    read_record,
    write_record,
)
from pilothouse.node.volumes.volume_places import VolumePlaces

_T = TypeVar("_T")
_MOVE: Final = "move"
"""The user of a volume while it is moved."""
STEP: Final = "step"
"""The user of a volume while a step of the plan runs."""
_TICK: Final = 1.0
"""Seconds between looks at pods and claims."""
_AGAIN: Final = 60.0
"""Seconds between passes while the pod is awaited."""
_PASSES: Final = 10
_DETACHING: Final = 50
"""Tenths of seconds that the kernel may take to detach an unmounted volume."""
_THREADS: Final = 2
_LONGEST_PATH: Final = 200
"""Characters of a path that a message has."""

log = logging.getLogger(__name__)


class VolumeMover:
    """All methods raise VolumeBackendError, StatusError, TransportError or OSError."""

    def __init__(
        self,
        api: Api,
        places: VolumePlaces,
        claims: ClaimVolumes,
        clock: Clock,
    ) -> None:
        self._api = api
        self.places = places
        self._claims = claims
        self._clock = clock
        self._status = MoveStatus(api, claims, clock)
        self._threads = DaemonThreads("moving", _THREADS)
        self._locks: dict[str, asyncio.Lock] = {}
        self.moves: dict[str, MoveRecord] = {}
        """The moves of this node, by volume."""

    def load(self) -> None:
        """Read the journals that an earlier agent has left."""
        for folder in folders(self.places.tiers.values()):
            try:
                if (move := read_move(folder)) is not None:
                    self.moves[folder.name] = move
            except VolumeBackendError as problem:
                log.error("the move of a volume can't be continued: %s", problem)

    def lock(self, volume: str) -> asyncio.Lock:
        """Held while a volume must not change otherwise."""
        return self._locks.setdefault(volume, asyncio.Lock())

    def begin(self, home: Path, move: MoveRecord) -> None:
        self._write(home, move)

    def _write(self, home: Path, move: MoveRecord) -> MoveRecord:
        write_move(home, move)
        self.moves[home.name] = move
        return move

    def _step(self, subject: MovedVolume, **fields: Any) -> MoveRecord:
        """Write the journal with other fields."""
        return self._write(subject.home, msgspec.structs.replace(self.moves[subject.name], **fields))

    def _forget(self, subject: MovedVolume) -> None:
        remove_move(subject.home)
        self.moves.pop(subject.name, None)
        self._let_pods_go(subject)

    def _let_pods_go(self, subject: MovedVolume) -> None:
        self._claims.moving.pop(subject.name, None)
        self._claims.awaited.pop(subject.name, None)

    async def run(self, subject: MovedVolume) -> None:
        async with self._owned(subject.home):
            try:
                while (move := self.moves.get(subject.name)) is not None:
                    match move.phase:
                        case MovePhase.COPYING | MovePhase.FINISHING:
                            await self._copy(subject, move)
                        case MovePhase.REPLACING:
                            await self._replace(subject, move)
                        case MovePhase.KEPT:
                            await self._keep(subject, move)
                        case MovePhase.RETURNING:
                            await self._return(subject, move)
                        case MovePhase.REMOVING:
                            await self._remove_source(subject, move)
                        case MovePhase.RETURNED:
                            if not await self._settle_return(subject, move):
                                return
            finally:
                self._claims.pinned.discard(subject.name)
                self._let_pods_go(subject)

    @asynccontextmanager
    async def _owned(self, folder: Path) -> AsyncIterator[None]:
        identity, owners = await read_identity(self._api), self._claims.owners
        await asyncio.to_thread(owners.acquire, folder, identity, _MOVE)
        try:
            yield
        finally:
            owners.release(folder, _MOVE)

    async def _copy(self, subject: MovedVolume, move: MoveRecord) -> None:
        """From the first pass to the switch."""
        if self.places.tier(subject.home) == move.target:
            # An earlier agent was killed after the switch.
            self._step(subject, phase=MovePhase.KEPT)
            return
        target = self.places.folder(subject.home, move.target)
        try:
            if not await self._status.is_wanted(subject, move):
                await self._undo(subject, move)
                return
            self._claims.pinned.add(subject.name)
            await asyncio.to_thread(target.mkdir, 0o700, parents=True, exist_ok=True)
            async with self._owned(target):
                await self._copy_to(subject, move, target)
        except (OSError, VolumeBackendError) as problem:
            self._step(subject, phase=MovePhase.COPYING)
            await self._remove_copy(subject, target)
            raise VolumeBackendError(_copy_problem(problem, target)) from None

    async def _copy_to(self, subject: MovedVolume, move: MoveRecord, target: Path) -> None:
        source = await subject.backend.mount(subject.home)
        await subject.backend.make_copy(subject.home, target, move.allocation)
        copy = TreeCopy(source, await subject.backend.mount_copy(target))
        total = (await self._in_thread(Event(), lambda: measure_disk_usage(source))).size
        if move.phase is MovePhase.FINISHING and await self._finish(subject, copy, target, total):
            return
        before: CopyPass | None = None
        for _ in range(_PASSES):
            if not await self._status.is_wanted(subject, move):
                await self._undo(subject, move)
                return
            last = await self._pass(subject, copy, total, "Copying")
            if not is_another_pass_worthwhile(last, before):
                break
            before = last
        while True:
            if not await self._await_restart(subject, move, copy, last, total):
                await self._undo(subject, move)
                return
            if await self._finish(subject, copy, target, total):
                return

    async def _await_restart(
        self, subject: MovedVolume, move: MoveRecord, copy: TreeCopy, last: CopyPass, total: int
    ) -> bool:
        """Wait until no pod has the volume; False if the move is not wanted any more."""
        due = self._clock.monotonic() + max(_AGAIN, 10 * last.seconds)
        where = self.places.name(subject.home, move.target)
        self._claims.awaited.setdefault(subject.name, asyncio.Event())
        while await self._is_used(subject):
            message = f"100 % copied to the tier {where}: waiting for the pod to stop once, for the rest"
            await self._status.report(subject, move, AWAITING_RESTART, message)
            if not await self._status.is_wanted(subject, move):
                return False
            if self._clock.monotonic() >= due:
                target = self.places.folder(subject.home, move.target)
                await subject.backend.make_copy(subject.home, target, move.allocation)
                last = await self._pass(subject, copy, total, AWAITING_RESTART)
                due = self._clock.monotonic() + max(_AGAIN, 10 * last.seconds)
            await self._tick(subject)
        return await self._status.is_wanted(subject, move)

    async def _tick(self, subject: MovedVolume) -> None:
        """Wait a moment, or until a pod that has the volume goes."""
        gone = self._claims.awaited.setdefault(subject.name, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK):
                await gone.wait()
        gone.clear()

    async def _pass(self, subject: MovedVolume, copy: TreeCopy, total: int, reason: str) -> CopyPass:
        """One pass, whose progress is in the claim's condition."""
        stop = Event()
        running = asyncio.ensure_future(
            self._in_thread(stop, lambda: copy.run(stop, final=reason == "Finishing"))
        )
        move = self.moves[subject.name]
        where = self.places.name(subject.home, move.target)
        try:
            while True:
                percent = min(100 * copy.bytes // max(total, 1), 99)
                message = f"{percent} % copied to the tier {where}"
                self._claims.moving[subject.name] = f"it is moved to the tier {where}: {message}"
                await self._status.report(subject, move, reason, message)
                done, _ = await asyncio.wait((running,), timeout=_TICK)
                if done:
                    return running.result()
        finally:
            stop.set()
            await asyncio.wait((running,))

    async def _in_thread(self, stop: Event, work: Callable[[], _T]) -> _T:
        """Run ``work``; when cancelled, stop it and wait for its end, as it writes to what may be removed."""
        running = asyncio.ensure_future(self._threads.run(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait((running,))
            raise
        except CopyStopped:
            raise VolumeBackendError("the move was stopped") from None

    async def _finish(self, subject: MovedVolume, copy: TreeCopy, target: Path, total: int) -> bool:
        """Copy the rest and switch, unless a pod has the volume."""
        backend, home = subject.backend, subject.home
        async with self.lock(subject.name):
            # Before the look at pods: one that acquires the volume later finds this phase.
            move = self._step(subject, phase=MovePhase.FINISHING)
            if await self._is_used(subject) or not await self._is_let_go(subject):
                self._step(subject, phase=MovePhase.COPYING)
                await backend.mount(home)
                return False
            await backend.mount(home)
            await backend.make_copy(home, target, move.allocation)
            await self._pass(subject, copy, total, "Finishing")
            stop = Event()
            if differs := await self._in_thread(stop, lambda: copy.difference(stop)):
                raise VolumeBackendError(f"the copy differs from the volume at {_shown(differs)}")
            await backend.unmount_copy(target)
            await backend.unmount(home)
            await asyncio.to_thread(mark, target)
            self._switch(home, move.target)
            self._step(subject, phase=MovePhase.KEPT)
            self._let_pods_go(subject)
        return True

    async def _is_let_go(self, subject: MovedVolume) -> bool:
        """Unmount the volume; whether no other process has it mounted either."""
        await subject.backend.unmount(subject.home)
        for _ in range(_DETACHING):
            if not await subject.backend.is_attached(subject.home):
                return True
            await asyncio.sleep(0.1)
        return False

    def _switch(self, home: Path, tier: str) -> None:
        """Make the data in a tier the volume."""
        record = read_record(home)
        if record is None:
            raise VolumeBackendError(f"{home} has no record of its volume")
        write_record(home, msgspec.structs.replace(record, tier=tier))

    async def _is_used(self, subject: MovedVolume) -> bool:
        """Whether a pod has the volume: one that is being prepared, or a container of an earlier agent."""
        if self._claims.owners.users(subject.home) - {_MOVE, STEP}:
            return True
        data = self.places.data(subject.home)

        def mounted() -> bool:
            return any(True for folder in {subject.home, data} for _ in mount_users(folder))

        return await asyncio.to_thread(mounted)

    async def _undo(self, subject: MovedVolume, move: MoveRecord) -> None:
        """Remove what was copied; the volume stays where it is."""
        await self._remove_copy(subject, self.places.folder(subject.home, move.target))
        await self._status.write(subject, lambda claim: claim_statuses.settled(claim.status))
        self._forget(subject)

    async def _remove_copy(self, subject: MovedVolume, folder: Path) -> None:
        """Remove a copy that is not the volume."""
        if self.places.data(subject.home) == folder:
            raise VolumeBackendError(f"{folder} has the data of volume {subject.name}: it is not removed")
        if not await asyncio.to_thread(folder.exists):
            return
        await subject.backend.remove_data(folder)
        if folder != subject.home:
            await asyncio.to_thread(remove, folder)

    async def _replace(self, subject: MovedVolume, move: MoveRecord) -> None:
        backend, home = subject.backend, subject.home
        target = self.places.folder(home, move.target)
        where = self.places.name(home, move.target)
        self._claims.pinned.add(subject.name)
        async with self.lock(subject.name):
            if self.places.tier(home) != move.target:
                try:
                    await asyncio.to_thread(target.mkdir, 0o700, parents=True, exist_ok=True)
                    async with self._owned(target):
                        while (percent := await backend.move_online(home, target)) < 100:
                            if not await self._status.is_wanted(subject, move):
                                await backend.cancel_online(home)
                                await self._undo(subject, move)
                                return
                            message = f"{percent:.0f} % moved to the tier {where}, while pods use it"
                            await self._status.report(subject, move, "Copying", message)
                            await asyncio.sleep(_TICK)
                        await asyncio.to_thread(mark, target)
                except (OSError, VolumeBackendError) as problem:
                    await backend.cancel_online(home)
                    await self._remove_copy(subject, target)
                    raise VolumeBackendError(_copy_problem(problem, target)) from None
                self._switch(home, move.target)
            if move.allocation:
                await backend.allocate(home, move.allocation)
            self._step(subject, phase=MovePhase.REMOVING)

    async def _keep(self, subject: MovedVolume, move: MoveRecord) -> None:
        """Keep the old copy until a pod has been ready for long enough."""
        claim = await self._status.find_claim(subject)
        if claim is None or claim.deleting:
            self._step(subject, phase=MovePhase.REMOVING)
            return
        if not move.reported:
            await self._status.report_class(subject, move)
            move = self._step(subject, reported=True)
        now, pods = self._clock.now(), await self._pods(subject)
        if (seen := observed(move, pods, now)) != move:
            move = self._step(subject, mounted=seen.mounted, was_ready=seen.was_ready)
        where, old = (self.places.name(subject.home, tier) for tier in (move.target, move.source))
        match after_switch(move, pods, now):
            case AfterSwitch.REMOVE:
                self._step(subject, phase=MovePhase.REMOVING)
                return
            case AfterSwitch.RETURN if not await self._is_used(subject):
                self._step(subject, phase=MovePhase.RETURNING)
                return
            case AfterSwitch.RETURN:
                why = f"its pod was not ready within {move.deadline:g} s on the tier {where}"
                message = f"{why}: waiting for it to stop once, to return to the tier {old}"
                self._claims.awaited.setdefault(subject.name, asyncio.Event())
                await self._status.report_kept(subject, AWAITING_RESTART, message)
                await self._tick(subject)
                return
            case AfterSwitch.WAIT:
                self._claims.awaited.pop(subject.name, None)
                if move.was_ready:
                    message = f"moved to the tier {where}; the copy in the tier {old} stays until its pod "
                    await self._status.report_kept(
                        subject, KEPT, f"{message}has been ready for {move.keep:g} s"
                    )
                else:
                    message = f"moved to the tier {where}; its pod has to become ready within "
                    message += f"{move.deadline:g} s, else the volume returns to the tier {old}"
                    await self._status.report_kept(subject, AWAITING_READY, message)
        await asyncio.sleep(_TICK)

    async def drop_old(self, home: Path) -> None:
        """Remove the old copy of the last move before its time, for another one."""
        move = self.moves.get(home.name)
        if move is None:
            return
        where = self.places.name(home, move.target)
        if move.phase is MovePhase.KEPT:
            if not move.was_ready:
                why = f"its pod was not ready since the move to the tier {where}"
                raise VolumeBackendError(f"{why}: wait until it is, or the volume is back")
            self._write(home, msgspec.structs.replace(move, phase=MovePhase.REMOVING))
        for _ in range(_DETACHING):
            if home.name not in self.moves:
                return
            await asyncio.sleep(0.1)
        raise VolumeBackendError(f"the last move, to the tier {where}, is not over")

    async def _pods(self, subject: MovedVolume) -> list[PodReadiness]:
        found = []
        for uid, (namespace, name) in self._claims.pods_with(subject.name).items():
            pod = await self._api.find(Pod, name, namespace)
            if pod is not None and pod.uid == uid:
                found.append(readiness(pod))
        return found

    async def _return(self, subject: MovedVolume, move: MoveRecord) -> None:
        """Make the old copy the volume again, unless a pod has the volume."""
        backend, home = subject.backend, subject.home
        async with self.lock(subject.name):
            is_back = self.places.tier(home) == move.source
            if not is_back and (await self._is_used(subject) or not await self._is_let_go(subject)):
                self._step(subject, phase=MovePhase.KEPT)
                return
            # Before pods get the volume again: none of them has to stop.
            old = self.places.name(home, move.source)
            message = f"its pod has stopped, and the volume returns to the tier {old}"
            await self._status.report_kept(subject, "Finishing", message)
            self._switch(home, move.source)
            try:
                volume = await self._api.get(PersistentVolume, subject.name)
                await backend.expand(home, _size(volume))
                await backend.unmount(home)
            except VolumeBackendError:
                self._switch(home, move.target)
                self._step(subject, phase=MovePhase.KEPT)
                raise
            self._step(subject, phase=MovePhase.RETURNED, reported=False)
            self._let_pods_go(subject)

    async def _settle_return(self, subject: MovedVolume, move: MoveRecord) -> bool:
        """Report a return; False while nothing else is to be done."""
        await self._remove_copy(subject, self.places.folder(subject.home, move.target))
        where, old = (self.places.name(subject.home, tier) for tier in (move.target, move.source))
        if not move.reported:
            await self._status.set_class(subject, move.previous)
            message = (
                f"its pod was not ready within {move.deadline:g} s on the tier {where}: the volume is back "
                f"on the tier {old}, as before the move. To retry, set another class, then this one again"
            )
            await self._status.write(
                subject,
                lambda claim: claim_statuses.returned(
                    claim.status, move.attributes, move.previous, message, self._clock.now()
                ),
            )
            move = self._step(subject, reported=True)
        if is_wanted(move, await self._status.find_claim(subject)):
            return False
        await self._status.write(subject, lambda claim: claim_statuses.settled(claim.status))
        self._forget(subject)
        return True

    async def _remove_source(self, subject: MovedVolume, move: MoveRecord) -> None:
        if not move.reported and await self._status.find_claim(subject) is not None:
            await self._status.report_class(subject, move)
        async with self.lock(subject.name):
            await self._remove_copy(subject, self.places.folder(subject.home, move.source))
        await self._status.write(subject, lambda claim: claim_statuses.settled(claim.status))
        self._forget(subject)


def _size(volume: Object) -> int:
    return parse_quantity(volume.at("spec", "capacity", "storage")).to_int()


def _copy_problem(problem: Exception, target: Path) -> str:
    if not isinstance(problem, OSError):
        return str(problem)
    where = _shown(str(problem.filename or target))
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        full = f"{target.parent} became full while {where} was copied"
        return f"{full}: the volume stays where it is"
    return f"{where}: {problem.strerror}"


def _shown(path: str) -> str:
    """The end of a path: pods choose its names, which may be long and of any bytes but two."""
    text = escape_control_characters(path)
    return text if len(text) <= _LONGEST_PATH else f"…{text[-_LONGEST_PATH:]}"
