"""A web server of payloads that can misbehave.

with PayloadServer.running() as server:
    server.files["/k0s"] = PayloadFile(content, etag='"1"')
    server.files["/k0s"] = PayloadFile(content, cut_after=1000, faults=2)      # cut off twice, then whole
    server.files["/old"] = Redirect("https://elsewhere/k0s")
    server.url("/k0s")
    server.seen                     # the requests, with their headers
"""

from __future__ import annotations

import http.server
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.certificates import Authority


@dataclass
class PayloadFile:
    content: bytes
    etag: str = ""
    disposition: str = ""
    """The header Content-Disposition."""
    cut_after: int | None = None
    """The connection breaks after so many bytes of an answer."""
    stall_after: int | None = None
    """Nothing comes after so many bytes of an answer, until the server ends."""
    faults: int = 10**9
    """How many answers are faulty."""
    endless: bool = False
    """The content is repeated without end."""


@dataclass(frozen=True)
class Redirect:
    location: str


@dataclass(frozen=True)
class Refusal:
    status: int


@dataclass(frozen=True)
class SeenRequest:
    path: str
    headers: dict[str, str]


@dataclass
class PayloadServer:
    host: str = "127.0.0.1"
    port: int = 0
    scheme: str = "http"
    files: dict[str, PayloadFile | Redirect | Refusal] = field(default_factory=dict)
    then: dict[str, PayloadFile] = field(default_factory=dict)
    """What replaces a file after its first answer."""
    seen: list[SeenRequest] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{path}"

    @classmethod
    @contextmanager
    def running(cls, certificates: Path | None = None, *, host: str = "127.0.0.1") -> Iterator[PayloadServer]:
        """Over https with certificates of an authority in that folder (``ca.crt``), else over http."""
        server = cls(host)

        class Handler(_Handler):
            payloads = server

        with http.server.ThreadingHTTPServer((host, 0), Handler) as listening:
            listening.daemon_threads = True
            if certificates is not None:
                pair = Authority.create(certificates).server()
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(pair.cert, pair.key)
                listening.socket = context.wrap_socket(listening.socket, server_side=True)
                server.scheme = "https"
            server.port = listening.server_port
            thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield server
            finally:
                server.ended.set()
                listening.shutdown()
                thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    payloads: PayloadServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.payloads
        server.seen.append(
            SeenRequest(self.path, {name.lower(): text for name, text in self.headers.items()})
        )
        path = self.path.partition("?")[0]
        asked = server.files.get(path)
        if path in server.then:
            server.files[path] = server.then.pop(path)
        match asked:
            case None:
                self._empty(404)
            case Refusal(status):
                self._empty(status)
            case Redirect(location):
                self._empty(302, location)
            case PayloadFile() as file:
                self._send(file)

    def _empty(self, status: int, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, file: PayloadFile) -> None:
        self.close_connection = True
        offset = self._offset(file)
        content = file.content[offset:]
        self.send_response(206 if offset else 200)
        if offset:
            self.send_header("Content-Range", f"bytes {offset}-{len(file.content) - 1}/{len(file.content)}")
        if not file.endless:
            self.send_header("Content-Length", str(len(content)))
        if file.etag:
            self.send_header("ETag", file.etag)
        if file.disposition:
            self.send_header("Content-Disposition", file.disposition)
        self.end_headers()
        faulty = file.faults > 0
        file.faults -= 1
        try:
            if file.endless:
                while not self.payloads.ended.is_set():
                    self.wfile.write(content)
            elif faulty and file.cut_after is not None:
                self.wfile.write(content[: file.cut_after])
            elif faulty and file.stall_after is not None:
                self.wfile.write(content[: file.stall_after])
                self.wfile.flush()
                self.payloads.ended.wait()
            else:
                self.wfile.write(content)
        except OSError:
            return

    def _offset(self, file: PayloadFile) -> int:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = bool(file.etag) and self.headers.get("If-Range") == file.etag
        return int(found[1]) if found and same else 0

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
