"""Unpacks untrusted archives and directories.

    unpacked = unpack(Path("redis.tar.gz"), target, LIMITS)

An entry is placed below the target or not at all: no absolute paths, no ``..``, no link that leads out, nothing that is neither
file, folder nor link (devices, sockets), no set-user-id bits, nothing that its owner alone may read, nothing through a link that an earlier entry made.
Names are looked up from a handle on the target, and no link is followed on the way. There is a limit to the number of entries and to the
bytes that come out, counted while they come: what an archive says of its sizes is not believed. It is read to its end, where the
checksum is of what was packed: one that was cut off or damaged on the way is not taken for a smaller one. The first thing that is
wrong ends it; whoever called throws the target away.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final, Self

import msgspec

from pilothouse.node.files.directory_handles import (
    ANY,
    DIRECTORY,
    make_directories,
    open_beneath,
    open_directory,
    open_regular_beneath,
)
from pilothouse.node.images.archives import Tar, open_tar, open_zip

_CHUNK: Final = 1 << 20
_LONGEST: Final = 4096
_FAULTS: Final = {
    errno.ENAMETOOLONG: "its name, or what it is a link to, is too long",
    errno.EEXIST: "another entry of the same name comes before it",
    errno.EISDIR: "a folder of the same name comes before it",
}
"""What an entry can be refused for by the system that is the archive's fault."""
_SHOWN: Final = 80
DAMAGED: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
)
"""What Python raises for an archive that is none, is encrypted, or has broken numbers and names."""


class UnpackError(Exception):
    """An archive that is not taken, and why."""


class UnpackLimits(msgspec.Struct, frozen=True):
    """How much may come out of an archive."""

    entries: int = 500_000
    size: int = 64 << 30


class Unpacked(msgspec.Struct, frozen=True):
    """What came out."""

    entries: int
    size: int
    digest: str
    """Of the archive's bytes, or of the folder's names and contents."""


class ArchiveEntry(msgspec.Struct, frozen=True):
    """Something in an archive or a folder."""

    path: str
    kind: str
    """One of folder, file, symlink, hardlink, or what else it is, in words."""
    mode: int = 0o644
    link: str = ""
    content: Callable[[], IO[bytes]] | None = None


def unpack(source: Path, target: Path, limits: UnpackLimits, *, strip: int = 0) -> Unpacked:
    """Have the entries of ``source`` below ``target``, which is an empty folder. ``strip`` leaves out that many leading folders.

    Raises UnpackError; OSError if the disk is full, say.
    """
    with _Taking(target, limits, strip) as taking:
        if source.is_dir():
            digest = hashlib.sha256()
            for entry in folder_entries(source):
                taking.take(_opened(entry), digest)
        else:
            digest = _digest(source)
            try:
                if zipfile.is_zipfile(source):
                    with open_zip(source) as archive:
                        for entry in _zip_entries(archive):
                            taking.take(_opened(entry))
                else:
                    with open_tar(source) as archive_:
                        for entry in tar_entries(archive_):
                            taking.take(_opened(entry))
                        archive_.finish(limits.size)
            except DAMAGED as problem:
                why = str(problem).partition("\n")[0].rstrip(":")
                raise UnpackError(f"{source.name} is not a readable tar or zip archive: {why}") from None
        taking.check_links()
        if not taking.entries:
            raise UnpackError(
                f"{source.name} has no files" + (f" below {strip} leading folders" if strip else "")
            )
        return Unpacked(taking.entries, taking.size, f"sha256:{digest.hexdigest()}")


def unpack_entries(
    entries: Iterable[ArchiveEntry], target: Path, limits: UnpackLimits, *, strip: int
) -> Unpacked:
    """As ``unpack``, with entries of one's own; the digest is that of the folder that comes of them."""
    with _Taking(target, limits, strip) as taking:
        for entry in entries:
            taking.take(entry)
        taking.check_links()
        return Unpacked(taking.entries, taking.size, folder_digest(target))


def folder_digest(folder: Path) -> str:
    """What ``unpack`` says of a folder."""
    digest = hashlib.sha256()
    for entry in folder_entries(folder):
        digest.update(_head(entry, entry.path))
        if entry.content is not None:
            with entry.content() as content:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


class _Taking:
    """Entries on their way to the disk."""

    def __init__(self, target: Path, limits: UnpackLimits, strip: int) -> None:
        self._target = target
        self._limits = limits
        self._strip = strip
        self._top = -1
        self._folder: tuple[tuple[str, ...], int] = ((), -1)
        """Where the last entry went, by its names and its handle: the next one mostly goes there too."""
        self.entries = 0
        self.size = 0

    def __enter__(self) -> Self:
        self._top = os.open(self._target, DIRECTORY)
        self._folder = (), os.dup(self._top)
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._folder[1])
        os.close(self._top)

    def take(self, entry: ArchiveEntry, digest: hashlib._Hash | None = None) -> None:
        self.entries += 1
        if self.entries > self._limits.entries:
            raise UnpackError(f"it has more than {self._limits.entries} entries")
        try:
            if len(entry.path) > _LONGEST or len(entry.link) > _LONGEST:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            parts = self._parts(entry.path, entry)
            if not parts:
                self.entries -= 1
                return
            self._take(parts, entry, digest)
        except OSError as problem:
            if problem.errno not in _FAULTS:
                raise
            name = entry.path if len(entry.path) <= _SHOWN else f"{entry.path[:_SHOWN]}…"
            raise UnpackError(f"{name}: {_FAULTS[problem.errno]}") from None

    def _take(self, parts: tuple[str, ...], entry: ArchiveEntry, digest: hashlib._Hash | None) -> None:
        folder, name = self._above(parts, entry), parts[-1]
        if digest is not None:
            digest.update(_head(entry, "/".join(parts)))
        match entry.kind:
            case "folder":
                self._make_folder(folder, name, entry)
            case "file":
                self._write(folder, name, entry, digest)
            case "symlink":
                _unlink(folder, name)
                os.symlink(entry.link, name, dir_fd=folder)
            case "hardlink":
                self._link(folder, name, entry)
            case other:
                raise UnpackError(f"{entry.path}: is {other}; an image has files, folders and links alone")

    def check_links(self) -> None:
        """No link leads out. Looked at when all of them are there: links through links lead elsewhere than their texts say."""
        top = os.path.realpath(self._target)
        for entry in folder_entries(self._target):
            if entry.kind == "symlink":
                end = os.path.realpath(self._target / entry.path)
                if entry.link.startswith("/") or (end != top and not end.startswith(f"{top}/")):
                    raise UnpackError(
                        f"{entry.path}: is a link to {entry.link}, which leads out of the image"
                    )

    def _parts(self, path: str, entry: ArchiveEntry) -> tuple[str, ...]:
        """The folders and the name of an entry, as far as they are taken."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or "\\" in path or "\0" in path:
            raise UnpackError(f"{entry.path}: is not a relative path")
        if ".." in pure.parts:
            raise UnpackError(f"{entry.path}: leads out of the image by '..'")
        return pure.parts[self._strip :]

    def _above(self, parts: tuple[str, ...], entry: ArchiveEntry) -> int:
        """A handle on the folder that an entry goes into, which is made if it is missing. It is good until the next one is asked for."""
        names = parts[:-1]
        if names != self._folder[0]:
            try:
                handle = make_directories(self._top, names)
            except OSError as problem:
                if problem.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                raise UnpackError(f"{entry.path}: {self._obstacle(names)}") from None
            os.close(self._folder[1])
            self._folder = names, handle
        return self._folder[1]

    def _obstacle(self, names: tuple[str, ...]) -> str:
        """Why there is no folder of these names."""
        for count in range(1, len(names) + 1):
            shown = "/".join(names[:count])
            mode = _mode(self._top, shown)
            if mode is not None and stat.S_ISLNK(mode):
                return f"goes through the link {shown}"
            if mode is not None and not stat.S_ISDIR(mode):
                return f"lies below {shown}, which is not a folder"
        return "lies below something that is not a folder"

    def _make_folder(self, folder: int, name: str, entry: ArchiveEntry) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            mode = _mode(folder, name)
            if mode is not None and stat.S_ISLNK(mode):
                raise UnpackError(
                    f"{entry.path}: is a folder, and a link of the same name comes before it"
                ) from None
            if mode is not None and not stat.S_ISDIR(mode):
                raise
        handle = open_beneath(folder, name, DIRECTORY)
        try:
            os.fchmod(handle, (entry.mode & 0o777) | 0o700)
        finally:
            os.close(handle)

    def _link(self, folder: int, name: str, entry: ArchiveEntry) -> None:
        *above, origin = self._parts(entry.link, entry) or ("",)
        refusal = UnpackError(f"{entry.path}: is a hard link to {entry.link}, which is not a file before it")
        try:
            source = open_beneath(self._top, "/".join(above) or ".", DIRECTORY)
        except OSError:
            raise refusal from None
        try:
            mode = _mode(source, origin) if origin else None
            if mode is None or not stat.S_ISREG(mode):
                raise refusal
            mode = _mode(folder, name)
            if mode is not None and stat.S_ISLNK(mode):
                _unlink(folder, name)
            os.link(origin, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(source)

    def _write(self, folder: int, name: str, entry: ArchiveEntry, digest: hashlib._Hash | None) -> None:
        assert entry.content is not None
        _unlink(folder, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name, flags, 0o600, dir_fd=folder)
        with os.fdopen(handle, "wb") as out, entry.content() as source:
            while chunk := source.read(_CHUNK):
                self.size += len(chunk)
                if self.size > self._limits.size:
                    raise UnpackError(f"it unpacks to more than {self._limits.size} bytes")
                if digest is not None:
                    digest.update(chunk)
                out.write(chunk)
            os.fchmod(out.fileno(), (entry.mode & 0o777) | 0o400)


def _unlink(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _mode(folder: int, name: str) -> int | None:
    """Of what has this name, a link itself included; None if there is nothing."""
    try:
        handle = open_beneath(folder, name, ANY)
    except OSError:
        return None
    try:
        return os.fstat(handle).st_mode
    finally:
        os.close(handle)


def _opened(entry: ArchiveEntry) -> ArchiveEntry:
    """Whatever its owner may read and enter, everybody may: there is no telling as whom a container runs."""
    own = entry.mode & 0o500
    return msgspec.structs.replace(entry, mode=entry.mode | own >> 3 | own >> 6)


def _head(entry: ArchiveEntry, path: str) -> bytes:
    """What goes into a digest ahead of the content."""
    head = f"{entry.kind}\0{path}\0{entry.link}\0{entry.mode & 0o777:o}\0"
    return head.encode(errors="surrogateescape")  # Names on disks are bytes, not always of a text.


def tar_entries(archive: Tar) -> Iterator[ArchiveEntry]:
    """Each is to be taken before the next is asked for."""
    for member in archive.members():
        if member.isdir():
            yield ArchiveEntry(member.name, "folder", member.mode)
        elif member.isfile():
            yield ArchiveEntry(member.name, "file", member.mode, content=partial(archive.extract, member))
        elif member.issym():
            yield ArchiveEntry(member.name, "symlink", link=member.linkname)
        elif member.islnk():
            yield ArchiveEntry(member.name, "hardlink", link=member.linkname)
        else:
            yield ArchiveEntry(member.name, "a device or pipe")


def _zip_entries(archive: zipfile.ZipFile) -> Iterator[ArchiveEntry]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        if info.is_dir():
            yield ArchiveEntry(info.filename, "folder", stat.S_IMODE(mode) or 0o755)
        elif stat.S_ISLNK(mode):
            if info.file_size > 4096:
                raise UnpackError(f"{info.filename}: is a link of {info.file_size} bytes")
            yield ArchiveEntry(
                info.filename, "symlink", link=archive.read(info).decode(errors="surrogateescape")
            )
        else:
            # Archives made on other systems know no modes: then scripts must be runnable all the same.
            yield ArchiveEntry(
                info.filename,
                "file",
                stat.S_IMODE(mode) or 0o755,
                content=partial(archive.open, info),
            )


def folder_entries(source: Path) -> Iterator[ArchiveEntry]:
    """In an order that depends on names alone, so that the same folder has the same digest. Raises OSError.

    Others may write the folder meanwhile: what is read is what was listed, and in no case what a link leads to.
    """
    with open_directory(source, follow=True) as top:
        waiting = [""]
        while waiting:
            above = waiting.pop()
            folders: list[str] = []
            for name in _listed(top, above, source):
                path = f"{above}/{name}" if above else name
                mode = _mode(top, path)
                if mode is None:
                    continue
                if stat.S_ISLNK(mode):
                    yield ArchiveEntry(path, "symlink", link=_target(top, path))
                elif stat.S_ISDIR(mode):
                    folders.append(path)
                    yield ArchiveEntry(path, "folder", stat.S_IMODE(mode))
                elif stat.S_ISREG(mode):
                    content = partial(open_regular_beneath, top, path)
                    yield ArchiveEntry(path, "file", stat.S_IMODE(mode), content=content)
                else:
                    yield ArchiveEntry(path, "a device, pipe or socket")
            waiting.extend(reversed(folders))


def _listed(top: int, path: str, source: Path) -> list[str]:
    try:
        handle = open_beneath(top, path or ".", DIRECTORY)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, str(source / path)) from None
    try:
        return sorted(os.listdir(handle))
    finally:
        os.close(handle)


def _target(top: int, path: str) -> str:
    handle = open_beneath(top, path, ANY)
    try:
        return os.readlink("", dir_fd=handle)
    finally:
        os.close(handle)


def _digest(file: Path) -> hashlib._Hash:
    found = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            found.update(chunk)
    return found
