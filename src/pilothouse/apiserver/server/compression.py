"""Gzip streams concatenated from parts that were compressed before.

    head = deflate(b'{"kind":"PodList",...,"items":[')
    body = join([block_1, block_2])                 # deflated when they were first listed
    gzip_of([head, body, deflate(b"]}")])           # one valid gzip stream; nothing was compressed again

A ``Deflated`` is raw deflate with an empty initial window that ends on a byte boundary without ending the
stream. The checksum of the whole follows from those of the parts: shifting a CRC-32 by ``n`` bytes multiplies
it by x^(8n) modulo the CRC's polynomial, 32 steps of shift and xor.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable
from functools import lru_cache

import msgspec

LEVEL = 1
"""Lists are so repetitive that the fastest level is within a few percent of the best."""
TURN = 32 * 1024
"""Bytes that are compressed at a time where others wait; a few milliseconds at worst."""
GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
GZIP_HEADER = len(GZIP_HEAD)
"""So many bytes come before the first part."""
_LAST_BLOCK = b"\x03\x00"
_STORED_LIMIT = 0xFFFF

# The CRC-32 polynomial with reversed bits: the highest bit is x^0, as in the checksums.
_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31


class Deflated(msgspec.Struct, frozen=True, gc=False):
    """Compressed bytes that can follow others."""

    data: bytes
    crc: int
    size: int
    """The length before compression."""


EMPTY = Deflated(b"", 0, 0)


def deflate(data: bytes, level: int = LEVEL) -> Deflated:
    """Compress on its own. Other threads run meanwhile."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return Deflated(packed, zlib.crc32(data), len(data))


def deflate_in_turns(data: bytes, level: int = LEVEL) -> Generator[bytes, None, Deflated]:
    """The same, yielding after each ``TURN``."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed: list[bytes] = []
    crc = 0
    for at in range(0, len(data), TURN):
        part = memoryview(data)[at : at + TURN]
        packed.append(compressor.compress(part))
        crc = zlib.crc32(part, crc)
        yield b""
    packed.append(compressor.flush(zlib.Z_SYNC_FLUSH))
    return Deflated(b"".join(packed), crc, len(data))


def store(data: bytes) -> Deflated:
    """Uncompressed: faster for a few bytes."""
    if len(data) > _STORED_LIMIT:
        return deflate(data, 0)
    size = len(data)
    head = b"\x00" + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
    return Deflated(head + data, zlib.crc32(data), size)


def join(parts: Iterable[Deflated]) -> Deflated:
    data: list[bytes] = []
    crc = size = 0
    for part in parts:
        data.append(part.data)
        crc = combine(crc, part.crc, part.size)
        size += part.size
    return Deflated(b"".join(data), crc, size)


class GzipChecksum:
    """Of a gzip stream that is sent in parts, after ``GZIP_HEAD``."""

    __slots__ = ("_crc", "_size")

    def __init__(self) -> None:
        self._crc = self._size = 0

    def add(self, part: Deflated) -> bytes:
        """The next part's bytes."""
        self._crc = combine(self._crc, part.crc, part.size)
        self._size += part.size
        return part.data

    def end(self) -> bytes:
        """The bytes after the last part."""
        return _LAST_BLOCK + self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")


def gzip_of(parts: Iterable[Deflated]) -> bytes:
    whole = GzipChecksum()
    return b"".join((GZIP_HEAD, *[whole.add(part) for part in parts], whole.end()))


@lru_cache(maxsize=256)
def wanted(accept_encoding: str) -> bool:
    """Whether an ``Accept-Encoding`` header asks for gzip."""
    for clause in accept_encoding.lower().split(","):
        name, _, quality = clause.replace(" ", "").partition(";q=")
        if name == "gzip":
            return quality.strip("0.") != "" or not quality
    return False


def combine(first: int, second: int, size: int) -> int:
    """The CRC-32 of two byte strings in a row; ``size`` is the length of the second."""
    return _times(first, _power(size)) ^ second if first else second


@lru_cache(maxsize=65536)
def _power(size: int) -> int:
    """x to the power of eight times ``size``: what moves a checksum to the left by that many bytes."""
    result, square = _ONE, _ONE >> 8
    while size:
        if size & 1:
            result = _times(result, square)
        square = _times(square, square)
        size >>= 1
    return result


def _times(left: int, right: int) -> int:
    """The product of two polynomials, modulo the CRC's."""
    product = 0
    while left:
        if left & _ONE:
            product ^= right
        left = (left << 1) & 0xFFFFFFFF
        right = (right >> 1) ^ (_POLYNOMIAL if right & 1 else 0)
    return product
