"""Creates the folder of an SQLite store from a backup.

    fill_folder(Path("data/store"), entries, base=51234, ...)

Revisions are far above ``base``, without history.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pilothouse.store.backup_file import Saved
from pilothouse.store.restore import Lifetime, NotEmpty, in_groups
from pilothouse.store.revision_log import RevisionLog, Row
from pilothouse.store.revision_offset import RESTORE_LEAP
from pilothouse.store.sqlite import FILE
from pilothouse.store.store_directory import StoreDirectory

_ROWS = 512
"""Rows of one transaction."""


def fill_folder(folder: Path, entries: Iterable[Saved], *, base: int, lifetime: Lifetime, now: float) -> int:
    """Make the store; how many keys are in it. Blocks. Raises ``NotEmpty``."""
    if (folder / FILE).exists():
        raise NotEmpty(f"{folder} holds a store already; a backup is restored into a new one")
    claimed = StoreDirectory.claim(folder)
    try:
        log = RevisionLog(claimed.private_file(FILE))
        try:
            return _fill(log, entries, base + RESTORE_LEAP, lifetime, now)
        finally:
            log.close()
    finally:
        claimed.release()


def _fill(log: RevisionLog, entries: Iterable[Saved], first: int, lifetime: Lifetime, now: float) -> int:
    revision = first
    for group in in_groups(entries, _ROWS):
        rows = []
        for saved in group:
            revision += 1
            seconds = lifetime(saved)
            expiry = now + seconds if seconds > 0 else None
            rows.append(Row(revision, saved.key, saved.value, revision, 0, expiry))
        log.append(rows)
    # Nobody has watched these being written.
    log.compact(revision)
    return revision - first
