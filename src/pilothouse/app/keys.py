"""The keys of a control plane: where they are stored, and how its instances share them.

    keys = KeyStore(keyring, given, shared=store)
    await keys.signing(), await keys.authorities(now)

A single instance creates its keys in its data folder. If several share an etcd, the first one writes its keys
to the store, below a prefix that the API does not serve, and the others read them from there: so each accepts
what any other has signed. The authorities may change while a server runs, so they are read repeatedly; the
key that signs tokens stays.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilothouse.app.options import read_file
from pilothouse.pki import authority_rotation as codec
from pilothouse.pki.authority import Authority, KeyPair, UnusableError, split_chain
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.pki.jwt import SigningKey
from pilothouse.pki.keyring import Keyring
from pilothouse.store.interface import Conflict, Entry, Store, why_unreadable

PREFIX = "/pilothouse/keys/"
AUTHORITY = f"{PREFIX}authority"
_SIGNING_FILE = "token-signing.key"
SIGNING = f"{PREFIX}{_SIGNING_FILE}"


@dataclass(frozen=True, kw_only=True)
class GivenKeys:
    """Files with keys to use instead of generated ones."""

    signing: Path | None = None
    certificate: Path | None = None
    """The authority that signs; other certificates in the file are trusted too."""
    key: Path | None = None


class KeyStore:
    def __init__(self, keyring: Keyring, given: GivenKeys, *, shared: Store | None) -> None:
        """``shared`` is the store that instances share; None if there is only one instance."""
        self._keyring = keyring
        self._given = given
        self._shared = shared

    async def signing(self) -> SigningKey:
        """The key that signs service-account tokens. Raises ``UnusableError``."""
        if self._given.signing is not None:
            return _signing_key(read_file(self._given.signing), str(self._given.signing))
        pem = self._keyring.secret(_SIGNING_FILE, lambda: SigningKey.generate().to_pem())
        if self._shared is not None:
            pem = (await agreed(self._shared, SIGNING, pem)).value
            self._keyring.keep_secret(_SIGNING_FILE, pem)
        return _signing_key(pem, str(self._keyring.folder / _SIGNING_FILE))

    async def authorities(self, now: datetime.datetime) -> Authorities:
        """The authorities as they are at this moment. Raises ``UnusableError``."""
        if self._given.certificate is not None and self._given.key is not None:
            return _given(self._given.certificate, self._given.key)
        mine = self._keyring.authorities(now)
        if self._shared is None:
            return mine
        found = decoded(await agreed(self._shared, AUTHORITY, codec.encode(mine)))
        self._keyring.keep_authorities(found)
        self._keyring.note_shared()
        return found

    def saved(self, now: datetime.datetime) -> Mapping[str, bytes]:
        """What a backup has to contain besides the store."""
        if self._shared is not None:
            return {}
        found = {}
        if self._given.certificate is None:
            found[AUTHORITY] = codec.encode(self._keyring.authorities(now))
        if self._given.signing is None:
            found[SIGNING] = self._keyring.secret(_SIGNING_FILE, lambda: SigningKey.generate().to_pem())
        return found


def keep(keyring: Keyring, saved: Mapping[str, bytes]) -> None:
    """Put keys from a backup into a folder. Raises ``UnusableError``."""
    if AUTHORITY in saved:
        keyring.keep_authorities(_checked(codec.decode(saved[AUTHORITY])))
    if SIGNING in saved:
        _signing_key(saved[SIGNING], SIGNING)
        keyring.keep_secret(_SIGNING_FILE, saved[SIGNING])


async def agreed(store: Store, key: str, mine: bytes) -> Entry:
    """The shared value: ``mine`` if none is stored yet. Raises ``UnusableError`` if unreadable."""
    while (found := await store.get(key)) is None:
        with contextlib.suppress(Conflict):
            await store.create(key, mine)
    if reason := why_unreadable(found.value):
        raise UnusableError(reason)
    return found


def decoded(entry: Entry) -> Authorities:
    """The authorities that a store holds."""
    if reason := why_unreadable(entry.value):
        raise UnusableError(reason)
    try:
        return _checked(codec.decode(entry.value))
    except UnusableError as problem:
        raise UnusableError(f"the store's {entry.key}: {problem}") from None


def _checked(authorities: Authorities) -> Authorities:
    Authority(authorities.current)
    return authorities


def _given(certificate: Path, key: Path) -> Authorities:
    try:
        first, rest = split_chain(read_file(certificate))
        return _checked(Authorities(KeyPair(first, read_file(key)), leaving=rest))
    except UnusableError as problem:
        raise UnusableError(
            f"--cluster-signing-cert-file {certificate} and --cluster-signing-key-file {key}: {problem}"
        ) from None


def _signing_key(pem: bytes, where: str) -> SigningKey:
    try:
        return SigningKey.from_pem(pem)
    except (ValueError, TypeError) as problem:
        raise UnusableError(f"{where} is not a key for signing tokens: {problem}") from None
