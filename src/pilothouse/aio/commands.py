"""Runs programs to their end; kills one that takes longer than ``patience`` or whose caller is cancelled.

await run("mkfs.xfs", "-q", str(file), patience=60)     # its output; raises CommandError with its errors
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from typing import Final

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LONGEST_MESSAGE: Final = 300


class CommandError(Exception):
    """A program is missing, failed, or did not end in time. ``said`` is its error output."""

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


def available(program: str) -> bool:
    return shutil.which(program, path=_PATH) is not None


async def run(
    program: str,
    *arguments: str,
    patience: float = 60.0,
    environ: Mapping[str, str] | None = None,
    given: bytes = b"",
) -> str:
    """Return the output; ``given`` is the input. Raises CommandError."""
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise CommandError(f"{program} is not installed on this node")
    try:
        process = await asyncio.create_subprocess_exec(
            found,
            *arguments,
            stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ or {"PATH": _PATH, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
        )
    except OSError as problem:
        raise CommandError(f"{program} can't be run: {problem}") from None
    try:
        async with asyncio.timeout(patience):
            out, complaints = await process.communicate(given or None)
    except TimeoutError:
        raise CommandError(f"{program} has not ended within {patience:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = (complaints.strip() or out).decode(errors="replace")
        said = " ".join(lines.split())
        raise CommandError(
            f"{program}: {said[-_LONGEST_MESSAGE:] or f'exit code {process.returncode}'}", lines
        )
    return out.decode(errors="replace")
