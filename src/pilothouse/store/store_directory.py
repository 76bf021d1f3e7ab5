"""A store's folder: one owner at a time, one format, readable by its owner only.

    folder = StoreDirectory.claim(Path("data/store"))     # 0700; `lock` is held, `format` says 1
    ...
    folder.release()

The lock is flock's, so it ends with the process; the pid in the file is informational. An older program
refuses a folder with a newer format number before it touches anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from pilothouse.store.interface import StoreError

FORMAT = 1


class StoreDirectoryInUse(StoreError):
    """Another process owns the folder."""


class FormatTooNew(StoreError):
    """The folder was written by a newer program."""


class StoreDirectory:
    """A folder that this process owns until ``release``."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, path: Path) -> StoreDirectory:
        """Create the folder if missing, and lock it. Raises ``StoreDirectoryInUse`` or ``FormatTooNew``."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                pid = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
                raise StoreDirectoryInUse(
                    f"{path} is in use by the process with pid {pid}; "
                    "a store has one owner: stop that process, or choose another folder"
                ) from error
            # Only to be shown: a full disk is no reason not to start.
            with contextlib.suppress(OSError):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            _check_format(path / "format")
        except BaseException:
            os.close(lock)
            raise
        return cls(path, lock)

    def private_file(self, name: str) -> Path:
        """The path of a file of the folder, made (0600) if it is not there."""
        path = self.path / name
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self.sync()
        return path

    def sync(self) -> None:
        """Make the folder's own entries durable."""
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def release(self) -> None:
        # A failed disk must not prevent a shutdown.
        with contextlib.suppress(OSError):
            os.ftruncate(self._lock, 0)
        os.close(self._lock)


def _check_format(file: Path) -> None:
    if not file.exists():
        unfinished = file.with_name("format.new")
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(handle, f"{FORMAT}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        unfinished.rename(file)
        return
    text = file.read_text(errors="replace").strip()
    if not text.isdecimal():
        raise StoreError(f"{file} should hold the format's number, such as {FORMAT}, but holds {text[:40]!r}")
    if int(text) > FORMAT:
        raise FormatTooNew(
            f"{file.parent} has format {text}, and this program knows formats up to {FORMAT}: "
            "it was written by a newer version; use that version, or another folder"
        )
