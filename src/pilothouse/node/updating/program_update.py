"""Replaces the program of this machine, and returns to the version that worked if the new one does not.

    update = ProgramUpdate(profile, program, files, journal, source, clock, report)
    await update.accept(key, payload, signal.step)
    await update.advance(turn)            # as far as it goes without the leader

Downloading → Cordoning → (the leader drains) → ApplyingUpdate → Restart → UnCordoning → (the leader)
Completed. The journal has each phase before it is done, and each phase can be repeated:

* The installed version is kept only if it answers, or nothing is kept: a version that failed never takes the
  place of one that worked.
* From the moment that a file is replaced, the turn is carried to its end, whatever becomes of its signal, and
  of the API server: the program may be the one that serves the API of this machine.
* A turn that failed is not tried again in its run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from pilothouse.aio.race import unless
from pilothouse.api.k0s import signals
from pilothouse.api.k0s.payloads import DownloadFailed, Payload
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.images.unpacking import UnpackError
from pilothouse.node.interfaces import PayloadSource
from pilothouse.node.updating.installed_program import NotExecutable, ProgramFiles
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError
from pilothouse.node.updating.program_check import ExpectedProgram, check_program
from pilothouse.node.updating.turn_signal import TurnSignal
from pilothouse.node.updating.update_journal import (
    KeptVersion,
    Phase,
    TurnIdentity,
    TurnRecord,
    UpdateJournal,
)
from pilothouse.node.updating.update_profile import UpdateProfile

_BEFORE_DRAIN: Final = ("", signals.DOWNLOADING)
_MOST_RESTARTS: Final = 3
"""How often a restart that was interrupted is repeated."""
_REPORT_SECONDS: Final = 5.0
"""How long a restart waits until it is reported: the API server may need it."""
_CHANGED: Final = (Phase.SWAPPING, Phase.RESTARTING, Phase.CHECKING, Phase.REVERTING, Phase.REVERTED)
"""Phases in which what is installed may be another version than before the turn."""

log = logging.getLogger(__name__)


class ProgramUpdate:
    def __init__(
        self,
        profile: UpdateProfile,
        program: ManagedProgram,
        files: ProgramFiles,
        journal: UpdateJournal,
        source: PayloadSource,
        clock: Clock,
        report: Callable[[], Awaitable[None]],
    ) -> None:
        """``report`` publishes the version that runs, before the turn is reported as done."""
        self._profile = profile
        self._program = program
        self._files = files
        self.journal = journal
        self._source = source
        self._clock = clock
        self._report = report

    async def accept(self, key: TurnIdentity, payload: Payload, step: str) -> None:
        """Begin a turn whose signal is at a step: later than Downloading if the journal was lost."""
        running = await self._running_version()
        if key.rollback:
            self._accept_rollback(key, payload, running)
            return
        payload = msgspec.structs.replace(
            payload, running=running, recorded=self.journal.version, replaces=self._files.path.exists()
        )
        self.journal.accept(TurnRecord(key=key, payload=payload, previous_version=running))
        if running == payload.version and (not payload.forced or step == signals.UNCORDONING):
            if step in _BEFORE_DRAIN:
                self.journal.end(Phase.ENDED, changed=False, result=signals.COMPLETED)
            else:
                self.journal.end(Phase.VERIFIED, changed=True)

    def _accept_rollback(self, key: TurnIdentity, payload: Payload, running: str) -> None:
        last, kept = self.journal.last, self.journal.kept
        payload = msgspec.structs.replace(payload, version=kept.version if kept else "", url="")
        self.journal.accept(TurnRecord(key=key, payload=payload, previous_version=running))
        if last is None or last.key.run != key.run:
            why = "this run has not updated the machine, so there is nothing to return from"
            self.journal.end(Phase.ENDED, changed=False, result=signals.FAILED, reason=why)
        elif not last.changed:
            self.journal.end(Phase.ENDED, changed=False, result=signals.COMPLETED)

    async def resume(self) -> None:
        """Go on with what was begun, without its signal, until the machine works again. Raises OSError."""
        while (record := self.journal.turn) is not None and record.phase in _CHANGED:
            await self._carry_out(record)

    async def _carry_out(self, record: TurnRecord) -> None:
        match record.phase:
            case Phase.SWAPPING:
                await self._swap(record)
            case Phase.RESTARTING:
                await self._restart(record)
            case Phase.CHECKING:
                await self._check(record)
            case Phase.REVERTING:
                await self._revert(record)
            case Phase.REVERTED:
                await self._restart_reverted(record)

    async def advance(self, turn: TurnSignal) -> None:
        """Go on until the turn ends or waits for the leader. Raises StatusError, TransportError, OSError."""
        while True:
            record = self.journal.turn
            assert record is not None, "a turn was accepted"
            match record.phase:
                case Phase.ACCEPTED:
                    await self._download(record, turn)
                case Phase.DOWNLOADED:
                    await turn.reach(signals.CORDONING)
                    if turn.is_withdrawn:
                        self._end(signals.FAILED, "the signal was withdrawn")
                    elif turn.step == signals.CORDONING:
                        return
                    else:
                        self.journal.advance(Phase.KEEPING)
                case Phase.KEEPING:
                    await self._keep(record)
                case Phase.SWAPPING | Phase.CHECKING | Phase.REVERTING | Phase.REVERTED:
                    await self._carry_out(record)
                case Phase.RESTARTING:
                    await _reach_restart(turn)
                    await self._carry_out(record)
                case Phase.VERIFIED:
                    await self._report()
                    if turn.step in _BEFORE_DRAIN:
                        # Signalled once more: there is nothing left to do.
                        await turn.reach(signals.COMPLETED)
                    elif turn.step != signals.CORDONING:
                        await turn.reach(signals.RESTART)
                        await turn.reach(signals.UNCORDONING)
                    return
                case Phase.ENDED:
                    await self._files.discard_next()
                    self._source.discard(self._files.download)
                    drained = turn.step not in _BEFORE_DRAIN
                    failed = record.result == signals.FAILED_DOWNLOAD and drained
                    if record.restarts and turn.step == signals.APPLYING:
                        await turn.reach(signals.RESTART)
                    await turn.reach(signals.FAILED if failed else record.result, record.reason)
                    return

    async def _download(self, record: TurnRecord, turn: TurnSignal) -> None:
        await turn.reach(signals.DOWNLOADING)
        if record.key.rollback:
            await self._stage_kept()
            return
        if not await unless(self._fetch(record), turn.withdrawn()):
            self._end(signals.FAILED, "the signal was withdrawn")

    async def _fetch(self, record: TurnRecord) -> None:
        files = self._files
        try:
            fetched = await self._source.fetch(record.payload, files.download)
            await files.stage(record.payload.version, fetched.sha256)
        except DownloadFailed as problem:
            self._end(signals.FAILED_DOWNLOAD, str(problem))
        except NotExecutable as problem:
            self._end(signals.FAILED_DOWNLOAD, f"{record.payload.url} is not executable: {problem}")
        except UnpackError as problem:
            self._end(signals.FAILED_DOWNLOAD, f"{record.payload.url} can't be unpacked: {problem}")
        except OSError as problem:
            self._end(signals.FAILED_DOWNLOAD, f"{files.download}: {problem.strerror or problem}")
        except ValueError as problem:
            self._end(signals.FAILED_DOWNLOAD, f"{record.payload.url}: {problem}")
        else:
            self.journal.advance(Phase.DOWNLOADED, digest=fetched.sha256)

    async def _stage_kept(self) -> None:
        kept = self.journal.kept
        try:
            digest = await self._files.kept_digest()
            if kept is None or digest != kept.digest:
                self._end(signals.FAILED, f"{self._files.kept} is not the version that was kept")
            else:
                await self._files.stage_kept()
                self.journal.advance(Phase.DOWNLOADED, digest=kept.digest)
        except OSError as problem:
            self._end(signals.FAILED, f"{self._files.next}: {problem.strerror or problem}")

    async def _keep(self, record: TurnRecord) -> None:
        if record.key.rollback:
            self.journal.advance(Phase.SWAPPING)
            return
        kept = self.journal.kept
        version = await self._running_version()
        try:
            has_kept = kept is not None and await self._files.kept_digest() == kept.digest
            if has_kept and (not version or await self._program.health()):
                # What is installed does not work: what worked before it stays kept.
                self.journal.advance(Phase.SWAPPING)
                return
            digest = await self._files.keep()
            self.journal.keep(KeptVersion(version, digest), Phase.SWAPPING)
        except OSError as problem:
            reason = f"{self._files.path} can't be kept: {problem.strerror or problem}"
            self._end(signals.FAILED, reason)

    async def _swap(self, record: TurnRecord) -> None:
        files = self._files
        try:
            if await files.next_digest() == record.digest:
                await files.swap()
            if await files.digest() == record.digest:
                self.journal.advance(Phase.RESTARTING)
                return
            reason = f"{files.next} is gone or was changed since it was verified"
        except OSError as problem:
            reason = f"{files.path} can't be replaced: {problem.strerror or problem}"
        self.journal.advance(Phase.REVERTING, reason=reason)

    async def _restart(self, record: TurnRecord) -> None:
        if why := self._files.given_up(record.digest):
            self.journal.advance(Phase.REVERTING, reason=why)
            return
        if record.restarts and await self._program.running_digest() == record.digest:
            # An earlier agent has restarted it, and was killed before it could say so.
            self.journal.advance(Phase.CHECKING)
            return
        if record.restarts >= _MOST_RESTARTS:
            reason = f"the agent has ended {record.restarts} times while it restarted the program"
            self.journal.advance(Phase.REVERTING, reason=reason)
            return
        self.journal.advance(Phase.RESTARTING, restarts=record.restarts + 1)
        try:
            await self._program.restart()
        except ProgramError as problem:
            self.journal.advance(Phase.REVERTING, reason=str(problem))
        else:
            self.journal.advance(Phase.CHECKING)

    async def _check(self, record: TurnRecord) -> None:
        if why := self._files.given_up(record.digest):
            self.journal.advance(Phase.REVERTING, reason=why)
            return
        version = "" if record.payload.forced else record.payload.version
        expected = ExpectedProgram(version, record.digest)
        if problem := await check_program(self._program, self._files, expected, self._profile, self._clock):
            self.journal.advance(Phase.REVERTING, reason=problem)
        else:
            await self._files.confirm()
            self.journal.end(Phase.VERIFIED, changed=True)

    async def _revert(self, record: TurnRecord) -> None:
        log.warning("the update to %s is taken back: %s", record.payload.version, record.reason)
        if record.key.rollback:
            # The kept version is the one that does not work; there is no other.
            self._end(signals.FAILED, record.reason)
            return
        kept = self.journal.kept
        if await self._files.digest() != (kept.digest if kept else ""):
            await self._files.restore()
        self.journal.advance(Phase.REVERTED)

    async def _restart_reverted(self, record: TurnRecord) -> None:
        kept = self.journal.kept
        assert kept is not None, "a version is kept before another is installed"
        reason = f"{record.reason}; back at {kept.version or 'the version before'}"
        runs = record.returns and await self._program.running_digest() == kept.digest
        try:
            if not runs and record.returns < _MOST_RESTARTS:
                self.journal.advance(Phase.REVERTED, returns=record.returns + 1)
                await self._program.restart()
            expected = ExpectedProgram(kept.version, kept.digest)
            problem = await check_program(self._program, self._files, expected, self._profile, self._clock)
        except ProgramError as error:
            problem = str(error)
        if problem:
            reason = f"{reason}, which does not work either: {problem}"
        self.journal.end(Phase.ENDED, changed=False, result=signals.FAILED, reason=reason)

    def _end(self, result: str, reason: str) -> None:
        """End the turn without a change to what is installed."""
        log.warning("the update has ended as %s: %s", result, reason)
        self.journal.end(Phase.ENDED, changed=False, result=result, reason=reason)

    async def _running_version(self) -> str:
        """Empty if the program does not answer."""
        try:
            return await self._program.version()
        except ProgramError as problem:
            log.info("the program does not answer for its version: %s", problem)
            return ""


async def _reach_restart(turn: TurnSignal) -> None:
    """Report the restart, if the API server can be reached; else it is reported with the end of the turn."""
    try:
        async with asyncio.timeout(_REPORT_SECONDS):
            await turn.reach(signals.RESTART)
    except (StatusError, TransportError, AccessError, TimeoutError) as problem:
        log.warning("the restart is not reported yet: %s", problem)
