"""Moves a mounted btrfs to another device, by ``btrfs replace``.

    await start("/dev/loop1", "/dev/loop2", mounted)
    (await progress(mounted)).percent       # 42.1

The kernel copies in the background, and goes on when the filesystem is mounted again. Until it is finished
the first device has everything; then it is not btrfs' any more.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.aio.commands import CommandError, run

_PERCENT: Final = re.compile(r"([\d.]+)%")
_ERRORS: Final = re.compile(r"(\d+) write errs")
_NOT_NOW: Final = ("another exclusive operation", "is mounted")
_HARDLY_USED: Final = 50
"""Percent of a block group."""
_GROUPS: Final = 4
"""How many block groups of data, and of metadata, are emptied at a time."""


class ReplaceProgress(msgspec.Struct, frozen=True):
    is_running: bool
    """Whether one is under way, be it suspended."""
    percent: float = 0.0
    errors: int = 0
    """Blocks that were not written."""


async def start(source: str, target: str, mounted: Path) -> None:
    """Start it, unless an earlier one is at work or over, or a balance is at work. Returns before the kernel
    has opened the target. Raises CommandError."""
    try:
        await run("btrfs", "replace", "start", "-f", source, target, str(mounted))
    except CommandError as problem:
        if not any(each in problem.said for each in _NOT_NOW):
            raise


async def make_room(mounted: Path) -> None:
    """Empty a few block groups that are hardly used. Raises CommandError, also if there is no room for it."""
    filters = f"usage={_HARDLY_USED},limit={_GROUPS}"
    await run("btrfs", "balance", "start", f"-d{filters}", f"-m{filters}", str(mounted))


async def cancel(mounted: Path) -> None:
    """Raises CommandError."""
    await run("btrfs", "replace", "cancel", str(mounted))


async def progress(mounted: Path) -> ReplaceProgress:
    """Raises CommandError."""
    return parse(await run("btrfs", "replace", "status", "-1", str(mounted)))


def parse(text: str) -> ReplaceProgress:
    """The progress in what ``btrfs replace status -1`` prints.

    >>> parse("37.5% done, 0 write errs, 0 uncorr. read errs")
    ReplaceProgress(is_running=True, percent=37.5, errors=0)
    >>> parse("Started on 18.Nov 16:00:00, finished on 18.Nov 16:00:07, 0 write errs, 0 uncorr. read errs")
    ReplaceProgress(is_running=False, percent=0.0, errors=0)
    """
    if "% done" not in text and "suspended" not in text:
        return ReplaceProgress(False)
    percent, errors = _PERCENT.search(text), _ERRORS.search(text)
    return ReplaceProgress(True, float(percent[1]) if percent else 0.0, int(errors[1]) if errors else 0)
