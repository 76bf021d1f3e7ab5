"""How the load reaches a server: its address, and the token of one user whom every contender lets do everything."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

TOKEN = "bench-token"
TOKEN_FILE = f'{TOKEN},bench,u-bench,"system:masters"\n'
AGENT = "pilothouse-bench/1"


@dataclass(frozen=True)
class Access:
    """An HTTPS address of the loopback interface."""

    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.host}"

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        type: str = "application/json",
        gzip: bool = False,
        token: str = TOKEN,
    ) -> bytes:
        """A whole HTTP/1.1 request as it goes over the wire."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}",
            f"User-Agent: {AGENT}",
            f"Authorization: Bearer {token}",
            "Accept: application/json",
        ]
        if gzip:
            lines.append("Accept-Encoding: gzip")
        if body:
            lines += [f"Content-Type: {type}", f"Content-Length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def unverified() -> ssl.SSLContext:
    """TLS that trusts whoever answers, as wrk does: verifying costs the client, not the server that is measured."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
