"""The key folder of a control plane.

    keyring = Keyring(folder)
    authority = keyring.authority(now)
    keyring.serving(authority, names, now)      # Pair(certificate=…/apiserver.crt, key=…/apiserver.key)
    keyring.node("laptop", authority, now)

Certificates that are missing, about to expire, of another authority or for other names are created again. The
authority is never replaced: all who trust it would be locked out.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pilothouse.pki import authority_files
from pilothouse.pki.authority import Authority, KeyPair, UnusableError, common_name_of, names_of
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.pki.private_files import private_folder, write_private
from pilothouse.pki.signers import NODE, NODES

AUTHORITY = "pilothouse-ca"
ADMIN_GROUP = "system:masters"
PEER, PEERS_GROUP = "pilothouse:apiserver", "pilothouse:apiservers"
"""The user and group of instances towards each other."""
MANAGER, MANAGERS_GROUP = "pilothouse:controller-manager", "pilothouse:controller-managers"
"""As whom our controllers act."""
_SERVING = "apiserver"
_NODE = "node"
_SHARED = "ca.shared"
_CLIENTS = {
    "admin": ("admin", ADMIN_GROUP),
    "controller-manager": (MANAGER, MANAGERS_GROUP),
    "peer": (PEER, PEERS_GROUP),
}


@dataclass(frozen=True)
class Pair:
    """The paths of a certificate and its key."""

    certificate: Path
    key: Path


class Keyring:
    """Keys and certificates in a folder that only its owner may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = private_folder(folder)

    @property
    def authority_file(self) -> Path:
        """The certificate of the authority that signs."""
        return self._pair("ca").certificate

    @property
    def shared(self) -> bool:
        """Whether the authorities are stored elsewhere, and these are copies."""
        return (self.folder / _SHARED).exists()

    def note_shared(self) -> None:
        """Record that the authorities are stored elsewhere."""
        if not self.shared:
            write_private(
                self.folder / _SHARED, b"ca.crt and ca.key are copies; the store has the originals\n"
            )

    def authorities(self, now: datetime.datetime) -> Authorities:
        """The folder's authorities; one is made the first time."""
        found = authority_files.read(self.folder)
        if found is None:
            found = Authorities(Authority.make(AUTHORITY, now).credential)
            authority_files.write(self.folder, found)
        return found

    def keep_authorities(self, authorities: Authorities) -> None:
        """Store authorities that come from elsewhere, or were rotated."""
        authority_files.write(self.folder, authorities)

    def authority(self, now: datetime.datetime) -> Authority:
        """The signing one."""
        authority = Authority(self.authorities(now).current)
        if authority.expiring(now):
            raise UnusableError(
                f"{self._pair('ca').certificate} is not valid at this time; correct the clock, or replace it "
                "with `pilothouse certs rotate-ca`"
            )
        return authority

    def serving(self, authority: Authority, names: Collection[str], now: datetime.datetime) -> Pair:
        """The server's certificate, for exactly these host names and addresses."""
        wanted = frozenset(names)
        return self._current(
            _SERVING,
            lambda kept: authority.stands_behind(kept, now) and names_of(kept) == wanted,
            lambda: authority.serving(sorted(wanted), now),
        )

    def admin(self, authority: Authority, now: datetime.datetime) -> KeyPair:
        """The administrator's certificate and key."""
        pair = self._client("admin", authority, now)
        return KeyPair(pair.certificate.read_bytes(), pair.key.read_bytes())

    def peer(self, authority: Authority, now: datetime.datetime) -> Pair:
        """The certificate that this instance shows to the others."""
        return self._client("peer", authority, now)

    def controller_manager(self, authority: Authority, now: datetime.datetime) -> Pair:
        """The certificate of a controller-manager on this machine."""
        return self._client("controller-manager", authority, now)

    def node(self, name: str, authority: Authority, now: datetime.datetime) -> Pair:
        """The certificate of a node of this name on this machine."""
        user = f"{NODE}{name}"
        return self._current(
            _NODE,
            lambda kept: (
                _fits_clients(kept) and authority.stands_behind(kept, now) and common_name_of(kept) == user
            ),
            lambda: authority.client(user, [NODES], now),
        )

    def renew(self, authority: Authority, now: datetime.datetime) -> list[str]:
        """Renew every certificate of the folder, whatever its age; their names."""
        made: list[str] = []
        serving = self._read(_SERVING)
        if serving is not None:
            self._write(_SERVING, authority.serving(sorted(names_of(serving)), now))
            made.append(_SERVING)
        for name, (user, group) in _CLIENTS.items():
            if self._read(name) is not None:
                self._write(name, authority.client(user, [group], now))
                made.append(name)
        node = self._read(_NODE)
        if node is not None:
            self._write(_NODE, authority.client(common_name_of(node), [NODES], now))
            made.append(_NODE)
        return made

    def secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A key of any form; created the first time."""
        file = self.folder / name
        if not file.exists():
            write_private(file, make())
        return file.read_bytes()

    def keep_secret(self, name: str, content: bytes) -> None:
        """Store a key that comes from elsewhere."""
        file = self.folder / name
        if not file.exists() or file.read_bytes() != content:
            write_private(file, content)

    def _client(self, name: str, authority: Authority, now: datetime.datetime) -> Pair:
        user, group = _CLIENTS[name]
        return self._current(
            name,
            lambda kept: _fits_clients(kept) and authority.stands_behind(kept, now),
            lambda: authority.client(user, [group], now),
        )

    def _current(self, name: str, good: Callable[[KeyPair], bool], make: Callable[[], KeyPair]) -> Pair:
        kept = self._read(name)
        if kept is None or not good(kept):
            self._write(name, make())
        return self._pair(name)

    def _pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _read(self, name: str) -> KeyPair | None:
        pair = self._pair(name)
        try:
            return KeyPair(pair.certificate.read_bytes(), pair.key.read_bytes())
        except FileNotFoundError:
            return None

    def _write(self, name: str, credential: KeyPair) -> None:
        """The key goes first: after a crash in between there is no certificate, and both are made again."""
        pair = self._pair(name)
        write_private(pair.key, credential.key)
        write_private(pair.certificate, credential.certificate)


def _fits_clients(kept: KeyPair) -> bool:
    """Whether the key is in the form that every client reads; earlier versions wrote PKCS#8."""
    return b"BEGIN EC PRIVATE KEY" in kept.key
