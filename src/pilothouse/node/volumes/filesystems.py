"""Filesystems in files: the supported types, their smallest sizes, how they are made and grown while mounted.

    chosen("", 320 << 20, has=available)        # XFS, or another one that is installed and can be so small
    await XFS.make(file), await XFS.grow(mounted, device)

XFS and btrfs grow online with the right to mount; ext4 needs CAP_SYS_RESOURCE. Unless a class has ``fsType``,
the first one that is installed and can be as small as the claim is chosen, in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from pilothouse.aio.commands import available, run

_MI: Final = 1 << 20


class FilesystemError(Exception):
    """No filesystem is possible; the message says what to do."""


class Filesystem(msgspec.Struct, frozen=True):
    name: str
    smallest: int
    package: str
    maker: tuple[str, ...]
    """The command that makes it, followed by the file."""
    grower: tuple[str, ...]
    """The command that grows it to its device, followed by the mount point or the device."""
    grows_by_device: bool = False
    grows_tail: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        return self.maker[0], self.grower[0]

    async def make(self, file: str) -> None:
        """Raises CommandError."""
        await run(*self.maker, file, patience=300)

    async def grow(self, mounted: str, device: str) -> None:
        """Grow it to the size of its device. Raises CommandError."""
        await run(*self.grower, *self.grows_tail, device if self.grows_by_device else mounted, patience=300)


XFS: Final = Filesystem("xfs", 300 * _MI, "xfsprogs", ("mkfs.xfs", "-q", "-f"), ("xfs_growfs",))
BTRFS: Final = Filesystem(
    "btrfs",
    110 * _MI,
    "btrfs-progs",
    ("mkfs.btrfs", "-q", "-f"),
    ("btrfs", "filesystem", "resize"),
    grows_tail=("max",),
)
EXT4: Final = Filesystem(
    "ext4", 4 * _MI, "e2fsprogs", ("mkfs.ext4", "-q", "-F", "-m", "0"), ("resize2fs",), grows_by_device=True
)
KNOWN: Final = {one.name: one for one in (XFS, BTRFS, EXT4)}


def chosen(asked: str, size: int, *, has: Callable[[str], bool] = available) -> Filesystem:
    """The filesystem for a volume of this size in bytes. Raises FilesystemError."""
    if asked:
        found = KNOWN.get(asked)
        if found is None:
            raise FilesystemError(f"the class asks for fsType {asked!r}; there are {', '.join(KNOWN)}")
        if lacking := [program for program in found.programs if not has(program)]:
            raise FilesystemError(f"fsType {asked} needs {lacking[0]} on the node: install {found.package}")
        if size < found.smallest:
            raise FilesystemError(
                f"{asked} needs {found.smallest // _MI}Mi at least, and {size // _MI}Mi are asked for: "
                "ask for more, or use a class of another fsType"
            )
        return found
    installed = [one for one in KNOWN.values() if all(map(has, one.programs))]
    for one in installed:
        if size >= one.smallest:
            return one
    packages = " or ".join(one.package for one in KNOWN.values() if one.smallest <= size)
    if not packages:
        least = f"ask for {EXT4.smallest // _MI}Mi at least"
        raise FilesystemError(f"{size} bytes are too few for any filesystem: {least}")
    raise FilesystemError(f"no filesystem of {size // _MI}Mi can be made on the node: install {packages}")
