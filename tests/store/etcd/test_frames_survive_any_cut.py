"""Frames and messages come out the same however the bytes were cut up; what is none is a clean fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.store.etcd import http2_frames
from pilothouse.store.etcd.grpc_messages import MessageReader, enveloped, opened
from pilothouse.store.etcd.http2_frames import Frame, FrameReader, ProtocolError, frame

streams = st.integers(min_value=1, max_value=http2_frames.LARGEST_STREAM)
payloads = st.binary(max_size=200)
good = st.one_of(
    st.tuples(st.just(http2_frames.DATA), st.sampled_from([0, http2_frames.END_STREAM]), streams, payloads),
    st.tuples(st.just(http2_frames.HEADERS), st.sampled_from([4, 5]), streams, payloads),
    st.tuples(
        st.just(http2_frames.PING), st.sampled_from([0, 1]), st.just(0), st.binary(min_size=8, max_size=8)
    ),
    st.tuples(st.just(http2_frames.WINDOW_UPDATE), st.just(0), streams, st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(http2_frames.RST_STREAM), st.just(0), streams, st.binary(min_size=4, max_size=4)),
    st.tuples(st.just(http2_frames.GOAWAY), st.just(0), st.just(0), payloads),
    st.tuples(st.integers(min_value=10, max_value=255), st.just(0), streams, payloads),
)
bad = st.sampled_from(
    [
        frame(http2_frames.DATA, 0, 0, b"x"),
        frame(http2_frames.HEADERS, 4, 0, b"x"),
        frame(http2_frames.PING, 0, 0, b"short"),
        frame(http2_frames.PING, 0, 1, bytes(8)),
        frame(http2_frames.RST_STREAM, 0, 1, b"x"),
        frame(http2_frames.WINDOW_UPDATE, 0, 1, b"x"),
        frame(http2_frames.CONTINUATION, 4, 1, b"x"),
        frame(http2_frames.PUSH_PROMISE, 4, 1, b"x"),
        frame(http2_frames.HEADERS, http2_frames.END_HEADERS | http2_frames.PADDED, 1, b"\x09x"),
        frame(http2_frames.HEADERS, http2_frames.END_HEADERS | http2_frames.PRIORITISED, 1, b"1234"),
        frame(http2_frames.HEADERS, 0, 1, b"x") + frame(http2_frames.DATA, 0, 1, b"x"),
        frame(http2_frames.HEADERS, 0, 1, b"x") + frame(http2_frames.CONTINUATION, 4, 3, b"x"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46\x00\x00\x00",
    ]
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def read(pieces: list[bytes]) -> tuple[list[Frame], str]:
    reader = FrameReader()
    found = [one for piece in pieces for one in reader.feed(piece)]
    return found, str(reader.fault or "")


@given(st.lists(good), st.lists(st.integers(min_value=0)))
def test_frames_do_not_depend_on_the_cuts(sent: list[Frame], places: list[int]) -> None:
    data = b"".join(frame(*one) for one in sent)
    assert read(cut(data, places)) == (sent, "")


@given(st.lists(good, max_size=5), bad, st.lists(good, max_size=5), st.lists(st.integers(min_value=0)))
def test_a_bad_frame_is_a_fault_after_the_good_ones(
    before: list[Frame], wrong: bytes, after: list[Frame], places: list[int]
) -> None:
    data = b"".join(frame(*one) for one in before) + wrong + b"".join(frame(*one) for one in after)
    found, fault = read(cut(data, places))
    assert found == before
    assert fault


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0)))
def test_any_bytes_are_frames_or_a_fault(data: bytes, places: list[int]) -> None:
    assert read(cut(data, places)) == read([data])


@given(streams, payloads, st.lists(st.integers(min_value=0)), st.booleans())
def test_headers_in_pieces_come_as_one(stream: int, block: bytes, places: list[int], last: bool) -> None:
    end = http2_frames.END_STREAM if last else 0
    first, *others = cut(block, places)
    data = frame(http2_frames.HEADERS, end | (0 if others else http2_frames.END_HEADERS), stream, first)
    for n, piece in enumerate(others, start=1):
        flags = http2_frames.END_HEADERS if n == len(others) else 0
        data += frame(http2_frames.CONTINUATION, flags, stream, piece)
    assert read([data]) == ([(http2_frames.HEADERS, end | http2_frames.END_HEADERS, stream, block)], "")


def test_padding_and_priority_are_taken_off() -> None:
    flags = http2_frames.END_HEADERS | http2_frames.PADDED | http2_frames.PRIORITISED
    found, fault = read([frame(http2_frames.HEADERS, flags, 1, b"\x03" + bytes(5) + b"block" + bytes(3))])
    assert (found[0][3], fault) == (b"block", "")
    assert http2_frames.unpadded(b"\x02data\x00\x00") == b"data"
    with pytest.raises(ProtocolError):
        http2_frames.unpadded(b"\x07data")


def test_headers_without_end_are_a_fault_before_they_fill_memory() -> None:
    reader = FrameReader()
    reader.feed(frame(http2_frames.HEADERS, 0, 1, b"x"))
    piece = frame(http2_frames.CONTINUATION, 0, 1, bytes(http2_frames.FRAME_LIMIT))
    for _ in range(70):
        assert reader.feed(piece) == []
    assert "header block" in str(reader.fault)


@pytest.mark.parametrize(
    "values",
    [
        {http2_frames.INITIAL_WINDOW_SIZE: 1 << 31},
        {http2_frames.MAX_FRAME_SIZE: 100},
        {http2_frames.MAX_FRAME_SIZE: 1 << 24},
    ],
)
def test_settings_out_of_range_are_a_fault(values: dict[int, int]) -> None:
    with pytest.raises(ProtocolError):
        http2_frames.read_settings(http2_frames.settings(values))


def test_half_a_setting_is_a_fault() -> None:
    with pytest.raises(ProtocolError):
        http2_frames.read_settings(b"\x00\x04\x00")


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(min_value=0)))
def test_messages_do_not_depend_on_the_cuts(messages: list[bytes], places: list[int]) -> None:
    envelopes = MessageReader()
    pieces = cut(b"".join(map(enveloped, messages)), places)
    assert [message for piece in pieces for message in envelopes.feed(piece)] == messages


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0)))
def test_an_answer_is_one_message(message: bytes, places: list[int]) -> None:
    whole = enveloped(message)
    assert opened(cut(whole, places)) == message
    for wrong in (whole + b"x", whole[:-1], whole + whole, b"\x01" + whole[1:]):
        with pytest.raises(ProtocolError):
            opened([wrong])


def test_a_compressed_message_was_not_asked_for() -> None:
    with pytest.raises(ProtocolError, match="compressed"):
        MessageReader().feed(b"\x01\x00\x00\x00\x01x")
