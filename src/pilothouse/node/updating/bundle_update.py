"""Brings a bundle of images to the folder from which the machine's runtime imports them.

    update = BundleUpdate(Path("/var/lib/k0s/images"), journal, source)
    await update.accept(key, payload)
    await update.advance(turn)            # Downloading → Completed, or FailedDownload

The bundle has the name that its server gave it, or that of its URL; one of the same name is replaced in one
step, others stay. A name that would lead out of the folder is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import Final

from pilothouse.aio.race import unless
from pilothouse.api.k0s import signals
from pilothouse.api.k0s.payloads import DownloadFailed, Payload
from pilothouse.node.interfaces import PayloadSource
from pilothouse.node.updating.turn_signal import TurnSignal
from pilothouse.node.updating.update_journal import Phase, TurnKey, TurnRecord, UpdateJournal

_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|]+")
_LONGEST_NAME: Final = 255
_NEXT: Final = ".pilothouse-bundle.update"

log = logging.getLogger(__name__)


class BundleUpdate:
    def __init__(self, folder: Path | None, journal: UpdateJournal, source: PayloadSource) -> None:
        """``folder`` is None if the machine takes no bundles."""
        self._folder = folder
        self.journal = journal
        self._source = source

    async def accept(self, key: TurnKey, payload: Payload, _step: str) -> None:
        """Begin a turn."""
        self.journal.accept(TurnRecord(key=key, payload=payload))
        if key.rollback:
            self.journal.end(Phase.ENDED, changed=False, result=signals.COMPLETED)
        elif self._folder is None:
            self._fail("the update profile of this machine has no images folder")

    async def advance(self, turn: TurnSignal) -> None:
        """Go on until the turn ends. Raises StatusError, TransportError."""
        record = self.journal.turn
        assert record is not None, "a turn was accepted"
        if record.phase is Phase.ACCEPTED:
            await turn.reach(signals.DOWNLOADING)
            if not await unless(self._fetch(record), turn.withdrawn()):
                self._fail("the signal was withdrawn")
            record = self.journal.turn
            assert record is not None
        if self._folder is not None:
            self._source.discard(self._folder / _NEXT)
        await turn.reach(record.result, record.reason)

    async def _fetch(self, record: TurnRecord) -> None:
        folder = self._folder
        assert folder is not None, "checked when it was accepted"
        draft = folder / _NEXT
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fetched = await self._source.fetch(record.payload, draft)
            if problem := name_problem(fetched.name):
                draft.unlink(missing_ok=True)
                self._fail(f"{fetched.name!r} can't be the name of a bundle: {problem}")
                return
            await asyncio.to_thread(_place, draft, folder / fetched.name)
        except DownloadFailed as problem:
            self._fail(str(problem))
        except OSError as problem:
            self._fail(f"{folder}: {problem.strerror or problem}")
        else:
            self.journal.end(Phase.ENDED, changed=True, result=signals.COMPLETED)

    def _fail(self, reason: str) -> None:
        log.warning("the bundle is not there: %s", reason)
        self.journal.end(Phase.ENDED, changed=False, result=signals.FAILED_DOWNLOAD, reason=reason)


def name_problem(name: str) -> str:
    """Why a file in the folder can't have this name; empty if it can.

    >>> name_problem("../x")
    'it is empty, or begins with a dot'
    """
    if not name or name.startswith("."):
        return "it is empty, or begins with a dot"
    if not _NAME.fullmatch(name):
        return "it has a character that file names must not have"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        return f"it is longer than {_LONGEST_NAME} bytes"
    return ""


def _place(draft: Path, target: Path) -> None:
    draft.chmod(0o644)
    draft.replace(target)
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
