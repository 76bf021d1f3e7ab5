"""Archives and folders onto the disk, without trusting them.

    unpacked = unpack(Path("redis.tar.gz"), target, LIMITS)

An entry is placed below the target or not at all: no absolute paths, no ``..``, no link that leads out, nothing that is neither
file, folder nor link (devices, sockets), no set-user-id bits, nothing that its owner alone may read, no file through a link that an earlier entry made. There is a limit to the number of entries and to the
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
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final, Self

import msgspec

_CHUNK: Final = 1 << 20
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


class Limits(msgspec.Struct, frozen=True):
    """How much may come out of an archive."""

    entries: int = 500_000
    size: int = 64 << 30


class Unpacked(msgspec.Struct, frozen=True):
    """What came out."""

    entries: int
    size: int
    digest: str
    """Of the archive's bytes, or of the folder's names and contents."""


class Entry(msgspec.Struct, frozen=True):
    """Something in an archive or a folder."""

    path: str
    kind: str
    """One of folder, file, symlink, hardlink, or what else it is, in words."""
    mode: int = 0o644
    link: str = ""
    content: Callable[[], IO[bytes]] | None = None


def unpack(source: Path, target: Path, limits: Limits, *, strip: int = 0) -> Unpacked:
    """Have the entries of ``source`` below ``target``, which is an empty folder. ``strip`` leaves out that many leading folders.

    Raises UnpackError; OSError if the disk is full, say.
    """
    taking = _Taking(target, limits, strip)
    if source.is_dir():
        digest = hashlib.sha256()
        for entry in folder_entries(source):
            taking.take(_opened(entry), digest)
    else:
        digest = _digest(source)
        try:
            if zipfile.is_zipfile(source):
                with zipfile.ZipFile(source) as archive:
                    for entry in _zip_entries(archive):
                        taking.take(_opened(entry))
            else:
                with tarfile.open(source, tarinfo=_Header) as archive_:
                    for entry in tar_entries(archive_):
                        taking.take(_opened(entry))
                    _read_to_the_end(archive_, limits)
        except DAMAGED as problem:
            why = str(problem).partition("\n")[0].rstrip(":")
            raise UnpackError(f"{source.name} is no tar or zip archive that can be read: {why}") from None
    taking.check_links()
    if not taking.entries:
        raise UnpackError(
            f"{source.name} has no files" + (f" below {strip} leading folders" if strip else "")
        )
    return Unpacked(taking.entries, taking.size, f"sha256:{digest.hexdigest()}")


def unpack_entries(entries: Iterable[Entry], target: Path, limits: Limits, *, strip: int) -> Unpacked:
    """As ``unpack``, with entries of one's own; the digest is that of the folder that comes of them."""
    taking = _Taking(target, limits, strip)
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

    def __init__(self, target: Path, limits: Limits, strip: int) -> None:
        self._target = target
        self._limits = limits
        self._strip = strip
        self._links: list[tuple[Path, Entry]] = []
        self.entries = 0
        self.size = 0

    def take(self, entry: Entry, digest: hashlib._Hash | None = None) -> None:
        self.entries += 1
        if self.entries > self._limits.entries:
            raise UnpackError(f"it has more than {self._limits.entries} entries")
        parts = self._parts(entry.path, entry)
        if not parts:
            self.entries -= 1
            return
        try:
            self._take(parts, entry, digest)
        except OSError as problem:
            if problem.errno not in _FAULTS:
                raise
            name = entry.path if len(entry.path) <= _SHOWN else f"{entry.path[:_SHOWN]}…"
            raise UnpackError(f"{name}: {_FAULTS[problem.errno]}") from None

    def _take(self, parts: tuple[str, ...], entry: Entry, digest: hashlib._Hash | None) -> None:
        path = self._placed(parts, entry)
        if digest is not None:
            digest.update(_head(entry, "/".join(parts)))
        match entry.kind:
            case "folder":
                path.mkdir(exist_ok=True)
                path.chmod((entry.mode & 0o777) | 0o700)
            case "file":
                self._write(path, entry, digest)
            case "symlink":
                path.unlink(missing_ok=True)
                path.symlink_to(entry.link)
                self._links.append((path, entry))
            case "hardlink":
                origin = self._placed(self._parts(entry.link, entry), entry)
                if origin.is_symlink() or not origin.is_file():
                    raise UnpackError(
                        f"{entry.path}: is a hard link to {entry.link}, which is no file before it"
                    )
                os.link(origin, path, follow_symlinks=False)
            case other:
                raise UnpackError(f"{entry.path}: is {other}; an image has files, folders and links alone")

    def check_links(self) -> None:
        """No link leads out. Looked at when all of them are there: links through links lead elsewhere than their texts say."""
        top = os.path.realpath(self._target)
        for path, entry in self._links:
            end = os.path.realpath(path)
            if entry.link.startswith("/") or (end != top and not end.startswith(f"{top}/")):
                raise UnpackError(f"{entry.path}: is a link to {entry.link}, which leads out of the image")

    def _parts(self, path: str, entry: Entry) -> tuple[str, ...]:
        """The folders and the name of an entry, as far as they are taken."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or "\\" in path or "\0" in path:
            raise UnpackError(f"{entry.path}: is no relative path")
        if ".." in pure.parts:
            raise UnpackError(f"{entry.path}: leads out of the image by '..'")
        return pure.parts[self._strip :]

    def _placed(self, parts: tuple[str, ...], entry: Entry) -> Path:
        """Where an entry goes: below folders that are folders, and in place of nothing but a folder."""
        path = self._target
        for name in parts[:-1]:
            path = path / name
            if path.is_symlink():
                raise UnpackError(f"{entry.path}: goes through the link {path.relative_to(self._target)}")
            if path.exists() and not path.is_dir():
                raise UnpackError(
                    f"{entry.path}: lies below {path.relative_to(self._target)}, which is no folder"
                )
            path.mkdir(exist_ok=True)
        path = path / parts[-1] if parts else path
        if entry.kind != "folder" and path.is_symlink():
            path.unlink()
        return path

    def _write(self, path: Path, entry: Entry, digest: hashlib._Hash | None) -> None:
        assert entry.content is not None
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as out, entry.content() as source:
            while chunk := source.read(_CHUNK):
                self.size += len(chunk)
                if self.size > self._limits.size:
                    raise UnpackError(f"it unpacks to more than {self._limits.size} bytes")
                if digest is not None:
                    digest.update(chunk)
                out.write(chunk)
            os.fchmod(out.fileno(), (entry.mode & 0o777) | 0o400)


def _opened(entry: Entry) -> Entry:
    """Whatever its owner may read and enter, everybody may: there is no telling as whom a container runs."""
    own = entry.mode & 0o500
    return msgspec.structs.replace(entry, mode=entry.mode | own >> 3 | own >> 6)


def _head(entry: Entry, path: str) -> bytes:
    """What goes into a digest ahead of the content."""
    head = f"{entry.kind}\0{path}\0{entry.link}\0{entry.mode & 0o777:o}\0"
    return head.encode(errors="surrogateescape")  # Names on disks are bytes, not always of a text.


def tar_entries(archive: tarfile.TarFile) -> Iterator[Entry]:
    for member in archive:
        if member.isdir():
            yield Entry(member.name, "folder", member.mode)
        elif member.isfile():
            yield Entry(member.name, "file", member.mode, content=partial(_tar_content, archive, member))
        elif member.issym():
            yield Entry(member.name, "symlink", link=member.linkname)
        elif member.islnk():
            yield Entry(member.name, "hardlink", link=member.linkname)
        else:
            yield Entry(member.name, "a device or pipe")


class _Header(tarfile.TarInfo):
    """A header that is cut off or broken is an error. Python takes one in the middle of an archive for the archive's end, and all
    that would have followed would be missing without a word."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if len(buf) == tarfile.BLOCKSIZE and not any(buf):
            return super().frombuf(buf, encoding, errors)  # The mark of the end, told by its own error.
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as problem:
            if len(buf) < tarfile.BLOCKSIZE:
                raise tarfile.ReadError("it ends before its end mark: was it cut off?") from None
            raise tarfile.ReadError(f"an entry's head is damaged ({problem})") from None


def _read_to_the_end(archive: tarfile.TarFile, limits: Limits) -> None:
    """What follows the last entry is nothing but padding; with its end, what was packed is compared with its checksum."""
    assert archive.fileobj is not None
    left = limits.size + tarfile.RECORDSIZE
    while chunk := archive.fileobj.read(_CHUNK):
        left -= len(chunk)
        if left < 0:
            raise UnpackError(f"more than {limits.size} bytes follow its end mark")


def _tar_content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    found = archive.extractfile(member)
    assert found is not None  # It is a file.
    return found


def _zip_entries(archive: zipfile.ZipFile) -> Iterator[Entry]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        if info.is_dir():
            yield Entry(info.filename, "folder", stat.S_IMODE(mode) or 0o755)
        elif stat.S_ISLNK(mode):
            if info.file_size > 4096:
                raise UnpackError(f"{info.filename}: is a link of {info.file_size} bytes")
            yield Entry(info.filename, "symlink", link=archive.read(info).decode(errors="surrogateescape"))
        else:
            # Archives made on other systems know no modes: then scripts must be runnable all the same.
            yield Entry(
                info.filename,
                "file",
                stat.S_IMODE(mode) or 0o755,
                content=partial(archive.open, info),
            )


def folder_entries(source: Path) -> Iterator[Entry]:
    """In an order that depends on names alone, so that the same folder has the same digest. Raises OSError."""

    def unreadable(problem: OSError) -> None:
        raise problem  # Else os.walk leaves the folder out without a word.

    for folder, names, files in os.walk(source, onerror=unreadable):
        names.sort()
        for name in sorted([*names, *files]):
            path = Path(folder) / name
            relative, mode = str(path.relative_to(source)), path.lstat().st_mode
            if stat.S_ISLNK(mode):
                yield Entry(relative, "symlink", link=str(path.readlink()))
            elif stat.S_ISDIR(mode):
                yield Entry(relative, "folder", stat.S_IMODE(mode))
            elif stat.S_ISREG(mode):
                yield Entry(relative, "file", stat.S_IMODE(mode), content=partial(_file_content, path))
            else:
                yield Entry(relative, "a device, pipe or socket")


def _file_content(path: Path) -> IO[bytes]:
    return path.open("rb")


def _digest(file: Path) -> hashlib._Hash:
    found = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            found.update(chunk)
    return found
