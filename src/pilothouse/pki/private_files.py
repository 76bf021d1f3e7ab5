"""Files that hold secrets: written whole or not at all, readable by their owner alone."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path


def private_folder(path: Path) -> Path:
    """The folder, created if missing, accessible to its owner only. Raises ``PermissionError``."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = path.stat().st_uid
    if owner != os.geteuid():
        # Its owner could open it again at any time, and replace what is in it.
        detail = (
            f"it belongs to user {owner}, not to user {os.geteuid()} who runs this; take a folder of your own"
        )
        raise PermissionError(errno.EPERM, detail, str(path))
    path.chmod(0o700)
    return path


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that a reader or a crash sees the old content or the new one."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
