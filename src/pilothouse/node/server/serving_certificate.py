"""The certificate of the node's own server, and whose callers' certificates it takes.

    certificate = ServingCertificate(folder, "db-3", ["10.0.0.7"], api, clock, authorities=kubeconfigs_authority)
    async with serving(host, port, certificate.context(), rooms):
        await certificate.run()

From its first moment a server has a certificate that it made itself, which is what a real kube-apiserver expects of a
kubelet. A control plane of ours signs a better one, which bears the one name by which its API servers know this node. It is asked
for as soon as the node runs, unless an earlier run or the API server of the same machine has left one, and again when it is in the last third of its life or its authority is replaced. Connections
that are open are not disturbed.
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
"""Seconds that a decision about the request is waited for."""

log = logging.getLogger(__name__)


class ServingCertificate:
    """Keeps a server's certificate good."""

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
        """``authorities`` are those whose certificates callers may show, PEM, until the API server tells of others."""
        self._file = folder / "serving.pem"
        self._name = name
        self._addresses = addresses
        self._api = api
        self._clock = clock
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None
        self._loaded = b""
        """What the context has, PEM."""
        self._issued = asyncio.Event()
        self.problem = "the certificate of its own server, for logs and exec, is not issued yet"
        """Why API servers can't call this node yet; empty once they can."""

    def context(self) -> ssl.SSLContext:
        """What to serve with; always the same, and kept up to date by ``run``. Raises ``OSError``."""
        if self._context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.verify_mode = ssl.CERT_OPTIONAL
            # Each connection's certificate is checked afresh.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
            if self._authorities.strip():
                context.load_verify_locations(cadata=self._authorities.decode())
            self._context = context
            self._load_or_make(context)
        return self._context

    async def issued(self) -> None:
        """Wait until the server has a certificate that the API server takes."""
        await self._issued.wait()

    async def run(self) -> None:
        """Ask for what is better than what there is, until cancelled."""
        retry = FIRST_RETRY
        while True:
            try:
                await self.look()
                retry = FIRST_RETRY
                await asyncio.sleep(INTERVAL)
            except (TransportError, StatusError, CertificateDenied, UnusableError, OSError) as problem:
                if not self._issued.is_set():
                    self.problem = (
                        f"the certificate of its own server, for logs and exec, is not issued yet: {problem}"
                    )
                log.warning(
                    "no certificate for this node's server yet, so no logs and no exec: %s; again in %g s",
                    problem,
                    retry,
                )
                await asyncio.sleep(retry)
                retry = min(2 * retry, INTERVAL)

    async def look(self) -> bool:
        """Take up what the API server tells, and a new certificate if it is time; whether there is a new one."""
        trusted = await authorities.published(self._api)
        if not trusted:
            self._is_issued()
            return False  # A Kubernetes, whose API server takes what we made ourselves.
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
            pass  # There is none, or none that is any good.
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
