"""One member of the cluster, connected on demand.

    endpoint = MemberEndpoint("https://10.0.0.1:2379", tls=Tls(ca=...), confidential=False, patience=10.0)
    channel = endpoint.live or await endpoint.connected(patience=2.0)

Concurrent calls share one connection attempt. For a moment after a failure calls get the same error.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import tempfile
from urllib.parse import urlsplit

import msgspec

from pilothouse.store.etcd.channel import Channel
from pilothouse.store.etcd.grpc_status import CallFailed
from pilothouse.store.etcd.hpack import request_block
from pilothouse.store.interface import StoreError

_CONNECTING = 5.0
"""Seconds that an attempt to connect may take."""
_PAUSE = 0.1
"""Seconds after a failed attempt in which there is no other."""

_BLOCKS = 64
"""So many headers are kept: those of the methods, with a token that changes now and then."""


class Tls(msgspec.Struct, frozen=True):
    """PEM texts: whom to trust, and who we are."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None


class MemberEndpoint:
    def __init__(self, url: str, *, tls: Tls | None, confidential: bool, patience: float) -> None:
        """``confidential``: a password goes over it, so it has to be TLS, or not leave this machine."""
        parts = urlsplit(url if "//" in url else f"//{url}", scheme="https" if tls else "http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StoreError(f"{url!r} is not an etcd endpoint; one looks like https://10.0.0.1:2379")
        if parts.scheme == "http" and confidential and not _is_loopback(parts.hostname):
            raise StoreError(f"{url}: a password is sent over TLS only; use https")
        self.url = url
        self.version = ""
        """The member's version; empty until it is requested, and again after a failure."""
        self._host, self._port = parts.hostname, parts.port or 2379
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._authority = f"{host}:{self._port}"
        self._tls = _context(tls or Tls()) if parts.scheme == "https" else None
        self._patience = min(patience, _CONNECTING)
        self._blocks: dict[tuple[str, str], bytes] = {}
        self._channel: Channel | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._problem = ""
        """Why the last attempt has failed."""
        self._rests_until = 0.0

    @property
    def live(self) -> Channel | None:
        """The connection, if it takes calls."""
        channel = self._channel
        return channel if channel is not None and not channel.retired else None

    def block(self, path: str, token: str) -> bytes:
        """The headers of a call to a method, made once. Every call asks for a leader."""
        block = self._blocks.get((path, token))
        if block is None:
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            metadata = [("hasleader", "true")]
            if token:
                metadata.append(("token", token))
            block = self._blocks[path, token] = request_block(
                path, authority=self._authority, secure=self._tls is not None, metadata=metadata
            )
        return block

    async def connected(self, patience: float) -> Channel:
        """A connection that takes calls. Raises ``CallFailed``."""
        if self._connecting is None:
            if asyncio.get_running_loop().time() < self._rests_until:
                raise CallFailed("UNAVAILABLE", self._problem, arrived=False)
            self._connecting = asyncio.create_task(self._connect(), name=f"etcd-connect {self.url}")
        await asyncio.wait((self._connecting,), timeout=max(patience, 0))
        if (channel := self.live) is not None:
            return channel
        problem = f"can't connect within {patience:.3g} s" if self._connecting else self._problem
        raise CallFailed("UNAVAILABLE", problem, arrived=False)

    async def _connect(self) -> None:
        self._problem = "the connection is closed"
        try:
            self._channel = await Channel.connect(
                self._host, self._port, tls=self._tls, patience=self._patience
            )
        except (OSError, CallFailed) as error:
            self._problem = f"can't connect: {str(error) or f'no answer within {self._patience:g} s'}"
            self._rests_until = asyncio.get_running_loop().time() + _PAUSE
        finally:
            self._connecting = None

    async def close(self) -> None:
        if self._connecting is not None:
            connecting = self._connecting
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        if self._channel is not None:
            self._channel.close()


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=tls.ca.decode() if tls.ca else None)
        context.set_alpn_protocols(["h2"])
        if tls.cert and tls.key:
            # OpenSSL takes a certificate from a file only.
            with tempfile.NamedTemporaryFile() as file:
                file.write(tls.cert + b"\n" + tls.key)
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        raise StoreError(f"the certificates for etcd can't be used: {error}") from error
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
