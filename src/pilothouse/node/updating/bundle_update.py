"""Brings a bundle of images to the machine, into the folder from which its runtime imports them.

    update = BundleUpdate(Path("/var/lib/k0s/images"), None, journal, source)
    await update.accept(key, payload, signal.step)
    await update.advance(turn)            # Downloading → Completed, or FailedDownload

The bundle has the name that its server gave it, or that of its URL; one of the same name is replaced in one
step, others stay. A name that would lead out of the folder is refused. On a node of ours the images of the
bundle go into its library instead, in the place of images of the same name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.aio.race import unless
from pilothouse.api.k0s import signals
from pilothouse.api.k0s.payloads import DownloadFailed, Payload
from pilothouse.node.images.airgap_bundles import import_bundle
from pilothouse.node.images.image_store import ImageStore, ImageStoreError
from pilothouse.node.images.unpacking import UnpackError
from pilothouse.node.interfaces import ImageMissing, PayloadSource
from pilothouse.node.updating.turn_signal import TurnSignal
from pilothouse.node.updating.update_journal import Phase, TurnIdentity, TurnRecord, UpdateJournal

_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|]+")
_LONGEST_NAME: Final = 255
_NEXT: Final = ".pilothouse-bundle.update"

log = logging.getLogger(__name__)


class BundleUpdate:
    def __init__(
        self, folder: Path, library: ImageStore | None, journal: UpdateJournal, source: PayloadSource
    ) -> None:
        """Bundles go into ``folder``, or through it into a library of images."""
        self._folder = folder
        self._library = library
        self.journal = journal
        self._source = source

    async def accept(self, key: TurnIdentity, payload: Payload, _step: str) -> None:
        """Begin a turn."""
        payload = msgspec.structs.replace(payload, recorded=self.journal.version)
        self.journal.accept(TurnRecord(key=key, payload=payload))
        if key.rollback:
            self.journal.end(Phase.ENDED, changed=False, result=signals.COMPLETED)

    async def resume(self) -> None:
        """Do nothing: until a bundle is there as a whole, the machine is as it was."""

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
        self._source.discard(self._folder / _NEXT)
        await turn.reach(record.result, record.reason)

    async def _fetch(self, record: TurnRecord) -> None:
        folder = place = self._folder
        draft = folder / _NEXT
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fetched = await self._source.fetch(record.payload, draft)
            if self._library is not None:
                place = self._library.folder
                await asyncio.to_thread(_import, draft, self._library)
            elif problem := name_problem(fetched.name):
                self._fail(f"{fetched.name!r} can't be the name of a bundle: {problem}")
                return
            else:
                await asyncio.to_thread(_place, draft, folder / fetched.name)
        except DownloadFailed as failure:
            self._fail(str(failure))
        except (ImageStoreError, UnpackError, ImageMissing) as failure:
            self._fail(f"{record.payload.url} can't be imported: {failure}")
        except OSError as failure:
            self._fail(f"{place}: {failure.strerror or failure}")
        except ValueError as failure:
            self._fail(f"{record.payload.url}: {failure}")
        else:
            self.journal.end(Phase.ENDED, changed=True, result=signals.COMPLETED)
        finally:
            draft.unlink(missing_ok=True)

    def _fail(self, reason: str) -> None:
        log.warning("bundle update failed: %s", reason)
        self.journal.end(Phase.ENDED, changed=False, result=signals.FAILED_DOWNLOAD, reason=reason)


def name_problem(name: str) -> str:
    """Why a file in the folder can't have this name; empty if it can.

    >>> name_problem("../x")
    'it is empty, or begins with a dot'
    """
    if not name.isprintable():
        return "it has a character that file names must not have"
    if not name or name.startswith("."):
        return "it is empty, or begins with a dot"
    if not _NAME.fullmatch(name):
        return "it has a character that file names must not have"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        return f"it is longer than {_LONGEST_NAME} bytes"
    return ""


def _import(bundle: Path, library: ImageStore) -> None:
    for name, record in import_bundle(bundle, library, replace=True):
        log.info("image %s %s", name, "is there already" if record is None else "was imported")


def _place(draft: Path, target: Path) -> None:
    draft.chmod(0o644)
    draft.replace(target)
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
