"""The journal of updates: what was begun, on disk before it is done.

    journal = UpdateJournal(folder / "program.json")
    journal.accept(TurnRecord(key=key, payload=payload))
    journal.advance(Phase.SWAPPING)

Every change is written and synced before the call returns; one that can't be written is an OSError that names
the journal, and has not happened. A journal that can't be read counts as lost: its file is put aside, and the
next turn starts from what is installed.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.api.k0s.payloads import Payload, failure_reason
from pilothouse.api.k0s.release_versions import is_release
from pilothouse.api.k0s.signals import Signal
from pilothouse.pki.private_files import write_private

log = logging.getLogger(__name__)


class Phase(StrEnum):
    """How far a turn is on disk, in order."""

    ACCEPTED = "Accepted"
    """The Plan named this machine. Nothing has been done."""
    DOWNLOADED = "Downloaded"
    """The payload is there and verified."""
    KEEPING = "Keeping"
    """The installed version is being copied."""
    SWAPPING = "Swapping"
    """The payload is being put in its place."""
    RESTARTING = "Restarting"
    """The program is about to be restarted."""
    CHECKING = "Checking"
    """It was restarted; version, digest and health are being checked."""
    VERIFIED = "Verified"
    REVERTING = "Reverting"
    """The kept version is being put back."""
    REVERTED = "Reverted"
    """It is back, and about to be restarted."""
    ENDED = "Ended"


class TurnIdentity(msgspec.Struct, frozen=True):
    """Which turn it is: of one command in one run of one plan."""

    plan_uid: str
    generation: int
    command: int
    kind: str
    """k0supdate or airgapupdate."""
    rollback: bool = False

    @property
    def run(self) -> tuple[str, int, int]:
        """The command in its run; a rollback has that of its update."""
        return self.plan_uid, self.generation, self.command


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: TurnIdentity
    payload: Payload
    phase: Phase = Phase.ACCEPTED
    digest: str = ""
    """Of what was downloaded, or of the kept version."""
    previous_version: str = ""
    restarts: int = 0
    returns: int = 0
    """How often the kept version was restarted."""
    result: str = ""
    """The step with which it ended, if the machine itself decided that."""
    reason: str = ""

    @property
    def is_open(self) -> bool:
        return self.phase not in (Phase.VERIFIED, Phase.ENDED)


class KeptVersion(msgspec.Struct, frozen=True):
    """The last version that worked, before the installed one."""

    version: str
    """Empty if the program did not answer when it was kept."""
    digest: str


class LastUpdate(msgspec.Struct, frozen=True):
    """The last turn that was not a rollback."""

    key: TurnIdentity
    changed: bool
    """Whether the machine runs another version since."""


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    turn: TurnRecord | None = None
    kept: KeptVersion | None = None
    last: LastUpdate | None = None
    version: str = ""


class UpdateJournal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = _read(path)

    @property
    def turn(self) -> TurnRecord | None:
        return self._content.turn

    @property
    def kept(self) -> KeptVersion | None:
        return self._content.kept

    @property
    def last(self) -> LastUpdate | None:
        return self._content.last

    @property
    def version(self) -> str:
        """The last version that the machine is known to have had; empty if none is known."""
        return self._content.version

    def accept(self, record: TurnRecord) -> TurnRecord:
        """Begin a turn."""
        content = msgspec.structs.replace(self._content, turn=record)
        return self._write(_with_version(content, record.previous_version))

    def advance(self, phase: Phase, **changes: Any) -> TurnRecord:
        """Go on with the turn; ``changes`` are fields of its record."""
        return self._write(self._advanced(phase, changes))

    def keep(self, kept: KeptVersion, phase: Phase) -> TurnRecord:
        """Go on, with another kept version."""
        return self._write(msgspec.structs.replace(self._advanced(phase, {}), kept=kept))

    def end(self, phase: Phase, *, changed: bool, **changes: Any) -> TurnRecord:
        """Go on to the end of the turn."""
        content = self._advanced(phase, changes)
        turn = content.turn
        assert turn is not None
        if not turn.key.rollback:
            content = msgspec.structs.replace(content, last=LastUpdate(turn.key, changed))
        return self._write(_with_version(content, turn.payload.version) if changed else content)

    def _advanced(self, phase: Phase, changes: dict[str, Any]) -> _Content:
        assert self._content.turn is not None, "there is a turn"
        if "reason" in changes:
            changes = changes | {"reason": failure_reason(changes["reason"])}
        turn = msgspec.structs.replace(self._content.turn, phase=phase, **changes)
        return msgspec.structs.replace(self._content, turn=turn)

    def _write(self, content: _Content) -> TurnRecord:
        try:
            write_private(self._path, msgspec.json.format(msgspec.json.encode(content)))
        except OSError as problem:
            # A failed write names no file, or the draft.
            raise OSError(problem.errno, problem.strerror, str(self._path)) from problem
        self._content = content
        assert content.turn is not None
        return content.turn


def turn_key(signal: Signal) -> TurnIdentity:
    """Which turn a signal is about."""
    kind = "k0supdate" if signal.command.k0supdate is not None else "airgapupdate"
    return TurnIdentity(signal.plan_uid, signal.generation, signal.command.id, kind, signal.rollback)


def _with_version(content: _Content, version: str) -> _Content:
    return msgspec.structs.replace(content, version=version) if is_release(version) else content


def _read(path: Path) -> _Content:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Content)
    except FileNotFoundError:
        return _Content()
    except msgspec.DecodeError as problem:
        aside = path.with_name(f"{path.name}.unreadable")
        path.replace(aside)
        log.error("the journal of updates can't be read and is now %s: %s", aside, problem)
        return _Content()
