"""The files of a program that is updated: the installed one, the kept one, and the next one.

    files = InstalledProgram(Path("/usr/local/bin/k0s"))
    files.next                       # /usr/local/bin/.k0s.update: downloads go there
    await files.keep()               # copies the installed file to .k0s.kept
    await files.swap()               # the next file replaces the installed one, in one step
    await files.restore()            # the kept file replaces it

All files are in the folder of the program, so that each replacement is one rename. The kept file is a copy:
nothing that writes to the program's path can change it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

_BUSY_TRIES: Final = 50
_BUSY_PAUSE: Final = 0.02
_PATH: Final = "{path}"


class NotExecutable(Exception):
    """The machine can't run the file; the message says why."""


class ProgramFiles(Protocol):
    """What is installed of a program: one file, or a tree of files."""

    @property
    def path(self) -> Path: ...
    @property
    def kept(self) -> Path: ...
    @property
    def next(self) -> Path: ...
    @property
    def download(self) -> Path: ...
    async def digest(self) -> str: ...
    async def kept_digest(self) -> str: ...
    async def next_digest(self) -> str: ...
    async def stage(self, version: str, sha256: str, /) -> None:
        """Make what was downloaded ready to be installed. Raises NotExecutable, UnpackError, OSError."""

    async def keep(self) -> str: ...
    async def swap(self) -> None: ...
    async def stage_kept(self) -> None: ...
    async def restore(self) -> None: ...
    async def confirm(self) -> None:
        """What was installed works. Raises OSError."""

    def given_up(self, digest: str, /) -> str:
        """Why the machine has returned from what was installed without its agent; empty if it has not."""

    async def discard_next(self) -> None: ...


class InstalledProgram:
    def __init__(self, path: Path, version_command: Sequence[str] = ()) -> None:
        """``version_command`` asks a program for its version; ``{path}`` in it is that of the program."""
        self._version_command = version_command
        # Beside the file itself, where the path is a link: a rename does not reach into another filesystem.
        self.path = path = path.resolve()
        self.next = self.download = path.with_name(f".{path.name}.update")
        self.kept = path.with_name(f".{path.name}.kept")

    async def digest(self) -> str:
        """SHA-256 of the installed file; empty if there is none."""
        return await asyncio.to_thread(file_digest, self.path)

    async def kept_digest(self) -> str:
        return await asyncio.to_thread(file_digest, self.kept)

    async def next_digest(self) -> str:
        return await asyncio.to_thread(file_digest, self.next)

    async def keep(self) -> str:
        """Copy the installed file; returns the digest of the copy. Raises OSError."""
        return await asyncio.to_thread(self._keep)

    def _keep(self) -> str:
        draft = self.kept.with_name(f"{self.kept.name}.new")
        try:
            shutil.copyfile(self.path, draft)
            draft.chmod(0o755)
            _sync(draft)
            digest = file_digest(draft)
            draft.replace(self.kept)
        finally:
            draft.unlink(missing_ok=True)
        _sync(self.kept.parent)
        return digest

    async def swap(self) -> None:
        """Replace the installed file by the next one. Raises OSError."""
        await asyncio.to_thread(self._swap)

    def _swap(self) -> None:
        self.next.chmod(0o755)
        _sync(self.next)
        self.next.replace(self.path)
        _sync(self.path.parent)

    async def stage_kept(self) -> None:
        """Make the kept file the next one. Raises OSError."""
        await asyncio.to_thread(self._stage_kept)

    def _stage_kept(self) -> None:
        self.next.unlink(missing_ok=True)
        try:
            # A link takes no space: the disk may be full.
            os.link(self.kept, self.next)
        except OSError as problem:
            if problem.errno not in (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EXDEV):
                raise
            shutil.copyfile(self.kept, self.next)

    async def restore(self) -> None:
        """Replace the installed file by the kept one, which stays. Raises OSError."""
        await self.stage_kept()
        await self.swap()

    async def confirm(self) -> None:
        """Do nothing: no trace is left of the update."""

    def given_up(self, _digest: str, /) -> str:
        return ""

    async def stage(self, _version: str, _sha256: str, /) -> None:
        """Start the next file, and end it at once; by the command for its version, if that is one of the
        file itself. Raises NotExecutable and OSError."""
        self.next.chmod(0o755)
        first, *arguments = self._version_command or (_PATH, "version")
        if first != _PATH:
            arguments = ["version"]
        arguments = [word.replace(_PATH, str(self.next)) for word in arguments]
        for attempt in range(_BUSY_TRIES):
            try:
                process = await asyncio.create_subprocess_exec(
                    self.next,
                    *arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
            except OSError as problem:
                if problem.errno == errno.ETXTBSY and attempt < _BUSY_TRIES - 1:
                    # A program that was started while the file was written has it open until its own exec.
                    await asyncio.sleep(_BUSY_PAUSE)
                    continue
                if problem.errno in (errno.ENOEXEC, errno.EACCES, errno.ENOENT, errno.EPERM, errno.ELIBBAD):
                    raise NotExecutable(problem.strerror or str(problem)) from None
                raise
            # It is loaded, which is all that is asked of it before its turn comes.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            return

    async def discard_next(self) -> None:
        self.next.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """SHA-256 of a file; empty if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
