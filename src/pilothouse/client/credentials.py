"""The credentials of a long-lived client, kept up to date.

    credentials = ClientCredentials(access, SystemClock())
    shown = await credentials.current()
    shown.tls, shown.headers
    credentials.refused(shown)      # the server answered 401: log in again

Files are checked before each request, which takes microseconds, and read when they changed. While a file is
invalid, the last good content is used and a message is logged. A login program runs again before its
credential expires.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

from pilothouse.base.clock import Clock
from pilothouse.client.access import Access, AccessError, tls_context
from pilothouse.client.exec_login import Credential, log_in

EARLY = 10.0
"""Seconds before its expiry that a credential counts as expired, so that it does not run out on the way."""

Marks = tuple[tuple[int, int, int] | None, ...]

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ClientIdentity:
    """The credentials of a request. Connections of another context are not used for it."""

    tls: ssl.SSLContext
    headers: tuple[tuple[str, str], ...]


class ClientCredentials:
    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        named = (access.authority_file, access.certificate_file, access.key_file, access.token_file)
        self._files = tuple(file for file in named if file is not None)
        # ``access`` may have been read a while ago, so the first check reads again.
        self._marks: Marks = ()
        self._given: Credential | None = None
        self._shown: ClientIdentity | None = None
        self._login = asyncio.Lock()

    async def current(self) -> ClientIdentity:
        """The current credentials. Raises ``AccessError``."""
        self._look()
        if self._access.login is not None and self._is_stale():
            async with self._login:
                # Whoever waited for the lock finds that another has logged in.
                if self._is_stale():
                    self._given = await asyncio.to_thread(log_in, self._access.login, self._access)
                    self._shown = None
        if self._shown is None:
            self._shown = self._assembled()
        return self._shown

    def refused(self, shown: ClientIdentity) -> bool:
        """The server did not accept these. True if there may be others."""
        if self._access.login is None:
            return False
        if self._shown is shown:
            self._given = None
        return True

    def _is_stale(self) -> bool:
        given = self._given
        return given is None or (given.expires is not None and given.expires - EARLY <= self._clock.now())

    def _look(self) -> None:
        """Read files that have changed."""
        marks = tuple(_mark(file) for file in self._files)
        if marks == self._marks:
            return
        access = self._access
        try:
            fresh = replace(
                access,
                authority=_content(access.authority_file, access.authority),
                certificate=_content(access.certificate_file, access.certificate),
                key=_content(access.key_file, access.key),
                token=_content(access.token_file, access.token.encode()).decode().strip(),
            )
            # Certificate and key are two files: between the writing of one and the other they don't fit.
            if fresh != access:
                fresh.tls()
        except (OSError, UnicodeDecodeError, AccessError) as problem:
            log.warning("credentials can't be read again, the old ones stay in use: %s", problem)
        else:
            if fresh != access:
                self._access, self._shown = fresh, None
        self._marks = marks

    def _assembled(self) -> ClientIdentity:
        access, given = self._access, self._given or Credential()
        token = given.token or access.token
        headers = [("Authorization", f"Bearer {token}")] if token else []
        if access.impersonation is not None:
            headers += access.impersonation.headers()
        tls = tls_context(
            access.authority,
            given.certificate or access.certificate,
            given.key or access.key,
            insecure=access.insecure,
        )
        return ClientIdentity(tls, tuple(headers))


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _content(file: Path | None, inline: bytes) -> bytes:
    return inline if file is None else file.read_bytes()
