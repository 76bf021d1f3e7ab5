"""An update server whose answers a test writes, and which remembers what it was asked.

with serving_channel({"/stable/index.yaml": Answer(index("v1.2.3"))}) as server:
    server.url
    server.asked[0].headers["K0S_ClusterID"]
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

AMD64 = "linux-amd64"
SHA256 = "ab" * 32


@dataclass(frozen=True)
class Answer:
    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    path: str
    headers: Message


class ChannelServer:
    def __init__(self, url: str, answers: dict[str, Answer], asked: list[Asked]) -> None:
        self.url = url
        self.answers = answers
        """By path, without the query. A path that has none is answered from ``folder``, else by 404."""
        self.asked = asked


def index(version: str, *platforms: str, url: str = "https://dl.example.com/k0s", airgap: str = "") -> str:
    """An ``index.yaml``."""
    lines = ["channel: stable", "eolDate: 2030-01-01", f"version: {version}", "downloadURLs:"]
    for platform in platforms or (AMD64,):
        system, arch = platform.split("-")
        lines += [
            f"- arch: {arch}", f"  os: {system}", f"  k0s: {url}-{version}-{arch}", f"  k0sSha256: {SHA256}",
        ]  # fmt: skip
        if airgap:
            lines += [f"  airgapBundle: {airgap}-{arch}", f"  airgapSha256: {SHA256}"]
    return "\n".join(lines) + "\n"


def legacy(version: str, url: str = "https://dl.example.com/k0s") -> str:
    """An answer of the older form."""
    return (
        f"version: {version}\ndownloadURLs:\n  k0s:\n    {AMD64}: {url}\n  airgap:\n    {AMD64}: {url}.tar\n"
    )


@contextmanager
def serving_channel(
    answers: Mapping[str, Answer] | None = None, folder: Path | None = None
) -> Iterator[ChannelServer]:
    asked: list[Asked] = []
    known = dict(answers or {})

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(Asked(self.path, self.headers))
            path = urlsplit(self.path).path
            answer = known.get(path)
            if answer is None:
                file = (folder / path.lstrip("/")) if folder is not None else None
                found = file is not None and file.is_file()
                answer = Answer(file.read_bytes()) if file is not None and found else Answer("", 404)
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield ChannelServer(f"http://127.0.0.1:{server.server_port}", known, asked)
        finally:
            server.shutdown()
            thread.join()
