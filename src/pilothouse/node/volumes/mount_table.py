"""The kernel's mount table: reads it, mounts and unmounts.

    mount("/proc/self/fd/7", folder, flags=BIND)
    unmount(folder)
    under(mounts(), Path("/var/lib/pilothouse"))        # those at or below a folder, the innermost first
    unmount_below(folder)

The caller's own mount namespace is meant. A mount that is refused is an ``OSError`` with the folder in it.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

BIND: Final = 4096
NO_SUID: Final = 2
NO_DEVICES: Final = 4
_LAZY: Final = 2
_NO_FOLLOW: Final = 8
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class MountEntry(msgspec.Struct, frozen=True):
    """One line of the table of mounts."""

    target: Path
    source: str
    kind: str
    root: str


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def unmount(target: Path, *, lazily: bool = False) -> None:
    """Raises OSError. ``lazily``: out of sight at once, though somebody may still have a file open there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(target), _NO_FOLLOW | (_LAZY if lazily else 0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def unmount_below(folder: Path) -> None:
    """Have nothing mounted at or below a folder, though somebody may still have files open there. Raises OSError."""
    for mounted in under(mounts(), folder):
        try:
            unmount(mounted.target, lazily=True)
        except OSError:
            # Somebody else may have been faster.
            if at(mounts(), mounted.target) is not None:
                raise


def mounts() -> list[MountEntry]:
    """All that is mounted, in the order in which it was."""
    return [_parsed(line) for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def under(mounted: Iterable[MountEntry], folder: Path) -> list[MountEntry]:
    """The mounts at or below a folder, the last one first: in the order in which they can be taken away."""
    found = [one for one in mounted if one.target == folder or folder in one.target.parents]
    return found[::-1]


def at(mounted: Iterable[MountEntry], folder: Path) -> MountEntry | None:
    """What is mounted on a folder."""
    return next((one for one in under(mounted, folder) if one.target == folder), None)


def _parsed(line: str) -> MountEntry:
    before, _, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    return MountEntry(Path(plain_path(fields[4])), plain_path(rest[1]), rest[0], plain_path(fields[3]))


def plain_path(text: str) -> str:
    """A path as the kernel's tables have it, without escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
