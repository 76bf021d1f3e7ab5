"""Many watchers of one change: how long from the PATCH until the last of them has it.

    python -m bench.api.watchers PORT COUNT PATH OBJECT     # then each line on stdin makes a change

PATH is the collection watched, OBJECT the path of the object that changes; for every line read, one merge patch is sent
and the milliseconds until the last watcher had its event are printed. Each watcher is a TLS connection of its own.

The client must not be what is measured. So arriving bytes are only taken from the kernel and stamped; they are
deciphered when nothing more comes, and a watcher's time is the stamp of the bytes that made its event complete.
"""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import sys
import time

from bench.api.access import Access, unverified
from bench.api.fetching import fetch
from bench.api.objects import DIGITS, KINDS

GIVE_UP = 60.0
IDLE = 0.02


class Stream:
    """A TLS connection whose ciphertext can be taken now and read later."""

    def __init__(self, access: Access, context: ssl.SSLContext) -> None:
        self.socket = socket.create_connection(("127.0.0.1", access.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._plain = b""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._incoming.write(self.socket.recv(65536))
        self._flush()

    def cipher(self, plain: bytes) -> bytes:
        self._tls.write(plain)
        return self._outgoing.read()

    def take(self) -> bytes:
        """Ciphertext that has arrived."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server ended a watch")
        return data

    def decipher(self, data: bytes) -> None:
        self._incoming.write(data)
        while True:
            try:
                plain = self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                return
            if not plain:
                raise ConnectionError("the server closed the connection")
            self._plain += plain

    def has(self, mark: bytes) -> bool:
        """Whether a line with the mark is complete; lines up to it are forgotten."""
        place = self._plain.find(mark)
        end = self._plain.find(b"}\n", place) if place >= 0 else -1
        if end < 0:
            return False
        self._plain = self._plain[end + 2 :]
        return True

    def read_until(self, pattern: bytes) -> re.Match[bytes]:
        while not (found := re.search(pattern, self._plain, re.DOTALL)):
            self.decipher(self.take())
        self._plain = self._plain[found.end() :]
        return found

    def _flush(self) -> None:
        self.socket.sendall(self._outgoing.read())


class Crowd:
    """Watchers of one collection, and a connection that changes one of its objects."""

    def __init__(self, access: Access, count: int, path: str, target: str) -> None:
        self._access = access
        self._target = target
        self._kind = next(kind for kind in KINDS.values() if f"/{kind.plural}" in path)
        context = unverified()
        self._writer = Stream(access, context)
        version = json.loads(fetch(access, f"{path}?limit=1", gzip=False))["metadata"]["resourceVersion"]
        watch = access.request("GET", f"{path}?watch=1&resourceVersion={version}")
        self._streams: dict[int, Stream] = {}
        self._epoll = select.epoll()
        for _ in range(count):
            stream = Stream(access, context)
            stream.socket.sendall(stream.cipher(watch))
            self._streams[stream.socket.fileno()] = stream
            self._epoll.register(stream.socket, select.EPOLLIN)
        for stream in self._streams.values():
            stream.read_until(rb"HTTP/1\.1 200 OK\r\n.*?\r\n\r\n")

    def change(self, serial: int) -> float:
        """Make a change; milliseconds until the last watcher had it."""
        digits = f"{serial:0{DIGITS}}"
        mark = f'"n":"{digits}"'.encode()
        patch = self._access.request(
            "PATCH", self._target, self._kind.patch(digits), type="application/merge-patch+json"
        )
        ciphered = self._writer.cipher(patch)
        waiting = set(self._streams)
        heard: set[int] = set()
        arrived: list[tuple[int, float, bytes]] = []
        last = 0.0
        began = time.monotonic()
        self._writer.socket.sendall(ciphered)
        while waiting:
            ready = self._epoll.poll(IDLE)
            for file, _ in ready:
                arrived.append((file, time.monotonic(), self._streams[file].take()))
                heard.add(file)
            if ready and len(heard) < len(self._streams):
                continue
            for file, stamp, data in arrived:
                stream = self._streams[file]
                stream.decipher(data)
                if file in waiting and stream.has(mark):
                    waiting.discard(file)
                    last = max(last, stamp)
            arrived.clear()
            if time.monotonic() - began > GIVE_UP:
                raise TimeoutError(f"{len(waiting)} watchers did not get the change in {GIVE_UP} s")
        self._writer.read_until(rb"HTTP/1\.1 200 OK\r\n.*" + mark + rb".*\}")
        return (last - began) * 1e3


def main(port: str, count: str, path: str, target: str) -> None:
    crowd = Crowd(Access(int(port)), int(count), path, target)
    print(json.dumps({"watching": int(count)}), flush=True)
    for serial, _ in enumerate(sys.stdin, start=int(time.time()) % 10**DIGITS):
        print(json.dumps({"milliseconds": crowd.change(serial)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
