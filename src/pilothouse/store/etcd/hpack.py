"""HPACK header blocks (RFC 7541) without dynamic tables.

    block = request_block("/etcdserverpb.KV/Range", authority="127.0.0.1:2379", secure=False, metadata=[])
    decoded(answer)        # ((":status", "200"), ("content-type", "application/grpc"))

Without tables a block always means the same, so encoded and decoded blocks are cached.
"""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.store.etcd import huffman

Fields = tuple[tuple[str, str], ...]

_NAMES = """
accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control
content-disposition content-encoding content-language content-length content-location content-range
content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range
if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range
referer refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary
via www-authenticate
"""
_STATIC: Fields = (
    ("", ""),
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    *((":status", code) for code in ("200", "204", "206", "304", "400", "404", "500")),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in _NAMES.split()),
)
"""The table that both sides know (appendix A), counted from one."""

_POST, _HTTP, _HTTPS = b"\x83", b"\x86", b"\x87"


def request_block(
    path: str, *, authority: str, secure: bool, metadata: Iterable[tuple[str, str]] = ()
) -> bytes:
    """The headers of a gRPC request, all as literals."""
    fields = [
        (":path", path),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *metadata,
    ]
    return _POST + (_HTTPS if secure else _HTTP) + b"".join(_literal(name, value) for name, value in fields)


def decoded(block: bytes) -> Fields:
    """The fields of a block. Raises ``ValueError`` if it is malformed or refers to a dynamic table."""
    try:
        return tuple(_fields(block))
    except IndexError:
        raise ValueError("a header block that ends in the middle of a field") from None


def _fields(block: bytes) -> Iterable[tuple[str, str]]:
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            index, at = _number(block, at, 7)
            if index == 0:
                raise ValueError("a header field without number")
            yield _known(index)
        elif first & 0xE0 == 0x20:
            size, at = _number(block, at, 5)
            if size:
                raise ValueError(f"a header table of {size} bytes, where none was offered")
        else:
            # With or without the wish that it be remembered: in a table without room it never is.
            index, at = _number(block, at, 6 if first & 0x40 else 4)
            if index:
                name = _known(index)[0]
            else:
                name, at = _text(block, at)
            value, at = _text(block, at)
            yield name, value


def _known(index: int) -> tuple[str, str]:
    if index >= len(_STATIC):
        raise ValueError(f"header field {index} of a table that was not offered")
    return _STATIC[index]


def _number(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte, and where it ends."""
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    for shift in range(0, 35, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number of more than five bytes in a header block")


def _text(block: bytes, at: int) -> tuple[str, int]:
    """A text, and where it ends. Latin-1 takes any byte; gRPC itself uses ASCII."""
    is_coded = block[at] & 0x80
    length, at = _number(block, at, 7)
    raw = block[at : at + length]
    if len(raw) < length:
        raise ValueError(f"a header text of {length} bytes of which {len(raw)} are there")
    return (huffman.decoded(raw) if is_coded else raw).decode("latin-1"), at + length


def _literal(name: str, value: str) -> bytes:
    """A literal field that is not indexed."""
    return b"\x00" + _plain(name) + _plain(value)


def _plain(text: str) -> bytes:
    raw = text.encode("latin-1")
    return _encoded_number(len(raw), 7) + raw


def _encoded_number(number: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes([number])
    coded, number = bytearray([most]), number - most
    while number >= 0x80:
        coded.append(number & 0x7F | 0x80)
        number >>= 7
    coded.append(number)
    return bytes(coded)
