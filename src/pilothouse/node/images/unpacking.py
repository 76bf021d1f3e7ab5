"""Unpacks untrusted archives and directories.

    unpacked = unpack(Path("redis.tar.gz"), target, LIMITS)

An entry is written below the target or not at all: no absolute paths, no ``..``, no links that lead out, no
devices or sockets, no set-user-id bits, nothing through a link of an earlier entry. Names are opened from a
handle on the target without following links. Entries and bytes are counted while they are written; sizes in
headers are not trusted. An archive is read to its end, so that its checksum is verified. The first error ends
it; the caller removes the target.
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
    closing_handle,
    make_directories,
    open_beneath,
    open_directory,
    open_regular_beneath,
    opened_beneath,
)
from pilothouse.node.images.archives import Tar, open_tar, open_zip

_CHUNK: Final = 1 << 20
_LONGEST: Final = 4096
_FAULTS: Final = {
    errno.ENAMETOOLONG: "its name, or what it is a link to, is too long",
    errno.EEXIST: "another entry of the same name comes before it",
    errno.EISDIR: "a folder of the same name comes before it",
}
"""Errors of the system that are the archive's fault."""
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
"""What Python raises for a file that is no archive, is encrypted, or has invalid numbers and names."""


class UnpackError(Exception):
    """The archive is refused; the message says why."""


class UnpackLimits(msgspec.Struct, frozen=True):
    entries: int = 500_000
    size: int = 64 << 30


class Unpacked(msgspec.Struct, frozen=True):
    entries: int
    size: int
    digest: str
    """Of the archive's bytes, or of the directory's names and contents."""


class ArchiveEntry(msgspec.Struct, frozen=True):
    path: str
    kind: str
    """folder, file, symlink, hardlink; or what else it is, for messages."""
    mode: int = 0o644
    link: str = ""
    content: Callable[[], IO[bytes]] | None = None


def unpack(source: Path, target: Path, limits: UnpackLimits, *, strip: int = 0, umask: int = 0) -> Unpacked:
    """Write the entries of ``source`` below ``target``, an empty directory. ``strip`` drops that many leading
    directories; no entry gets the mode bits of ``umask``. Raises UnpackError and OSError."""
    with _Unpacker(target, limits, strip) as unpacker:
        if source.is_dir():
            digest = hashlib.sha256()
            for entry in folder_entries(source):
                unpacker.add(_world_readable(entry, umask), digest)
        else:
            with source.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256")
            try:
                if zipfile.is_zipfile(source):
                    with open_zip(source) as archive:
                        for entry in _zip_entries(archive):
                            unpacker.add(_world_readable(entry, umask))
                else:
                    with open_tar(source) as archive_:
                        for entry in tar_entries(archive_):
                            unpacker.add(_world_readable(entry, umask))
                        archive_.finish(limits.size)
            except DAMAGED as problem:
                why = str(problem).partition("\n")[0].rstrip(":")
                raise UnpackError(f"{source.name} is not a readable tar or zip archive: {why}") from None
        unpacker.check_links()
        if not unpacker.entries:
            below = f" below {strip} leading folders" if strip else ""
            raise UnpackError(f"{source.name} has no files{below}")
        return Unpacked(unpacker.entries, unpacker.size, f"sha256:{digest.hexdigest()}")


def unpack_entries(
    entries: Iterable[ArchiveEntry], target: Path, limits: UnpackLimits, *, strip: int
) -> Unpacked:
    """As ``unpack``, for given entries; the digest is that of the resulting directory."""
    with _Unpacker(target, limits, strip) as unpacker:
        for entry in entries:
            unpacker.add(entry)
        unpacker.check_links()
        return Unpacked(unpacker.entries, unpacker.size, folder_digest(target))


def folder_digest(folder: Path) -> str:
    """The digest of a directory, as in ``Unpacked``."""
    digest = hashlib.sha256()
    for entry in folder_entries(folder):
        digest.update(_head(entry, entry.path))
        if entry.content is not None:
            with entry.content() as content:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


class _Unpacker:
    def __init__(self, target: Path, limits: UnpackLimits, strip: int) -> None:
        self._target = target
        self._limits = limits
        self._strip = strip
        self._top = -1
        self._folder: tuple[tuple[str, ...], int] = ((), -1)
        """The names and handle of the last entry's directory, where the next one mostly goes too."""
        self.entries = 0
        self.size = 0

    def __enter__(self) -> Self:
        self._top = os.open(self._target, DIRECTORY)
        self._folder = (), os.dup(self._top)
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._folder[1])
        os.close(self._top)

    def add(self, entry: ArchiveEntry, digest: hashlib._Hash | None = None) -> None:
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
            self._add(parts, entry, digest)
        except OSError as problem:
            if problem.errno not in _FAULTS:
                raise
            name = entry.path if len(entry.path) <= _SHOWN else f"{entry.path[:_SHOWN]}…"
            raise UnpackError(f"{name}: {_FAULTS[problem.errno]}") from None

    def _add(self, parts: tuple[str, ...], entry: ArchiveEntry, digest: hashlib._Hash | None) -> None:
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
        """Check that no link leads out, once all exist: links may lead through other links."""
        top = os.path.realpath(self._target)
        for entry in folder_entries(self._target):
            if entry.kind == "symlink":
                end = os.path.realpath(self._target / entry.path)
                if entry.link.startswith("/") or (end != top and not end.startswith(f"{top}/")):
                    raise UnpackError(
                        f"{entry.path}: is a link to {entry.link}, which leads out of the image"
                    )

    def _parts(self, path: str, entry: ArchiveEntry) -> tuple[str, ...]:
        """The directories and the name of an entry, without the stripped ones."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or "\\" in path or "\0" in path:
            raise UnpackError(f"{entry.path}: is not a relative path")
        if ".." in pure.parts:
            raise UnpackError(f"{entry.path}: leads out of the image by '..'")
        return pure.parts[self._strip :]

    def _above(self, parts: tuple[str, ...], entry: ArchiveEntry) -> int:
        """A handle on the directory of an entry, which is created if missing; valid until the next call."""
        names = parts[:-1]
        if names != self._folder[0]:
            try:
                handle = make_directories(self._top, names, 0o755)
            except OSError as problem:
                if problem.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                raise UnpackError(f"{entry.path}: {self._obstacle(names)}") from None
            os.close(self._folder[1])
            self._folder = names, handle
        return self._folder[1]

    def _obstacle(self, names: tuple[str, ...]) -> str:
        """Why there is no directory of these names."""
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
                problem = "is a folder, and a link of the same name comes before it"
                raise UnpackError(f"{entry.path}: {problem}") from None
            if mode is not None and not stat.S_ISDIR(mode):
                raise
        with opened_beneath(folder, name, DIRECTORY) as handle:
            os.fchmod(handle, (entry.mode & 0o777) | 0o700)

    def _link(self, folder: int, name: str, entry: ArchiveEntry) -> None:
        *above, origin = self._parts(entry.link, entry) or ("",)
        refusal = UnpackError(f"{entry.path}: is a hard link to {entry.link}, which is not a file before it")
        try:
            source = open_beneath(self._top, "/".join(above) or ".", DIRECTORY)
        except OSError:
            raise refusal from None
        with closing_handle(source):
            mode = _mode(source, origin) if origin else None
            if mode is None or not stat.S_ISREG(mode):
                raise refusal
            mode = _mode(folder, name)
            if mode is not None and stat.S_ISLNK(mode):
                _unlink(folder, name)
            os.link(origin, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)

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
    """The mode of an entry, a link itself included; None if there is none."""
    try:
        with opened_beneath(folder, name, ANY) as handle:
            return os.fstat(handle).st_mode
    except OSError:
        return None


def _world_readable(entry: ArchiveEntry, umask: int) -> ArchiveEntry:
    """The entry, readable by all if it is by its owner: a container may run as any user."""
    own = entry.mode & 0o500
    return msgspec.structs.replace(entry, mode=(entry.mode | own >> 3 | own >> 6) & ~umask)


def _head(entry: ArchiveEntry, path: str) -> bytes:
    """What a digest has before the content."""
    head = f"{entry.kind}\0{path}\0{entry.link}\0{entry.mode & 0o777:o}\0"
    return head.encode(errors="surrogateescape")  # File names need not be valid UTF-8.


def tar_entries(archive: Tar) -> Iterator[ArchiveEntry]:
    """Each must be used before the next is requested."""
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
            link = archive.read(info).decode(errors="surrogateescape")
            yield ArchiveEntry(info.filename, "symlink", link=link)
        else:
            # Archives of other systems have no modes, and scripts must be executable.
            content = partial(archive.open, info)
            yield ArchiveEntry(info.filename, "file", stat.S_IMODE(mode) or 0o755, content=content)


def folder_entries(source: Path) -> Iterator[ArchiveEntry]:
    """The entries of a directory in the order of their names, so that its digest is stable. Raises OSError.

    Others may write to it meanwhile: no link is ever followed.
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
        with opened_beneath(top, path or ".", DIRECTORY) as handle:
            return sorted(os.listdir(handle))
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, str(source / path)) from None


def _target(top: int, path: str) -> str:
    with opened_beneath(top, path, ANY) as handle:
        return os.readlink("", dir_fd=handle)
