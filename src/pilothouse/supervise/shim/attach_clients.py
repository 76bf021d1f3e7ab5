"""The clients that are attached to a container, through the socket in its directory.

A frame is a byte for the channel, four bytes of length, big-endian, and the data. Channels have the numbers
of Kubernetes' streams: 0 stdin, 1 stdout, 2 stderr, 3 the exit status (exit.json's text; the last frame), 4
the size of the terminal ("ROWS COLUMNS"), 5 the end of stdin (no data).

Only processes of the shim's own user and of root are accepted: others are kept out by the directory's mode
and by a check of their credentials. The program waits for a slow client as long as that reads 256 KiB a
second; a slower one falls behind and is disconnected.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import select
import struct
import termios
import time

STDIN, STDOUT, STDERR, EXIT, RESIZE, CLOSE_STDIN = range(6)

LATE = 256 * 1024
"""Bytes a client may be behind before the program waits, and that it must read in each PATIENCE."""
PATIENCE = 1.0
LOST = 4 * 1024 * 1024
"""Bytes a client may be behind before it is disconnected."""
TYPED_AHEAD = 64 * 1024
"""Bytes of stdin that are buffered; then clients wait."""
LONGEST_FRAME = 1024 * 1024
_CREDENTIALS = struct.Struct("iII")
"""Of the peer: process, user, group."""


def frame(channel: int, data: bytes) -> bytes:
    return struct.pack(">BI", channel, len(data)) + data


class AttachInput:
    """The write end of a container's stdin; -1 if it has none."""

    def __init__(self, descriptor: int, *, once: bool, terminal: bool) -> None:
        self.descriptor = descriptor
        self.once = once
        self.terminal = terminal
        self.waiting = b""
        self._closing = False

    def take(self, data: bytes) -> None:
        if self.descriptor >= 0 and not self._closing:
            self.waiting += data
            self.flush()

    def flush(self) -> None:
        try:
            while self.waiting:
                self.waiting = self.waiting[os.write(self.descriptor, self.waiting) :]
        except BlockingIOError:
            return
        except OSError:  # The program has closed its end.
            self.waiting = b""
            self._closing = True
        if self._closing:
            self._close()

    def end(self) -> None:
        """End the input, once what is buffered has been read; of a terminal by its end-of-file character."""
        if self.terminal:
            self.take(b"\x04")
        elif self.descriptor >= 0:
            self._closing = True
            self.flush()

    def resize(self, rows: int, columns: int) -> None:
        if self.terminal and self.descriptor >= 0:
            fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _close(self) -> None:
        if self.descriptor >= 0 and not self.terminal:
            os.close(self.descriptor)
        self.descriptor = -1


class AttachClient:
    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.sending = bytearray()
        self.typed = False
        self.late_since = 0.0
        """When it fell behind, or last read enough to be waited for; 0 if it is up to date."""
        self.taken = 0
        """Bytes since then."""


class AttachClients:
    """All connections, and their listening socket."""

    def __init__(self, path: str, stdin: AttachInput) -> None:
        self.stdin = stdin
        self._clients: dict[int, AttachClient] = {}
        self.took = 0.0
        """When a client last read something."""
        self.listener = _socket.socket(
            _socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
        )
        self.listener.bind(path)
        self.listener.listen(16)

    def interests(self) -> list[tuple[int, int]]:
        """The descriptors to poll, and the events."""
        wanted = [(self.listener.fileno(), select.POLLIN)]
        crowded = len(self.stdin.waiting) >= TYPED_AHEAD
        for descriptor, client in self._clients.items():
            mask = (0 if crowded else select.POLLIN) | (select.POLLOUT if client.sending else 0)
            wanted.append((descriptor, mask))
        if self.stdin.waiting:
            wanted.append((self.stdin.descriptor, select.POLLOUT))
        return wanted

    def happened(self, descriptor: int, events: int) -> None:
        """Handle a polled event."""
        if descriptor == self.listener.fileno():
            self._welcome()
        elif descriptor == self.stdin.descriptor:
            if events & (select.POLLOUT | select.POLLERR):
                self.stdin.flush()
        elif (client := self._clients.get(descriptor)) is not None:
            if events & select.POLLOUT:
                self._send(client)
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._receive(client)

    def broadcast(self, channel: int, data: bytes) -> None:
        for client in list(self._clients.values()):
            client.sending += frame(channel, data)
            self._send(client)
            if len(client.sending) > LOST:
                self._leave(client)

    @property
    def waited_for(self) -> bool:
        """Whether a client gets time to catch up."""
        now = time.monotonic()
        return any(
            client.late_since and now - client.late_since < PATIENCE for client in self._clients.values()
        )

    @property
    def all_sent(self) -> bool:
        return not any(client.sending for client in self._clients.values())

    def _welcome(self) -> None:
        try:
            # The documented accept is in `socket`, which is more than a shim may have in memory.
            descriptor = self.listener._accept()[0]  # type: ignore[attr-defined]
        except OSError:  # It has gone, or there are too many: retried in the next round.
            return
        os.set_blocking(descriptor, False)
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(peer)[1] not in (0, os.geteuid()):
            connection.close()
            return
        self._clients[descriptor] = AttachClient(connection)

    def _send(self, client: AttachClient) -> None:
        try:
            while client.sending:
                sent = client.connection.send(client.sending)
                del client.sending[:sent]
                client.taken += sent
                self.took = time.monotonic()
            client.late_since = 0.0
        except BlockingIOError:
            if len(client.sending) > LATE and (client.taken >= LATE or not client.late_since):
                client.late_since = time.monotonic()
                client.taken = 0
        except OSError:
            self._leave(client)

    def _receive(self, client: AttachClient) -> None:
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._leave(client)
            return
        client.received += data
        while len(client.received) >= 5:
            channel, length = struct.unpack_from(">BI", client.received)
            if length > LONGEST_FRAME:
                self._leave(client)
                return
            if len(client.received) < 5 + length:
                return
            payload = client.received[5 : 5 + length]
            client.received = client.received[5 + length :]
            self._obey(client, channel, payload)

    def _obey(self, client: AttachClient, channel: int, payload: bytes) -> None:
        if channel == STDIN:
            client.typed = True
            self.stdin.take(payload)
        elif channel == CLOSE_STDIN:
            client.typed = True
            if self.stdin.once or self.stdin.terminal:
                self.stdin.end()
        elif channel == RESIZE:
            rows, _, columns = payload.partition(b" ")
            if rows.isdigit() and columns.isdigit():
                self.stdin.resize(min(int(rows), 0xFFFF), min(int(columns), 0xFFFF))

    def _leave(self, client: AttachClient) -> None:
        if self._clients.pop(client.connection.fileno(), None) is None:
            return
        client.connection.close()
        if client.typed and self.stdin.once and not self.stdin.terminal:
            self.stdin.end()
