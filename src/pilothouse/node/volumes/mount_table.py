"""The mount table of the caller's mount namespace: reads it, mounts and unmounts.

mount("/proc/self/fd/7", folder, flags=BIND)
unmount(folder)
under(mounts(), Path("/var/lib/pilothouse"))        # those at or below a directory, the innermost first
unmount_below(folder)
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
_libc = ctypes.CDLL(None, use_errno=True)


class MountEntry(msgspec.Struct, frozen=True):
    target: Path
    source: str
    kind: str
    root: str


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Raises OSError."""
    names = os.fsencode(source), os.fsencode(target), kind.encode() or None
    if _libc.mount(*names, ctypes.c_ulong(flags), options.encode() or None) != 0:
        raise _error(target)


def unmount(target: Path, *, lazily: bool = False) -> None:
    """Raises OSError. ``lazily``: detach at once, even while files are open there."""
    if _libc.umount2(os.fsencode(target), _NO_FOLLOW | (_LAZY if lazily else 0)) != 0:
        raise _error(target)


def _error(target: Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(target))


def unmount_below(folder: Path) -> None:
    """Unmount all at or below a directory, even while files are open there. Raises OSError."""
    for mounted in under(mounts(), folder):
        try:
            unmount(mounted.target, lazily=True)
        except OSError:
            # Another process may have unmounted it.
            if at(mounts(), mounted.target) is not None:
                raise


def mounts() -> list[MountEntry]:
    """All mounts, in mount order."""
    return [_parsed(line) for line in mount_lines(Path("/proc/self/mountinfo"))]


def mount_lines(table: Path) -> list[str]:
    """The lines of a ``mountinfo``. Raises OSError.

    Pods, and users of the machine, choose names in it, of any bytes: the kernel escapes no line break but
    ``\\n``, and what is mounted has its present name, whatever that was when it was mounted.
    """
    return [line for line in os.fsdecode(table.read_bytes()).split("\n") if line]


def under(mounted: Iterable[MountEntry], folder: Path) -> list[MountEntry]:
    """The mounts at or below a directory, the last one first, as they can be unmounted."""
    found = [one for one in mounted if one.target == folder or folder in one.target.parents]
    return found[::-1]


def at(mounted: Iterable[MountEntry], folder: Path) -> MountEntry | None:
    """The topmost mount at a directory."""
    return next((one for one in under(mounted, folder) if one.target == folder), None)


def _parsed(line: str) -> MountEntry:
    before, _, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    return MountEntry(Path(plain_path(fields[4])), plain_path(rest[1]), rest[0], plain_path(fields[3]))


def plain_path(text: str) -> str:
    """A path of the kernel's tables, without escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
