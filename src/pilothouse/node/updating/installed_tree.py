"""A program that is installed as a tree of files: the current one, the kept one, and the next one.

    files = InstalledTree(Path("/opt/pilothouse"))
    files.download                   # /opt/pilothouse/.payload.update: archives are downloaded there
    await files.stage("v0.2.0", sha256)       # unpacks it; it is the next tree
    await files.keep()               # the current tree is the kept one, too
    await files.swap()               # the next tree is the current one, in one step, and on trial
    await files.confirm()            # it works: the trial ends, older trees are removed

    ROOT/bin/pilothouse              the launcher
    ROOT/versions/v0.2.0-9f86d081884c/{bin,lib,payload.json}
    ROOT/current, kept, next         links to trees

A tree never changes once it has its name. It is unpacked under another one, checked and synced before. Its
``bin/python3`` is the machine's own interpreter, so a tree is a virtual environment that can be moved.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.node.files.directory_handles import (
    DIRECTORY,
    closing_handle,
    make_directories,
    open_beneath,
    open_directory,
    open_regular_beneath,
    opened_beneath,
    remove_tree,
)
from pilothouse.node.images.unpacking import UnpackError, UnpackLimits, unpack
from pilothouse.node.updating import tree_launcher

LIMITS: Final = UnpackLimits(entries=200_000, size=4 << 30)
MANIFEST: Final = "payload.json"
_UMASK: Final = 0o022
"""Whatever an archive says: root runs what is in a tree, so no other user may write there."""
LAUNCHER: Final = tree_launcher.PROGRAM
_RECORD: Final = ".installed.json"
_DRAFT: Final = ".new"
_KEPT: Final = "kept"
_NEXT: Final = "next"
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_~-]{0,99}")
_MOST_OF_MANIFEST: Final = 64 << 10
_LEAN: Final = [b"-I", b"-S"]
"""How shims are started, which have all of their code in memory."""

log = logging.getLogger(__name__)


class PayloadManifest(msgspec.Struct, frozen=True):
    """What a payload says of itself, in ``payload.json``."""

    version: str
    python: str
    """The Python that its libraries are built for: 3.11."""


class _Record(msgspec.Struct, frozen=True):
    sha256: str
    """Of the archive that the tree was unpacked from."""


class InstalledTree:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._versions = root / tree_launcher.VERSIONS
        self.path = root / tree_launcher.CURRENT
        self.kept = root / _KEPT
        self.next = root / _NEXT
        self.download = root / ".payload.update"

    def current(self) -> Path | None:
        """The tree that is started next; None if there is none."""
        name = self._linked(tree_launcher.CURRENT)
        return self._versions / name if name else None

    async def digest(self) -> str:
        """SHA-256 of the archive that the current tree is from; empty if there is none."""
        return await asyncio.to_thread(self._digest, tree_launcher.CURRENT)

    async def kept_digest(self) -> str:
        return await asyncio.to_thread(self._digest, _KEPT)

    async def next_digest(self) -> str:
        return await asyncio.to_thread(self._digest, _NEXT)

    async def stage(self, version: str, sha256: str, /) -> None:
        """Unpack the downloaded archive: it is the next tree. Its name has the version, or that which it says
        itself. Raises UnpackError and OSError."""
        await asyncio.to_thread(self._stage, version, sha256)

    async def keep(self) -> str:
        """Keep the current tree; returns its digest. Raises OSError."""
        return await asyncio.to_thread(self._keep)

    async def swap(self) -> None:
        """Make the next tree the current one, on trial unless it is the kept one. Raises OSError."""
        await asyncio.to_thread(self._swap)

    async def stage_kept(self) -> None:
        """Make the kept tree the next one. Raises OSError."""
        await asyncio.to_thread(self._link, _NEXT, self._existing(_KEPT))

    async def restore(self) -> None:
        """Make the kept tree the current one. Raises OSError."""
        await asyncio.to_thread(self._restore)

    async def confirm(self) -> None:
        """The current tree works: its trial is over. Raises OSError."""
        await asyncio.to_thread(self._confirm)

    def given_up(self, digest: str) -> str:
        """Why the launcher has returned from the tree with a digest; empty if it has not."""
        tree, why = tree_launcher.given_up(str(self._root))
        return why if tree and self.digest_of(self._versions / tree) == digest else ""

    async def discard_next(self) -> None:
        """Remove what was downloaded, and the trees that are no longer used. Raises OSError."""
        await asyncio.to_thread(self._discard_next)

    def _discard_next(self) -> None:
        for leftover in (self.next, self.download):
            leftover.unlink(missing_ok=True)
        self._prune()

    def digest_of(self, tree: Path) -> str:
        """SHA-256 of the archive that a tree is from; its name if that is not on record."""
        try:
            with open_directory(tree) as handle, open_regular_beneath(handle, _RECORD) as file:
                return msgspec.json.decode(file.read(_MOST_OF_MANIFEST), type=_Record).sha256
        except (FileNotFoundError, msgspec.DecodeError):
            return f"of {tree.name}" if tree.is_dir() else ""

    def _digest(self, link: str) -> str:
        name = self._linked(link)
        return self.digest_of(self._versions / name) if name else ""

    def _linked(self, link: str) -> str:
        return tree_launcher.linked(str(self._root), link)

    def _existing(self, link: str) -> str:
        name = self._linked(link)
        if not name or not (self._versions / name).is_dir():
            raise FileNotFoundError(2, "it leads to no version", str(self._root / link))
        return name

    def _link(self, link: str, tree: str) -> None:
        tree_launcher.link(str(self._root), link, tree)

    def _stage(self, version: str, sha256: str) -> None:
        self._versions.mkdir(mode=0o755, exist_ok=True)
        with open_directory(self._versions) as versions:
            remove_tree(versions, _DRAFT)
            try:
                name = _tree_name(version or self._unpack(versions, sha256), sha256)
                if self.digest_of(self._versions / name) != sha256:
                    if version:
                        self._unpack(versions, sha256)
                    remove_tree(versions, name)
                    os.rename(_DRAFT, name, src_dir_fd=versions, dst_dir_fd=versions)
            finally:
                remove_tree(versions, _DRAFT)
            os.fsync(versions)
        self._link(_NEXT, name)

    def _unpack(self, versions: int, sha256: str) -> str:
        """The version that the archive says it has."""
        os.mkdir(_DRAFT, 0o755, dir_fd=versions)
        unpack(self.download, self._versions / _DRAFT, LIMITS, umask=_UMASK)
        with opened_beneath(versions, _DRAFT, DIRECTORY) as tree:
            manifest = _checked(tree)
            _make_environment(tree)
            _write(tree, _RECORD, msgspec.json.encode(_Record(sha256)))
        _sync_filesystem(versions)
        return manifest.version

    def _keep(self) -> str:
        name = self._existing(tree_launcher.CURRENT)
        self._link(_KEPT, name)
        return self.digest_of(self._versions / name)

    def _swap(self) -> None:
        name, back = self._existing(_NEXT), self._linked(_KEPT)
        if back and back != name:
            tree_launcher.begin_trial(str(self._root), name, back)
        else:
            tree_launcher.end_trial(str(self._root))
        self._link(tree_launcher.CURRENT, name)

    def _restore(self) -> None:
        name = self._existing(_KEPT)
        tree_launcher.end_trial(str(self._root))
        self._link(tree_launcher.CURRENT, name)

    def _confirm(self) -> None:
        tree_launcher.end_trial(str(self._root))
        self._discard_next()

    def _prune(self) -> None:
        """Remove the trees that are not linked, and that no process runs from."""
        linked = {self._linked(each) for each in (tree_launcher.CURRENT, _KEPT, _NEXT)}
        if not self._versions.is_dir():
            return
        with open_directory(self._versions) as versions:
            for name in set(os.listdir(versions)) - linked - _used(self._versions):
                log.info("the version %s is removed", name)
                remove_tree(versions, name)


def install_launcher(root: Path) -> Path:
    """Install the launcher, as a file of its own that needs no version to work. Raises OSError."""
    source = Path(tree_launcher.__file__).read_text()
    with open_directory(root) as top, closing_handle(make_directories(top, ["bin"], 0o755)) as programs:
        _write(programs, "pilothouse", f"#!{_interpreter()} -IS\n{source}".encode(), 0o755)
    return root / LAUNCHER


def _tree_name(version: str, sha256: str) -> str:
    """The name of a tree; those of two archives differ, though both say that they are the same version."""
    if not _VERSION.fullmatch(version):
        raise UnpackError(f"{version!r} can't be the name of a folder")
    return f"{version}-{sha256[:12]}"


def _checked(tree: int) -> PayloadManifest:
    """Raises UnpackError if the tree is none of ours, or can't run on this machine."""
    try:
        with open_regular_beneath(tree, MANIFEST) as file:
            manifest = msgspec.json.decode(file.read(_MOST_OF_MANIFEST), type=PayloadManifest)
        with open_regular_beneath(tree, tree_launcher.PROGRAM) as file:
            executable = os.fstat(file.fileno()).st_mode & stat.S_IXUSR
    except (OSError, msgspec.DecodeError) as problem:
        raise UnpackError(f"it is no payload as `make payload` makes it: {problem}") from None
    if not executable:
        raise UnpackError(f"its {tree_launcher.PROGRAM} can't be executed")
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if manifest.python != ours:
        raise UnpackError(f"it needs Python {manifest.python}; this machine has Python {ours}")
    return manifest


def _make_environment(tree: int) -> None:
    """Make the tree a virtual environment of the interpreter that runs us."""
    python = _interpreter()
    text = f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n"
    _write(tree, "pyvenv.cfg", text.encode())
    with opened_beneath(tree, "bin", DIRECTORY) as programs:
        for name in ("python3", "python"):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=programs)
            os.symlink(python, name, dir_fd=programs)


def _interpreter() -> str:
    """The machine's interpreter, and not that of a version."""
    return os.path.realpath(sys.executable)


def _write(folder: int, name: str, content: bytes, mode: int = 0o644) -> None:
    """Replace a file in one step."""
    draft = f".{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    with os.fdopen(open_beneath(folder, draft, flags, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def _sync_filesystem(handle: int) -> None:
    """Bring all files of a filesystem to disk: thousands one by one would take minutes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(handle) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _used(versions: Path) -> set[str]:
    """The trees from which processes run: those of pilots in pods outlive an update."""
    above = os.fsencode(versions) + b"/"
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with suppress(OSError):
            program, *arguments = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            if program.startswith(above) and arguments[:2] != _LEAN:
                found.add(os.fsdecode(program.removeprefix(above).split(b"/")[0]))
    return found
