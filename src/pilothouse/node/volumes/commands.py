"""Programs of the machine, run to their end.

await run("mkfs.xfs", "-q", str(file), patience=60)     # what it printed, or CommandError with what it complained of
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Final

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TOLD: Final = 300


class CommandError(Exception):
    """A program that is not there, failed, or did not end in time."""


def available(program: str) -> bool:
    return shutil.which(program, path=_PATH) is not None


async def run(program: str, *arguments: str, patience: float = 60.0) -> str:
    """What it printed. Raises CommandError."""
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise CommandError(f"{program} is not installed on this node")
    process = await asyncio.create_subprocess_exec(
        found,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": _PATH, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
    )
    try:
        async with asyncio.timeout(patience):
            out, complaints = await process.communicate()
    except TimeoutError:
        raise CommandError(f"{program} has not ended within {patience:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = " ".join(complaints.decode(errors="replace").split()) or f"exit code {process.returncode}"
        raise CommandError(f"{program}: {said[-_TOLD:]}")
    return out.decode(errors="replace")
