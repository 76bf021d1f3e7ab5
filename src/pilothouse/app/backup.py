"""Saves a backup of a running server to a file.

    saved = save(access, Path("pilothouse.backup"))

The file appears under its name only when it is complete, on disk, and has been read back from there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pilothouse.client.access import Access
from pilothouse.client.single_request import send_request
from pilothouse.store.backup_file import BackupError, BackupReader, Header

_PATH = "/pilothouse/v1/backup"
_PATIENCE = 60.0


@dataclass(frozen=True)
class SavedBackup:
    header: Header
    entries: int
    size: int


def save(access: Access, file: Path) -> SavedBackup:
    """Write a backup to a file that must not exist. Raises ``BackupError``, ``AskError`` or ``OSError``."""
    if file.exists():
        raise BackupError(f"{file} exists; a backup is written to a new file")
    unfinished = file.with_name(f".{file.name}.{os.getpid()}.unfinished")
    try:
        with send_request(access, _PATH, {}, agent="pilothouse-backup", patience=_PATIENCE) as answer:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as output:
                for piece in answer.pieces():
                    output.write(piece)
                output.flush()
                os.fsync(output.fileno())
        saved = check(unfinished, name=str(file))
        # A link, unlike a rename, never replaces a file that was created meanwhile.
        os.link(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync(file.parent)
    return saved


def check(file: Path, *, name: str = "") -> SavedBackup:
    """Read a whole backup. Raises ``BackupError`` with the position of the problem."""
    with file.open("rb") as content:
        reader = BackupReader(content, name or str(file))
        for _ in reader:
            pass
        return SavedBackup(reader.header, reader.entries, content.tell())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
