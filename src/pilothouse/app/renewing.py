"""Certificates are looked after while the server runs.

A serving certificate that is about to expire is made again, and one that somebody replaced on disk is taken up: new
connections get it, those that are open go on with theirs. So is the administrator's kubeconfig kept valid.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable

from pilothouse.pki.keyring import Pair

INTERVAL = 60.0

log = logging.getLogger(__name__)


class Renewal:
    """Keeps a TLS context in step with its files."""

    def __init__(
        self, context: ssl.SSLContext, make: Callable[[], Pair], admit_admin: Callable[[], None]
    ) -> None:
        """``make`` says where the certificate lies, and ``admit_admin`` writes the kubeconfig; each renews on the way."""
        self._context = context
        self._make = make
        self._admit_admin = admit_admin
        self._seen = _look(make())

    def renew(self) -> bool:
        """Take up what has changed; true if anything has. What can't be used is logged, and the old one stays."""
        try:
            pair = self._make()
            seen = _look(pair)
            self._admit_admin()
            if seen == self._seen:
                return False
            self._context.load_cert_chain(pair.certificate, pair.key)
        except (OSError, ssl.SSLError) as problem:
            log.error("the serving certificate could not be renewed: %s", problem)
            return False
        self._seen = seen
        log.info("new connections get the certificate in %s", pair.certificate)
        return True

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.renew()


def _look(pair: Pair) -> tuple[bytes, bytes]:
    return pair.certificate.read_bytes(), pair.key.read_bytes()
