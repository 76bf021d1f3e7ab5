from __future__ import annotations

import json

import pytest

from pilothouse.node.server import stream_channels
from pilothouse.node.server.stream_channels import StdinClosed, StdinData, TerminalResized


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        (b"\x00ls\n", StdinData(b"ls\n")),
        (b"\x00", None),
        (b"", None),
        (b'\x04{"Width":80,"Height":24}', TerminalResized(80, 24)),
        (b'\x04{"Width":0,"Height":0}', None),
        (b'\x04{"Width":80,"Height":70000}', None),
        (b"\xff\x00", StdinClosed()),
        (b"\xff\x01", None),
    ],
)
def test_what_clients_say(message: bytes, meaning: object) -> None:
    assert stream_channels.parse_message(message) == meaning


@pytest.mark.parametrize(
    "message", [b"\x01out", b"\x02err", b"\x03{}", b"\x07", b"\x04not json", b'\x04{"Width":"x"}']
)
def test_what_no_client_says(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"channel|terminal"):
        stream_channels.parse_message(message)


def test_how_a_program_ended() -> None:
    assert json.loads(stream_channels.outcome(0))["status"] == "Success"
    failed = json.loads(stream_channels.outcome(137))
    assert (failed["status"], failed["reason"]) == ("Failure", "NonZeroExitCode")
    assert failed["details"]["causes"] == [{"reason": "ExitCode", "message": "137"}]
