"""The serving certificate of the node's server, and the authorities of client certificates that it accepts.

    certificate = ServingCertificate(folder, "db-3", ["10.0.0.7"], api, clock, authorities=authority)
    async with serving(sock, certificate.context(), backends):
        await certificate.run()

It begins with a self-signed certificate, as a real kube-apiserver expects of a kubelet. Our control plane
signs one with the name by which its API servers know this node. It is requested at the start, unless one was
left by an earlier run or by the API server of the same machine, and again in the last third of its lifetime
or when its authority is replaced. Open connections stay.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from pilothouse.base.clock import Clock
from pilothouse.client import server_authorities as authorities
from pilothouse.client.api import Api
from pilothouse.client.certificate_requests import CertificateDenied, CertificateRequest, obtain
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.pki.authority import Authority, KeyPair, UnusableError
from pilothouse.pki.certificate_request import is_due, is_signed_by, new_request
from pilothouse.pki.private_files import private_folder, write_private
from pilothouse.pki.signers import NODE, NODE_SERVING, NODES, serving_name

INTERVAL = 60.0
FIRST_RETRY = 1.0
PATIENCE = 30.0
"""Seconds to wait for a decision about the request."""
_NOT_ISSUED = "the certificate of its own server, for logs and exec, is not issued yet"
log = logging.getLogger(__name__)


class ServingCertificate:
    def __init__(
        self,
        folder: Path,
        name: str,
        addresses: Sequence[str],
        api: Api,
        clock: Clock,
        *,
        authorities: bytes,
    ) -> None:
        """``authorities``: of client certificates (PEM), until the API server publishes others."""
        self._file = folder / "serving.pem"
        self._name = name
        self._addresses = addresses
        self._api = api
        self._clock = clock
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None
        self._loaded = b""
        """The certificate in the context, PEM."""
        self._issued = asyncio.Event()
        self.problem = _NOT_ISSUED
        """Why API servers can't call this node yet; empty once they can."""

    def context(self) -> ssl.SSLContext:
        """The context to serve with, kept up to date by ``run``. Raises ``OSError``."""
        if self._context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.verify_mode = ssl.CERT_OPTIONAL
            # Each connection's certificate is verified anew.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
            if self._authorities.strip():
                context.load_verify_locations(cadata=self._authorities.decode())
            self._context = context
            self._load_or_make(context)
        return self._context

    async def issued(self) -> None:
        """Wait until the server has a certificate that the API server accepts."""
        await self._issued.wait()

    async def run(self) -> None:
        retry = FIRST_RETRY
        while True:
            try:
                await self.look()
                retry = FIRST_RETRY
                await asyncio.sleep(INTERVAL)
            except (TransportError, StatusError, CertificateDenied, UnusableError, OSError) as problem:
                if not self._issued.is_set():
                    self.problem = f"{_NOT_ISSUED}: {problem}"
                log.warning(
                    "no certificate for this node's server yet, so no logs and no exec: %s; again in %g s",
                    problem,
                    retry,
                )
                await asyncio.sleep(retry)
                retry = min(2 * retry, INTERVAL)

    async def look(self) -> bool:
        """Follow changed authorities, and request a certificate if it is due; whether there is a new one."""
        trusted = await authorities.published(self._api)
        if not trusted:
            self._is_issued()
            return False  # Kubernetes, whose API server accepts a self-signed one.
        context = self.context()
        if trusted != self._authorities:
            context.load_verify_locations(cadata=trusted.decode())
            self._authorities = trusted
        mine = self._file.read_bytes()
        if mine != self._loaded:
            # The API server of the same machine has left a newer one.
            self._load(context)
        if is_signed_by(mine, trusted):
            self._is_issued()
            if not is_due(mine, self._now()):
                return False
        request = new_request(f"{NODE}{self._name}", [NODES], [serving_name(self._name)])
        wanted = CertificateRequest(NODE_SERVING, "server auth", request.pem, f"node-serving-{self._name}-")
        self._write(KeyPair(await obtain(self._api, wanted, patience=PATIENCE), request.key))
        self._load(context)
        self._is_issued()
        log.info("this node's server has a new certificate in %s", self._file)
        return True

    def _is_issued(self) -> None:
        self.problem = ""
        self._issued.set()

    def _load_or_make(self, context: ssl.SSLContext) -> None:
        try:
            if not is_due(self._file.read_bytes(), self._now()):
                self._load(context)
                return
        except (FileNotFoundError, UnusableError, ssl.SSLError):
            pass  # Missing or unusable.
        maker = Authority.make(f"{self._name}-self-signed", self._now())
        self._write(maker.serving([serving_name(self._name), self._name, *self._addresses], self._now()))
        self._load(context)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._file)
        self._loaded = self._file.read_bytes()

    def _write(self, credential: KeyPair) -> None:
        private_folder(self._file.parent)
        write_private(self._file, credential.certificate.rstrip() + b"\n" + credential.key)

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
