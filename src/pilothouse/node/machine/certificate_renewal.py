"""Renews the certificate of a node that joined, and follows changes of the server's certificate authorities.

    await NodeCertificateRenewal(api, "db-3", NodeCredentials(folder), clock).run()

Once a minute it fetches the authorities, and renews the certificate in the last third of its lifetime or when
another authority signs. Errors are retried; the current certificate stays in use. Clients reload changed
files.
"""

from __future__ import annotations

import asyncio
import datetime
import logging

from pilothouse.base.clock import Clock
from pilothouse.client import server_authorities
from pilothouse.client.api import Api
from pilothouse.client.certificate_requests import CertificateDenied
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.machine.bootstrap import PATIENCE, request_client_certificate
from pilothouse.node.machine.node_credentials import NodeCredentials
from pilothouse.pki.authority import UnusableError
from pilothouse.pki.certificate_request import is_due, is_signed_by
from pilothouse.pki.pinning import fingerprints

INTERVAL = 60.0

log = logging.getLogger(__name__)


class NodeCertificateRenewal:
    def __init__(self, api: Api, name: str, identity: NodeCredentials, clock: Clock) -> None:
        self._api = api
        self._name = name
        self._identity = identity
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except (TransportError, StatusError, CertificateDenied, UnusableError, OSError) as problem:
                log.warning("failed to renew the node's certificate: %s", problem)
            await asyncio.sleep(INTERVAL)

    async def look(self) -> bool:
        """Write changed authorities and a certificate that is due. Whether it was renewed."""
        trusted = await server_authorities.published(self._api)
        file = self._identity.authorities_file
        if trusted and trusted != file.read_bytes():
            fingerprints(trusted)  # Raises for content that would lock the node out.
            self._identity.write_authorities(trusted)
            log.info("the server's certificate authorities have changed; wrote %s", file)
        mine = self._identity.credential_file.read_bytes()
        now = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        if not is_due(mine, now) and (not trusted or is_signed_by(mine, trusted)):
            return False
        self._identity.write_credential(
            await request_client_certificate(self._api, self._name, patience=PATIENCE)
        )
        log.info("renewed the certificate in %s", self._identity.credential_file)
        return True
