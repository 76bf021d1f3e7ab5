"""The copy of an image that a node with plugins runs from, on its data volume.

    target = copy_of(image, version, layout.root)      # <root>/home-8.17.0-5f1c0a9be2d74463
    make(image, target)                                # does nothing if it is there
    clear_away(layout.root, keep=target)               # those of images that were there before

Elasticsearch looks for plugins in its own folder alone, and the image's is not ours to write. A copy is named
by what it is a copy of, so that another image, be it of the same version, is copied anew; one that is there
is whole, since it gets its name last.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pilothouse.pilot.driver import HookFailed

_NAME: Final = "home-"
_LENGTH: Final = 16

log = logging.getLogger(__name__)


def copy_of(image: Path, version: str, root: Path) -> Path:
    """Where the copy of an image belongs. Raises ``HookFailed``."""
    try:
        return root / f"{_NAME}{version}-{_identity(image)}"
    except OSError as problem:
        raise HookFailed(f"{image} can't be read, as plugins need it: {problem}") from None


def make(image: Path, target: Path) -> None:
    """Raises ``HookFailed``."""
    if target.exists():
        return
    draft = target.with_name(f"{target.name}.new")
    try:
        try:
            put(image, target, draft)
        except OSError as problem:
            if not _lacks_room(problem):
                raise
            # None of the earlier copies is run any more.
            clear_away(target.parent, keep=None)
            put(image, target, draft)
    except OSError as problem:
        shutil.rmtree(draft, ignore_errors=True)
        raise HookFailed(f"{image} can't be copied to {target}, as plugins need it: {problem}") from None


def put(source: Path, target: Path, draft: Path) -> None:
    """A copy of a folder, there as a whole or not at all; until it is whole it is at ``draft``. Raises
    OSError."""
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft, symlinks=True)
    draft.replace(target)


def clear_away(root: Path, *, keep: Path | None) -> None:
    """Take away all copies but this. One that resists takes up room and does no other harm."""
    try:
        found = list(root.glob(f"{_NAME}*"))
    except OSError as problem:
        log.warning(
            "copies of images that are not used any more can't be looked for in %s: %s", root, problem
        )
        return
    for path in found:
        if path != keep:
            shutil.rmtree(path, onerror=_complain)


def _lacks_room(problem: OSError) -> bool:
    """By its words: that is all that ``copytree`` passes on of what went wrong with a file."""
    return any(f"[Errno {number}]" in str(problem) for number in (errno.ENOSPC, errno.EDQUOT))


def _complain(_: Callable[..., object], path: str, problem: tuple[object, BaseException, object]) -> None:
    log.warning("%s, of an image that is not used any more, can't be removed: %s", path, problem[1])


def _identity(image: Path) -> str:
    """By which one image is told from another: the names, sizes and times of its files. Nothing is read of
    what is in them, and it is the same after the machine was restarted."""
    found = hashlib.sha256()
    for name, size, changed in sorted(_files(image)):
        found.update(f"{name}\0{size}\0{changed}\n".encode(errors="surrogateescape"))
    return found.hexdigest()[:_LENGTH]


def _files(image: Path) -> Iterator[tuple[str, int, int]]:
    waiting = [image]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    stat = entry.stat(follow_symlinks=False)
                    yield os.path.relpath(entry.path, image), stat.st_size, stat.st_mtime_ns
