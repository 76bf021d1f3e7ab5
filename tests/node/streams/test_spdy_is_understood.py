"""What kube-apiserver sends to a node, byte by byte; that it really sends it is shown with a real one (tests/real_kubernetes)."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.server.spdy import (
    DICTIONARY,
    Ping,
    SpdyError,
    SpdyFrames,
    StreamData,
    StreamOpened,
    StreamReset,
)
from pilothouse.node.server.spdy_socket import MOST_HELD, SpdySocket


class Client:
    """The other side."""

    def __init__(self) -> None:
        self._deflating = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, **headers: str) -> bytes:
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for word in (name, value):
                text += struct.pack(">I", len(word)) + word.encode()
        block = self._deflating.compress(text) + self._deflating.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIBB", stream, 0, 0, 0) + block)

    def data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        return struct.pack(">II", stream, int(last) << 24 | len(data)) + data


def control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, len(payload)) + payload


def test_frames_are_read_however_they_are_cut() -> None:
    client = Client()
    sent = client.open(1, streamtype="error") + client.open(3, streamtype="stdin", port="1")
    sent += client.data(3, b"hello") + control(6, b"\0\0\0\1") + client.data(3, b"", last=True)
    sent += (
        control(3, struct.pack(">II", 1, 5))
        + control(7, bytes(8))
        + control(9, bytes(8))
        + control(4, bytes(4))
    )
    expected = [
        StreamOpened(1, {"streamtype": "error"}),
        StreamOpened(3, {"streamtype": "stdin", "port": "1"}),
        StreamData(3, b"hello", False),
        Ping(control(6, b"\0\0\0\1")),
        StreamData(3, b"", True),
        StreamReset(1),
        StreamReset(0),
    ]
    assert list(SpdyFrames().feed(sent)) == expected
    frames = SpdyFrames()
    assert [frame for byte in sent for frame in frames.feed(bytes([byte]))] == expected


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack(">HHI", 0x8002, 1, 0), id="another version"),
        pytest.param(struct.pack(">II", 1, 0xFFFFFF), id="too long a frame"),
        pytest.param(control(1, bytes(3)), id="cut off"),
        pytest.param(control(1, bytes(30)), id="headers that are not compressed"),
        pytest.param(Client().open(1, x="y" * 100_000), id="too many headers"),
    ],
)
def test_what_is_none_is_refused(sent: bytes) -> None:
    with pytest.raises(SpdyError):
        list(SpdyFrames().feed(sent))


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_survived(pieces: list[bytes]) -> None:
    frames = SpdyFrames()
    found: list[object] = []
    with contextlib.suppress(SpdyError):
        for piece in pieces:
            found += frames.feed(piece)
    assert all(isinstance(frame, StreamOpened | StreamData | Ping | StreamReset) for frame in found)


class Line:
    """What the node wrote, and whether it holds the client back."""

    def __init__(self, **options: Any) -> None:
        self.written = b""
        self.held = False
        self.socket = SpdySocket(
            self._write,
            StreamOptions(**options),
            hold=lambda: self._hold(True),
            release=lambda: self._hold(False),
        )

    async def _write(self, data: bytes) -> None:
        self.written += data

    def _hold(self, held: bool) -> None:
        self.held = held


async def test_streams_are_channels() -> None:
    client, line = Client(), Line(stdin=True, stdout=True, tty=True)
    socket = line.socket
    for stream, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
        socket.feed_data(client.open(stream, streamtype=kind))
    opening = asyncio.ensure_future(socket.opened())
    await asyncio.sleep(0)
    assert not opening.done()
    socket.feed_data(client.open(7, streamtype="resize"))
    await asyncio.wait_for(opening, 60)
    socket.feed_data(
        client.data(3, b"ls\n") + client.data(7, b'{"Width":80,') + client.data(7, b'"Height":24}\n')
    )
    socket.feed_data(client.data(3, b"", last=True))
    assert [await socket.receive() for _ in range(3)] == [
        b"\x00ls\n",
        b'\x04{"Width":80,"Height":24}',
        b"\xff\x00",
    ]
    line.written = b""
    await socket.send(b"\x01some")
    assert line.written == client.data(5, b"some")
    socket.feed_eof()
    assert await socket.receive() is None
    assert await socket.receive() is None
    line.written = b""
    await socket.close()
    assert line.written.startswith(client.data(5, b"", last=True) + client.data(1, b"", last=True))


async def test_who_sends_faster_than_is_read_waits() -> None:
    client, line = Client(), Line(stdin=True, stdout=True)
    for stream, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
        line.socket.feed_data(client.open(stream, streamtype=kind))
    piece = b"x" * 100_000
    sent = 0
    while not line.held:
        line.socket.feed_data(client.data(3, piece))
        sent += 1
        assert sent * len(piece) < 2 * MOST_HELD
    for _ in range(sent):
        assert await line.socket.receive() == b"\x00" + piece
    assert not line.held
    await line.socket.close()


@pytest.mark.parametrize("kind", ["error", "mystery"])
async def test_streams_that_make_no_sense_end_it(kind: str) -> None:
    client, line = Client(), Line(stdout=True)
    line.socket.feed_data(client.open(1, streamtype="error"))
    assert line.socket.feed_data(client.open(3, streamtype=kind)) == (True, b"")
    assert await line.socket.receive() is None
    await line.socket.close()
