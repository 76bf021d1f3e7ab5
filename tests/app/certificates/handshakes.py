"""TLS handshakes in memory: what a client sees, and whom a server lets in."""

from __future__ import annotations

import ssl
from pathlib import Path

from pilothouse.pki.authority import KeyPair


def shake(
    context: ssl.SSLContext, trusted: bytes, client: KeyPair | None = None, folder: Path | None = None
) -> tuple[str, str]:
    """The serial numbers of the server's certificate and of the client's. Raises ``ssl.SSLError`` if either refuses."""
    there = ssl.create_default_context(cadata=trusted.decode())
    if client is not None and folder is not None:
        pair = folder / "client.pem"
        pair.write_bytes(client.certificate + client.key)
        there.load_cert_chain(pair)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = context.wrap_bio(ours, theirs, server_side=True)
    client_side = there.wrap_bio(theirs, ours, server_hostname="localhost")
    for _ in range(5):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown, given = client_side.getpeercert(), server_side.getpeercert()
    assert shown
    return str(shown["serialNumber"]), str(given["serialNumber"]) if given else ""
