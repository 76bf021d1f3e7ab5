"""Several streams over one WebSocket: ``v4.channel.k8s.io``, ``v5.channel.k8s.io`` and the older
subprotocols.

    message = bytes([STDOUT]) + b"hello"        # a byte for the stream, then its data
    message = bytes([CLOSE, STDIN])             # v5: the end of that stream

The server's last message is a Status on ``ERROR``. In ``channel.k8s.io``, without a version, it is a plain
text, and none at all for success. Subprotocols with ``base64.`` send text: a digit for the stream, then its
data in base64.
"""

from __future__ import annotations

import base64
from typing import Final

import msgspec

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255
_NO_CHANNEL: Final = 254


class StdinData(msgspec.Struct, frozen=True):
    data: bytes


class StdinClosed(msgspec.Struct, frozen=True):
    """The end of the input."""


class TerminalResized(msgspec.Struct, frozen=True, rename={"columns": "Width", "rows": "Height"}):
    columns: int = 0
    rows: int = 0


ClientMessage = StdinData | StdinClosed | TerminalResized


def parse_message(message: bytes) -> ClientMessage | None:
    """Parse a client's message; None if it is empty. Raises ``ValueError``."""
    if not message:
        return None
    channel, data = message[0], message[1:]
    match channel:
        case 0:
            return StdinData(data) if data else None
        case 4:
            try:
                size = msgspec.json.decode(data, type=TerminalResized)
            except msgspec.MsgspecError:
                raise ValueError(f"no size of a terminal: {data[:80]!r}") from None
            return size if 0 < size.rows < 0x10000 and 0 < size.columns < 0x10000 else None
        case 255:
            return StdinClosed() if data[:1] == bytes([STDIN]) else None
    raise ValueError(f"clients say nothing on channel {channel}")


def decoded(message: bytes) -> bytes:
    """Decode a message of a base64 subprotocol; an invalid one is on no channel, so refused."""
    if not message:
        return b""
    try:
        return bytes([message[0] - ord("0")]) + base64.b64decode(message[1:], validate=True)
    except ValueError:
        return bytes([_NO_CHANNEL])


def encoded(message: bytes) -> str:
    return f"{message[0]}{base64.b64encode(message[1:]).decode()}"


def plain_outcome(status: bytes) -> bytes:
    """The outcome for a subprotocol without a version: a text, empty for success."""
    content = msgspec.json.decode(status)
    return b"" if content["status"] == "Success" else str(content["message"]).encode()


def outcome(code: int) -> bytes:
    """The Status of a program with this exit code."""
    if code == 0:
        return _status({"status": "Success"})
    return _status(
        {
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    )


def failure(message: str, reason: str = "InternalError", code: int = 500) -> bytes:
    """The Status of a program that could not be run, or whose exit code is unknown."""
    return _status({"status": "Failure", "message": message, "reason": reason, "code": code})


def _status(content: dict[str, object]) -> bytes:
    return msgspec.json.encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, **content})
