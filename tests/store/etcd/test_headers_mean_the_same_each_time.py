"""Header blocks: the RFC's examples, another implementation's blocks, and rubbish."""

from __future__ import annotations

import contextlib

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.store.etcd import huffman
from pilothouse.store.etcd.grpc_status import failure, outcome
from pilothouse.store.etcd.hpack import decoded, request_block

words = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=60)
names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("coded", "text"),
    [
        ("f1e3c2e5f23a6ba0ab90f4ff", b"www.example.com"),
        ("a8eb10649cbf", b"no-cache"),
        ("6402", b"302"),
        ("aec3771a4b", b"private"),
        ("", b""),
    ],
)
def test_huffman_texts_of_the_rfc(coded: str, text: bytes) -> None:
    assert huffman.decoded(bytes.fromhex(coded)) == text


@pytest.mark.parametrize("coded", ["ff", "1fff", "fffffffc", "18", "ffffffff"])
def test_huffman_texts_that_are_none(coded: str) -> None:
    with pytest.raises(ValueError, match="Huffman"):
        huffman.decoded(bytes.fromhex(coded))


@given(st.lists(st.tuples(names, words)), st.booleans())
def test_what_another_encoder_writes_without_a_table(fields: list[tuple[str, str]], coded: bool) -> None:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    block = encoder.encode(raw, huffman=coded)
    assert decoded(block) == tuple(fields)


@given(words)
def test_another_decoder_reads_what_we_write(token: str) -> None:
    block = request_block("/p.S/M", authority="h:1", secure=True, metadata=[("token", token)])
    found = hpack.Decoder().decode(block, raw=True)
    assert [(name.decode("latin-1"), value.decode("latin-1")) for name, value in found] == [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", "/p.S/M"),
        (":authority", "h:1"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("token", token),
    ]


@given(st.binary(max_size=100))
def test_any_bytes_are_fields_or_a_value_error(block: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert all(isinstance(text, str) for field in decoded(block) for text in field)


@pytest.mark.parametrize("block", ["80", "be", "3fe11f", "ffffffffffff7f", "00", "0003616263", "0f"])
def test_blocks_that_are_none(block: str) -> None:
    with pytest.raises(ValueError, match="header"):
        decoded(bytes.fromhex(block))


@pytest.mark.parametrize(
    ("fields", "code", "details"),
    [
        (
            {"grpc-status": "14", "grpc-message": "etcdserver: no leader"},
            "UNAVAILABLE",
            "etcdserver: no leader",
        ),
        ({":status": "200", "grpc-status": "3", "grpc-message": "a%20b"}, "INVALID_ARGUMENT", "a b"),
        ({"grpc-status": "99"}, "UNKNOWN", "UNKNOWN"),
        ({":status": "503"}, "UNAVAILABLE", "HTTP status 503 in place of a gRPC answer"),
        ({":status": "404"}, "UNKNOWN", "HTTP status 404 in place of a gRPC answer"),
        ({":status": "200"}, "INTERNAL", "an answer that ends without a gRPC status"),
    ],
)
def test_how_a_call_has_failed(fields: dict[str, str], code: str, details: str) -> None:
    failed = failure(outcome(tuple(fields.items())))
    assert (failed.code, failed.details) == (code, details)
