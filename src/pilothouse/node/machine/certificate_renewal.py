"""A node that joined keeps its certificate good, and learns of new authorities, for as long as it runs.

    await NodeCertificateRenewal(api, "db-3", NodeCredentials(folder), clock).run()

Once a minute it asks the server which authorities there are, and takes a new certificate when its own is in the last third
of its life, or was not signed by the authority that signs now. The client reads the files anew when they change, so nothing
is interrupted. What goes wrong is logged and tried again; what the node has stays in use.
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
    """Looks after the files of one node."""

    def __init__(self, api: Api, name: str, identity: NodeCredentials, clock: Clock) -> None:
        self._api = api
        self._name = name
        self._identity = identity
        self._clock = clock

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            try:
                await self.look()
            except (TransportError, StatusError, CertificateDenied, UnusableError, OSError) as problem:
                log.warning("the node's certificate could not be looked after: %s", problem)
            await asyncio.sleep(INTERVAL)

    async def look(self) -> bool:
        """Take up new authorities, and a new certificate if it is time; whether there is a new certificate."""
        trusted = await server_authorities.published(self._api)
        file = self._identity.authorities_file
        if trusted and trusted != file.read_bytes():
            fingerprints(trusted)  # Raises for what would lock us out.
            self._identity.write_authorities(trusted)
            log.info("the server's authorities have changed; %s has them", file)
        mine = self._identity.credential_file.read_bytes()
        now = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        if not is_due(mine, now) and (not trusted or is_signed_by(mine, trusted)):
            return False
        self._identity.write_credential(
            await request_client_certificate(self._api, self._name, patience=PATIENCE)
        )
        log.info("there is a new certificate in %s", self._identity.credential_file)
        return True
