"""Backup files: every key and value of a store at one revision.

    async for piece in written(store, Header(revision=..., ...), prefixes, ...): file.write(piece)
    backup = BackupReader(open("file", "rb"), "file")
    backup.header.revision
    for key, value in backup: ...          # raises BackupError with the place of whatever is wrong

The first line is JSON, also readable by other versions
(``{"format":"pilothouse-backup","version":1,"revision":51234,…}``). Frames follow, each a letter, length,
CRC-32 and content: ``E`` an entry, ``X`` the reason why the backup failed, ``Z`` the end with the number of
entries and a SHA-256 of all before. Without ``Z`` it is no backup. Keys are sorted and unique.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

import msgspec

from pilothouse.store.interface import Store, StoreError
from pilothouse.store.paging import pages

FORMAT = "pilothouse-backup"
VERSION = 1
_HEAD = struct.Struct(">cII")
_ENTRY, _END, _FAILURE = b"E", b"Z", b"X"
_LONGEST_HEADER = 64 * 1024
_LONGEST_FRAME = 256 * 1024 * 1024
_PIECE = 256 * 1024


class BackupError(Exception):
    """A file that is no whole backup; the message says what is wrong and where."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What a backup says of itself."""

    format: str = FORMAT
    version: int = VERSION
    revision: int
    """The one revision at which everything in it stood."""
    created: str
    """When, by the server's clock."""
    server: str = ""
    """The server's version."""
    keys: tuple[str, ...] = ()
    """Names of the encryption keys that values in it are sealed with, as far as they are in use."""


class Saved(NamedTuple):
    """A key and its value, as it is stored."""

    key: str
    value: bytes


class _End(msgspec.Struct, frozen=True):
    entries: int
    sha256: str


_encoder = msgspec.msgpack.Encoder()
_entries = msgspec.msgpack.Decoder(tuple[str, bytes])


async def written(
    store: Store,
    header: Header,
    prefixes: Iterable[str],
    *,
    besides: Mapping[str, bytes],
    without: tuple[str, ...],
) -> AsyncIterator[bytes]:
    """A backup of ``prefixes`` at the header's revision, in pieces.

    ``besides`` are extra values from outside the store; keys that start with one of ``without`` are skipped.
    If the store fails, the last frame says so.
    """
    digest = hashlib.sha256()
    count = 0
    buffer = bytearray(msgspec.json.encode(header) + b"\n")
    try:
        async for entry in _saved(store, header.revision, prefixes, besides, without):
            buffer += _frame(_ENTRY, _encoder.encode(entry))
            count += 1
            if len(buffer) >= _PIECE:
                digest.update(buffer)
                yield bytes(buffer)
                buffer.clear()
    except StoreError as problem:
        yield bytes(buffer + _frame(_FAILURE, str(problem).encode()))
        return
    digest.update(buffer)
    end = _End(count, digest.hexdigest())
    yield bytes(buffer + _frame(_END, msgspec.json.encode(end)))


async def _saved(
    store: Store,
    revision: int,
    prefixes: Iterable[str],
    besides: Mapping[str, bytes],
    without: tuple[str, ...],
) -> AsyncIterator[Saved]:
    """Entries in the order of their keys."""
    extra = sorted(besides.items(), reverse=True)
    for prefix in sorted(prefixes):
        async for page in pages(store, prefix, revision=revision):
            for entry in page.entries:
                while extra and extra[-1][0] <= entry.key:
                    yield Saved(*extra.pop())
                if not entry.key.startswith(without) and entry.key not in besides:
                    yield Saved(entry.key, entry.value)
    for key, value in reversed(extra):
        yield Saved(key, value)


def _frame(letter: bytes, content: bytes) -> bytes:
    return _HEAD.pack(letter, len(content), zlib.crc32(letter + content)) + content


class BackupReader:
    """Reads a backup from its beginning to its end, and believes nothing."""

    def __init__(self, file: BinaryIO, name: str = "the file") -> None:
        self._file = file
        self._name = name
        self._digest = hashlib.sha256()
        self._at = 0
        self.entries = 0
        """How many have been read."""
        self.complete = False
        self.header = self._read_header()

    def __iter__(self) -> Iterator[Saved]:
        last = ""
        while True:
            start, before = self._at, self._digest.copy()
            letter, content = self._read_frame()
            if letter == _END:
                self._check_end(content, before, start)
                return
            if letter == _FAILURE:
                reason = content.decode(errors="replace")
                raise BackupError(f"{self._name}: the backup was not finished: {reason}")
            try:
                saved = Saved(*_entries.decode(content))
            except msgspec.DecodeError as problem:
                raise self._wrong(start, f"is not a key with its value: {problem}") from None
            if saved.key <= last:
                raise self._wrong(start, f"holds {saved.key!r}, which does not come after {last!r}")
            last = saved.key
            self.entries += 1
            yield saved

    def _read_header(self) -> Header:
        line = self._file.readline(_LONGEST_HEADER)
        self._digest.update(line)
        self._at = len(line)
        try:
            header = msgspec.json.decode(line)
            format_, version = header["format"], header["version"]
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
            format_ = version = None
        if format_ != FORMAT:
            raise BackupError(f"{self._name} is not a backup of pilothouse: its first line does not say so")
        if version != VERSION:
            raise BackupError(
                f"{self._name} has version {version!r} of the format, and this program reads version "
                f"{VERSION}: restore it with the version of pilothouse that wrote it"
            )
        try:
            return msgspec.json.decode(line, type=Header)
        except msgspec.DecodeError as problem:
            raise BackupError(f"{self._name}: the first line can't be used: {problem}") from None

    def _read_frame(self) -> tuple[bytes, bytes]:
        start = self._at
        letter, length, checksum = _HEAD.unpack(self._read(_HEAD.size, start))
        if letter not in (_ENTRY, _END, _FAILURE) or length > _LONGEST_FRAME:
            raise self._wrong(start, "does not begin as one")
        content = self._read(length, start)
        if zlib.crc32(letter + content) != checksum:
            raise self._wrong(start, "is damaged: its checksum is wrong")
        return letter, content

    def _read(self, size: int, start: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise BackupError(
                f"{self._name} ends too early, at byte {self._at + len(data)}: it is cut off in or before "
                f"entry {self.entries + 1}, which begins at byte {start}"
            )
        self._digest.update(data)
        self._at += size
        return data

    def _check_end(self, content: bytes, before: hashlib._Hash, start: int) -> None:
        try:
            end = msgspec.json.decode(content, type=_End)
        except msgspec.DecodeError as problem:
            raise self._wrong(start, f"is not an end: {problem}") from None
        if end.entries != self.entries:
            raise BackupError(f"{self._name} says it has {end.entries} entries, and has {self.entries}")
        if end.sha256 != before.hexdigest():
            raise BackupError(f"{self._name} is damaged: the digest of its {self.entries} entries is wrong")
        if self._file.read(1):
            raise BackupError(f"{self._name} goes on after its end, at byte {self._at}")
        self.complete = True

    def _wrong(self, start: int, what: str) -> BackupError:
        return BackupError(f"{self._name}: entry {self.entries + 1}, at byte {start}, {what}")
