"""Parses HTTP/1.1 responses incrementally, on connections with one request at a time.

    reading = AnswerReader(bodiless=False, longest=2**25)
    reading.feed(data)             # a ClientResponse once it is complete, None until then
    reading.closed()               # no more will come; that may be how an answer ends
    reading.keeps                  # whether the connection can be used again

Lengths, chunks, connection close, interim responses, gzip. Malformed input is ``MalformedAnswer``. A body
that is too long, compressed or unpacked, is ``AnswerTooLong`` as soon as that is known.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

from multidict import CIMultiDict

from pilothouse.client.transport import ClientResponse
from pilothouse.client.warning_headers import warning_texts

LONGEST_HEAD: Final = 2**17
MOST_INTERIM: Final = 5
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: .*)?")
_BODILESS: Final = frozenset({204, 304})
_GZIP: Final = 31
_DIGITS: Final = 19
"""Of a length that fits into 64 bits."""


class MalformedAnswer(Exception):
    """What came is no answer; the message says why."""


class AnswerTooLong(MalformedAnswer):
    """The body exceeds the limit, which the message names."""


class AnswerReader:
    def __init__(self, *, bodiless: bool, longest: int) -> None:
        """``bodiless`` is an answer to HEAD. ``longest`` are the bytes that a body may have."""
        self._bodiless = bodiless
        self._longest = longest
        self._data = bytearray()
        self._status = 0
        self._interim = 0
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._length: int | None = None
        self._chunks: bytearray | None = None
        self.keeps = False

    def feed(self, data: bytes) -> ClientResponse | None:
        """Take in more. Raises ``MalformedAnswer``."""
        self._data += data
        while not self._status:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                if len(self._data) > LONGEST_HEAD:
                    raise MalformedAnswer(f"its head is longer than {LONGEST_HEAD} bytes")
                return None
            self._head(bytes(self._data[:end]))
            del self._data[: end + 4]
        if self._chunks is not None:
            return self._chunked(self._chunks)
        if self._length is None:
            self._check_length(len(self._data))
            return None
        if len(self._data) < self._length:
            return None
        if len(self._data) > self._length:
            raise MalformedAnswer("there is more than was announced")
        return self._answer(bytes(self._data))

    def closed(self) -> ClientResponse | None:
        """The answer, if the end of the connection is its end."""
        if not self._status or self._length is not None or self._chunks is not None:
            return None
        return self._answer(bytes(self._data))

    def _check_length(self, length: int) -> None:
        if length > self._longest:
            raise AnswerTooLong(f"its body has more than {self._longest} bytes")

    def _head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        match = _STATUS.fullmatch(first)
        if match is None:
            raise MalformedAnswer(f"it begins with {first[:60]!r}")
        status = int(match[2])
        if status == 101:
            raise MalformedAnswer("it speaks another protocol from here on")
        if status < 200:
            # An interim answer; the real one follows.
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise MalformedAnswer(f"there are more than {MOST_INTERIM} interim answers")
            return
        headers: CIMultiDict[str] = CIMultiDict()
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():
                raise MalformedAnswer(f"a line of its head is {line[:60]!r}")
            headers.add(name.decode("latin-1"), value.strip().decode("utf-8", "surrogateescape"))
        self._status, self._headers = status, headers
        self._frame(status, minor=match[1])

    def _frame(self, status: int, *, minor: bytes) -> None:
        """Determine how the body is delimited."""
        headers = self._headers
        options = ",".join(headers.getall("Connection", ())).lower()
        self.keeps = "close" not in options and (minor == b"1" or "keep-alive" in options)
        coding = ",".join(headers.getall("Transfer-Encoding", ())).strip().lower()
        lengths = set(headers.getall("Content-Length", ()))
        if self._bodiless or status in _BODILESS:
            self._length = 0
        elif coding:
            if coding != "chunked" or lengths:
                raise MalformedAnswer(f"its body is sent as {coding}{' and by length' if lengths else ''}")
            self._chunks = bytearray()
        elif lengths:
            text = lengths.pop()
            if lengths or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
                raise MalformedAnswer("its length is no number, or two")
            self._length = int(text)
            self._check_length(self._length)
        else:
            self.keeps = False

    def _chunked(self, chunks: bytearray) -> ClientResponse | None:
        data = self._data
        while True:
            end = data.find(b"\r\n")
            if end < 0:
                if len(data) > LONGEST_HEAD:
                    raise MalformedAnswer("the length of a chunk has no end")
                return None
            text = bytes(data[:end]).partition(b";")[0].strip()
            try:
                length = int(text, 16) if text.isalnum() else -1
            except ValueError:
                length = -1
            if length < 0:
                raise MalformedAnswer(f"the length of a chunk is {text[:20]!r}")
            if length == 0:
                return self._trailed(chunks, end)
            self._check_length(len(chunks) + length)
            if len(data) < end + 2 + length + 2:
                return None
            if data[end + 2 + length : end + 4 + length] != b"\r\n":
                raise MalformedAnswer("a chunk is longer than announced")
            chunks += data[end + 2 : end + 2 + length]
            del data[: end + 4 + length]

    def _trailed(self, chunks: bytearray, end: int) -> ClientResponse | None:
        """After the last chunk come trailers, if any, and an empty line."""
        rest = self._data[end:]
        finish = rest.find(b"\r\n\r\n")
        if finish < 0:
            if len(rest) > LONGEST_HEAD:
                raise MalformedAnswer(f"what comes after its body is longer than {LONGEST_HEAD} bytes")
            return None
        if len(rest) > finish + 4:
            raise MalformedAnswer("there is more than was announced")
        return self._answer(bytes(chunks))

    def _answer(self, body: bytes) -> ClientResponse:
        headers = self._headers
        coding = headers.get("Content-Encoding", "identity").lower()
        if coding == "gzip":
            body = self._unpacked(body)
        elif coding != "identity":
            raise MalformedAnswer(f"its body is packed as {coding}, which was not asked for")
        warnings = headers.getall("Warning", None)
        return ClientResponse(self._status, headers, body, warning_texts(warnings) if warnings else ())

    def _unpacked(self, body: bytes) -> bytes:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            found = unpacker.decompress(body, self._longest + 1)
        except zlib.error as problem:
            raise MalformedAnswer(f"its body can't be unpacked: {problem}") from None
        self._check_length(len(found))
        if not unpacker.eof:
            raise MalformedAnswer("its body can't be unpacked: it breaks off")
        return found
