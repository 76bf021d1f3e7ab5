"""The keys of a control plane, and how its instances come to have the same.

Alone, an instance makes its keys in its data folder. Where several share an etcd, the first one puts its keys into the
store, below a prefix that the API does not serve, and the others take them from there: so each accepts what any other
has signed.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass

from pilothouse.pki.authority import Authority, Credential, UnusableError
from pilothouse.pki.jwt import SigningKey
from pilothouse.pki.keyring import Keyring
from pilothouse.store.interface import Conflict, Store

PREFIX = "/pilothouse/keys/"
_AUTHORITY = "authority"
_SIGNING = "token-signing.key"


@dataclass(frozen=True)
class Keys:
    """What makes this control plane itself and no other."""

    authority: Authority
    signing: SigningKey


def own_keys(keyring: Keyring, now: datetime.datetime) -> Keys:
    """The folder's keys; made the first time."""
    pem = keyring.secret(_SIGNING, lambda: SigningKey.generate().to_pem())
    return Keys(keyring.authority(now), _signing_key(pem, str(keyring.folder / _SIGNING)))


async def agreed_keys(store: Store, keyring: Keyring, now: datetime.datetime) -> Keys:
    """The keys of all instances on a store, kept in each one's folder."""
    mine = own_keys(keyring, now)
    credential = _decode(await _agree(store, _AUTHORITY, _encode(mine.authority.credential)))
    pem = await _agree(store, _SIGNING, mine.signing.to_pem())
    keys = Keys(_authority(credential), _signing_key(pem, f"the store's {PREFIX}{_SIGNING}"))
    keyring.keep_authority(credential)
    keyring.keep_secret(_SIGNING, pem)
    return keys


async def _agree(store: Store, name: str, mine: bytes) -> bytes:
    """What every instance uses: ``mine`` if nobody was here before."""
    key = PREFIX + name
    found = await store.get(key)
    if found is None:
        try:
            await store.create(key, mine)
        except Conflict as lost:
            found = lost.current
    return mine if found is None else found.value


def _authority(credential: Credential) -> Authority:
    try:
        return Authority(credential)
    except UnusableError as problem:
        raise UnusableError(f"the store's {PREFIX}{_AUTHORITY}: {problem}") from None


def _signing_key(pem: bytes, where: str) -> SigningKey:
    try:
        return SigningKey.from_pem(pem)
    except (ValueError, TypeError) as problem:
        raise UnusableError(f"{where} is not a key for signing tokens: {problem}") from None


def _encode(credential: Credential) -> bytes:
    content = {"certificate": credential.certificate.decode(), "key": credential.key.decode()}
    return json.dumps(content).encode()


def _decode(text: bytes) -> Credential:
    try:
        content = json.loads(text)
        return Credential(content["certificate"].encode(), content["key"].encode())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnusableError(f"the store's {PREFIX}{_AUTHORITY} is not a certificate with its key") from None
