"""Renews certificates while the server runs.

It renews certificates that are about to expire, and loads what was replaced: files on disk, or the
authorities, which all instances that share them change at the same time. Open connections continue, unless an
authority is no longer trusted: then clients with certificates have to reconnect. Unusable files are logged,
and the server continues with what it has.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

from pilothouse.apiserver.server.reloadable_tls import ReloadableContext
from pilothouse.app.options import StartError
from pilothouse.app.server_identity import ServerIdentity
from pilothouse.pki.authority import DAY, UnusableError
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.store.interface import StoreError

INTERVAL = 60.0
WARN_BEFORE = 180
"""Days before the expiry of an authority from which a daily warning is logged."""

log = logging.getLogger(__name__)


class CertificateRenewal:
    def __init__(
        self,
        identity: ServerIdentity,
        live: ReloadableContext,
        authorities: Callable[[], Awaitable[Authorities]],
        url: str,
        dismiss: Callable[[], None],
    ) -> None:
        """``authorities`` returns the current ones; ``dismiss`` closes the connections of a certificate."""
        self._identity = identity
        self._live = live
        self._authorities = authorities
        self._url = url
        self._dismiss = dismiss
        self._seen = identity.looks
        self._trusted = identity.client_authorities
        self._warned = WARN_BEFORE

    async def renew(self) -> bool:
        """Load what has changed. Returns whether the certificate of connections changed."""
        identity = self._identity
        try:
            identity.adopt(await self._authorities())
            seen, trusted = identity.looks, identity.client_authorities
            identity.admit(self._url)
            if seen != self._seen:
                self._live.replace(identity.tls())
        except (OSError, ssl.SSLError, StartError, UnusableError, StoreError) as problem:
            log.error("certificates could not be renewed: %s", problem)
            return False
        self._warn()
        if seen == self._seen:
            return False
        if self._trusted - trusted:
            self._dismiss()
        self._seen, self._trusted = seen, trusted
        log.info("new connections get the certificate in %s", identity.pair().certificate)
        return True

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await self.renew()

    def _warn(self) -> None:
        left = (self._identity.authority.expires - self._identity.now()) // DAY
        if left < self._warned:
            self._warned = left
            log.warning(
                "the authority expires in %d days, and with it every certificate it signed; see `pilothouse "
                "certs rotate-ca`",
                left,
            )
