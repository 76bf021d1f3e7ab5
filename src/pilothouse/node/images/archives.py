"""Opens archives with bounded memory, whatever their headers say.

    with open_tar(source) as archive:
        for member in archive.members():
            archive.extract(member).read(1 << 20)
        archive.finish(limit)
    with open_zip(source) as archive: ...

An archive of a megabyte can hold a gigabyte of zeros, in its files and in its heads alike. Files are passed
on piece by piece, and their sizes are the caller's to limit. Heads are read into memory as a whole, by
Python's ``tarfile`` and ``zipfile``: here they get so many bytes for each entry, or for the directory of a
zip, and no more. A compression that wants more memory than ``MOST_FOR_UNPACKING`` is refused.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self

MOST_OF_HEAD: Final = 1 << 20
"""Bytes of the heads of one entry, with its long names and extended attributes."""
MOST_OF_ZIP_DIRECTORY: Final = 16 << 20
MOST_FOR_UNPACKING: Final = 128 << 20
"""Bytes of memory that a decompressor may take; ``xz -9`` needs 65 MiB."""
_MOST_GLOBALS: Final = 64
"""Attributes for all entries that follow: they are kept to the end."""
_CHUNK: Final = 64 << 10
_SKIPPED: Final = 1 << 20


class BoundedReader:
    """A file from which no more may be read than was said, until something else is."""

    def __init__(self, file: IO[bytes], most: int, what: str) -> None:
        self._file = file
        self._left: int | None = most
        self._what = what

    def allow(self, most: int | None, what: str = "") -> None:
        """From here on; None for as much as there is."""
        self._left, self._what = most, what

    def read(self, size: int = -1) -> bytes:
        if self._left is None:
            return self._file.read(size)
        if size > self._left:
            raise tarfile.ReadError(self._what)
        found = self._file.read(size if size >= 0 else self._left + 1)
        if len(found) > self._left:
            raise tarfile.ReadError(self._what)
        self._left -= len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()


class Tar:
    """A tar archive, read from its beginning to its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._reader = BoundedReader(file, MOST_OF_HEAD, _HEAD_TOO_LARGE)
        self._archive = tarfile.TarFile(fileobj=self._reader, tarinfo=_Header)  # type: ignore[arg-type]

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Its entries in their order. Raises tarfile.ReadError."""
        while True:
            self._reader.allow(MOST_OF_HEAD, _HEAD_TOO_LARGE)
            member = self._archive.next()
            self._reader.allow(None)
            self._archive.members.clear()  # type: ignore[attr-defined]
            if member is None:
                return
            if len(self._archive.pax_headers) > _MOST_GLOBALS:
                raise tarfile.ReadError(f"it has more than {_MOST_GLOBALS} attributes for all of its entries")
            yield member

    def extract(self, member: tarfile.TarInfo) -> IO[bytes]:
        """The content of a file, to be read before the next member is."""
        found = self._archive.extractfile(member)
        assert found is not None  # It is a file.
        return found

    def finish(self, most: int) -> None:
        """Read what follows the last entry, nothing but padding: with its end, what was packed is compared
        with its checksum.

        Raises tarfile.ReadError.
        """
        left = most + tarfile.RECORDSIZE
        while chunk := self._reader.read(_SKIPPED):
            left -= len(chunk)
            if left < 0:
                raise tarfile.ReadError(f"more than {most} bytes follow its end mark")


@contextmanager
def open_tar(source: Path) -> Iterator[Tar]:
    """Compressed by gzip, bzip2, xz, or not at all; by zstd where Python knows it.

    Raises what is damaged, and OSError.
    """
    with source.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        unpacked = next((opener(file) for magic, opener in _OPENERS if start.startswith(magic)), file)
        try:
            yield Tar(unpacked)
        finally:
            unpacked.close()


@contextmanager
def open_zip(source: Path) -> Iterator[zipfile.ZipFile]:
    """Raises zipfile.BadZipFile, tarfile.ReadError, OSError."""
    with source.open("rb") as file:
        reader = BoundedReader(
            file,
            MOST_OF_ZIP_DIRECTORY,
            f"its directory has more than {MOST_OF_ZIP_DIRECTORY} bytes; a tar archive may have more entries",
        )
        with zipfile.ZipFile(reader) as archive:
            reader.allow(None)
            for info in archive.infolist():
                # Others are unpacked by blocks of any size, or want as much memory as they like.
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise zipfile.BadZipFile(
                        f"{info.filename[:80]} is compressed by another method than deflate"
                    )
            yield archive


_HEAD_TOO_LARGE: Final = f"the head of an entry has more than {MOST_OF_HEAD} bytes"


class _Header(tarfile.TarInfo):
    """A header that is cut off or broken is an error.

    Python takes one in the middle of an archive for the archive's end, and all that would have followed would
    be missing without a word.
    """

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


class _XzReader(io.RawIOBase):
    """A file that is packed by xz, read forward.

    Unlike ``lzma.LZMAFile`` it limits the memory that unpacking takes.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = lzma.LZMADecompressor(memlimit=MOST_FOR_UNPACKING)
        self._place = 0

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size:
            part = self._some(min(size, _SKIPPED) if size > 0 else _SKIPPED)
            if not part:
                break
            parts.append(part)
            size -= len(part) if size > 0 else 0
        found = b"".join(parts)
        self._place += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self._place:
            raise io.UnsupportedOperation("it is read forward")
        while self._place < offset and self.read(min(offset - self._place, _SKIPPED)):
            pass
        return self._place

    def tell(self) -> int:
        return self._place

    def _some(self, most: int) -> bytes:
        while True:
            if self._unpacker.eof:
                rest = self._unpacker.unused_data.lstrip(b"\0") or self._file.read(_CHUNK).lstrip(b"\0")
                if not rest:
                    return b""
                self._unpacker = lzma.LZMADecompressor(memlimit=MOST_FOR_UNPACKING)
                more = rest
            elif self._unpacker.needs_input:
                more = self._file.read(_CHUNK)
                if not more:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            else:
                more = b""
            if found := self._unpacker.decompress(more, most):
                return found


def _zstd(file: IO[bytes]) -> IO[bytes]:
    try:
        known: Any = importlib.import_module("compression.zstd")
    except ImportError:
        raise tarfile.ReadError("it is compressed with zstd, which needs Python 3.14: use gzip") from None
    opened: IO[bytes] = known.ZstdFile(file)
    return opened


_OPENERS: Final[tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...]] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file, mode="rb")),
    (b"BZh", lambda file: bz2.BZ2File(file)),
    (b"\xfd7zXZ\x00", _XzReader),
    (b"\x5d\x00\x00", _XzReader),
    (b"\x28\xb5\x2f\xfd", _zstd),
)
