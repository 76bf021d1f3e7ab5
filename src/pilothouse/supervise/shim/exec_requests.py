"""Requests to run another program inside the container, through the socket `enter.sock` in its directory.

One message a connection: the helper's command line, marshalled, and six descriptors: the program's standard
streams, the order, where to answer, and a control socket (see `exec_helper`). The helper is the shim's child,
so that it shares the Landlock domain of the container's program, outside of which it could not see that
program's processes.
"""

from __future__ import annotations

import _socket
import fcntl
import marshal
import os
import struct
import sys

SECONDS = 5.0
"""Seconds for a request to arrive on its connection."""
_DESCRIPTORS = 6
_SIZE = 65536
_FREE = 32
"""Descriptors are moved here and up, out of the way of the helper's numbers."""
_CREDENTIALS = struct.Struct("iII")
"""Of the peer: process, user, group."""


class ExecRequests:
    def __init__(self, path: str) -> None:
        self.listener = _socket.socket(
            _socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
        )
        self.listener.bind(path)
        self.listener.listen(64)

    def accept(self) -> None:
        """Start the helper for a request."""
        try:
            # The documented accept is in `socket`, which is more than a shim may have in memory.
            descriptor = self.listener._accept()[0]  # type: ignore[attr-defined]
        except OSError:  # It has gone, or there are too many: retried in the next round.
            return
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        passed: list[int] = []
        try:
            peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(peer)[1] not in (0, os.geteuid()):
                return
            connection.settimeout(SECONDS)
            message, ancillary, _, _ = connection.recvmsg(
                _SIZE, _socket.CMSG_SPACE(4 * _DESCRIPTORS), _socket.MSG_CMSG_CLOEXEC
            )
            for _, _, data in ancillary:
                passed += struct.unpack(f"{len(data) // 4}i", data)
            if len(passed) == _DESCRIPTORS:
                _spawn(marshal.loads(message), passed)
        except (OSError, EOFError, ValueError, TypeError) as error:
            _refuse(passed, f"{type(error).__name__}: {error}")
        finally:
            for each in passed:
                os.close(each)
            connection.close()


def _refuse(passed: list[int], why: str) -> None:
    """Report an error where the helper would have answered."""
    os.write(2, f"enter.sock: {why}\n".encode())
    if len(passed) == _DESCRIPTORS:
        try:
            os.write(passed[4], f"StartFailed\nthe container's shim can't start a program: {why}".encode())
        except OSError:  # The caller has gone.
            pass


def _spawn(argv: list[str], passed: list[int]) -> None:
    """Start the helper with the descriptors as 0, 1, 2, and so on."""
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FREE) for each in passed]
    try:
        # Our own program, under its name: it may be a copy, or have been replaced meanwhile.
        os.posix_spawn(
            "/proc/self/exe",
            [sys.executable, *argv[1:]],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(moved)],
            setsid=True,
        )
    finally:
        for each in moved:
            os.close(each)
