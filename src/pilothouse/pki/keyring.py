"""The key folder of a control plane: its authority, the server's certificate, the administrator's.

    keyring = Keyring(folder)
    authority = keyring.authority(now)
    keyring.serving(authority, names, now)      # Pair(certificate=…/apiserver.crt, key=…/apiserver.key)
    keyring.admin(authority, now)

What is there and good is kept; what is missing, about to expire, signed by another authority or made for other names
is made again. The authority is the exception: it is never replaced silently, since everyone who trusts it would be
locked out.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pilothouse.pki.authority import Authority, Credential, UnusableError, names_of
from pilothouse.pki.files import private_folder, write_private

ADMIN_GROUP = "system:masters"
PEER, PEERS_GROUP = "pilothouse:apiserver", "pilothouse:apiservers"
"""As whom instances ask each other."""


@dataclass(frozen=True)
class Pair:
    """Where a certificate and its key lie."""

    certificate: Path
    key: Path


class Keyring:
    """Keys and certificates in a folder that only its owner may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)

    @property
    def authority_file(self) -> Path:
        """The authority's certificate, for whoever verifies what it signed."""
        return self._pair("ca").certificate

    def stored_authority(self) -> Credential | None:
        """The authority's certificate and key, if they lie in the folder."""
        return self._read("ca")

    def keep_authority(self, credential: Credential) -> None:
        """Put an authority that comes from elsewhere into the folder."""
        if credential != self._read("ca"):
            self._write("ca", credential)

    def authority(self, now: datetime.datetime) -> Authority:
        """The folder's authority; made the first time."""
        where = self._pair("ca")
        credential = self._read("ca")
        if credential is None and where.certificate.exists():
            raise UnusableError(
                f"{where.key} is missing; put it back, or give the certificates to use with "
                "--client-ca-file, --tls-cert-file and --tls-private-key-file"
            )
        if credential is None:
            authority = Authority.make("pilothouse-ca", now)
            self._write("ca", authority.credential)
            return authority
        try:
            authority = Authority(credential)
        except UnusableError as problem:
            raise UnusableError(f"{where.certificate} and {where.key}: {problem}") from None
        if authority.expiring(now):
            raise UnusableError(
                f"{where.certificate} is not valid at this time; set the clock right, or remove the folder "
                f"{self.folder} to have a new authority made, which all clients then have to trust anew"
            )
        return authority

    def serving(self, authority: Authority, names: Collection[str], now: datetime.datetime) -> Pair:
        """The server's certificate, for exactly these host names and addresses."""
        wanted = frozenset(names)
        return self._current(
            "apiserver",
            lambda kept: authority.stands_behind(kept, now) and names_of(kept) == wanted,
            lambda: authority.serving(sorted(wanted), now),
        )

    def admin(self, authority: Authority, now: datetime.datetime) -> Credential:
        """The administrator's certificate and key."""
        pair = self._current(
            "admin",
            lambda kept: authority.stands_behind(kept, now),
            lambda: authority.client("admin", [ADMIN_GROUP], now),
        )
        return Credential(pair.certificate.read_bytes(), pair.key.read_bytes())

    def peer(self, authority: Authority, now: datetime.datetime) -> Pair:
        """What this instance shows to the others that share its authority."""
        return self._current(
            "peer",
            lambda kept: authority.stands_behind(kept, now),
            lambda: authority.client(PEER, [PEERS_GROUP], now),
        )

    def secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A key of any form; made the first time."""
        file = self.folder / name
        if not file.exists():
            write_private(file, make())
        return file.read_bytes()

    def keep_secret(self, name: str, content: bytes) -> None:
        """Put a key that comes from elsewhere into the folder."""
        file = self.folder / name
        if not file.exists() or file.read_bytes() != content:
            write_private(file, content)

    def _current(self, name: str, good: Callable[[Credential], bool], make: Callable[[], Credential]) -> Pair:
        kept = self._read(name)
        if kept is None or not good(kept):
            self._write(name, make())
        return self._pair(name)

    def _pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _read(self, name: str) -> Credential | None:
        pair = self._pair(name)
        try:
            return Credential(pair.certificate.read_bytes(), pair.key.read_bytes())
        except FileNotFoundError:
            return None

    def _write(self, name: str, credential: Credential) -> None:
        """The key goes first: a crash between the two leaves no certificate, and both are made again."""
        pair = self._pair(name)
        write_private(pair.key, credential.key)
        write_private(pair.certificate, credential.certificate)
