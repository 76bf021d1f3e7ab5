"""The copy of an image that a node with plugins runs from, on its data volume.

    target = copy_of(image, version, layout.root)      # <root>/home-8.17.0-5f1c0a9be2d74463
    make(image, target)                                # does nothing if it exists
    clear_away(layout.root, keep=target)               # copies of earlier images

Elasticsearch looks for plugins in its own folder alone, and the image's is not ours to write. A copy is named
by the identity of its image, so that another image of the same version is copied too. It gets its name last:
one that exists is complete.
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
            # None of the earlier copies runs any more.
            clear_away(target.parent, keep=None)
            put(image, target, draft)
    except OSError as problem:
        shutil.rmtree(draft, ignore_errors=True)
        raise HookFailed(f"{image} can't be copied to {target}, as plugins need it: {problem}") from None


def put(source: Path, target: Path, draft: Path) -> None:
    """Copy a folder atomically; until it is complete it is at ``draft``. Raises OSError."""
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft, symlinks=True)
    draft.replace(target)


def clear_away(root: Path, *, keep: Path | None) -> None:
    """Remove all copies but this; one that can't be removed is only logged."""
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
    """By the text: ``copytree`` reports nothing else of a file's error."""
    return any(f"[Errno {number}]" in str(problem) for number in (errno.ENOSPC, errno.EDQUOT))


def _complain(_: Callable[..., object], path: str, problem: tuple[object, BaseException, object]) -> None:
    log.warning("%s, of an image that is not used any more, can't be removed: %s", path, problem[1])


def _identity(image: Path) -> str:
    """A digest of the names, sizes and times of its files; the same after a restart of the machine."""
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
