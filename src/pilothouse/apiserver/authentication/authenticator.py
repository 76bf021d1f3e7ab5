"""Authentication: client certificates, static bearer tokens, and tokens of an issuer.

    authenticator = Authenticator(read_tokens(text, "tokens.csv"))
    authenticator.identify(certificate, "Bearer s3cret")    # User("alice", groups=("dev", …))
    authenticator.review("s3cret", (AUDIENCE,))             # the same, and the audiences of the token

A certificate, which TLS has verified, precedes a token. An invalid credential is a 401, never anonymous.
Issuers read the cache, which may be slightly stale; a token that refers to an object unknown there is
reviewed again by ``identify_surely`` once the cache is fresh. Tokens are looked up by digest, so timing
reveals nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import msgspec

from pilothouse.apiserver.server.messages import ANONYMOUS, User
from pilothouse.meta.errors import unauthorized

AUTHENTICATED = "system:authenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
"""Identifies one of several credentials of a user, in reviews and in the audit trail."""
_UID_OID = "1.3.6.1.4.1.57683.2"
"""The subject attribute that carries a user's uid."""

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""Whom tokens are for that let their bearer in here."""

Certificate = Mapping[str, Any]
"""A verified certificate as ``ssl.SSLSocket.getpeercert`` describes it."""
Tokens = Mapping[bytes, User]
"""Users by the digest of their token."""


class TokenFileError(Exception):
    """A token file that can't be used; the message names file, line and column."""


class TokenReviewResult(msgspec.Struct, frozen=True):
    """The user of a token, and which of the requested audiences it is for."""

    user: User
    audiences: tuple[str, ...]


class UntrustedError(Exception):
    """A token that is not valid now; the message says why, for token reviews."""


class DependencyUnknownError(UntrustedError):
    """A token that is valid except that an object it depends on is not in the cache, perhaps not yet."""


Issuer = Callable[[str, tuple[str, ...]], TokenReviewResult | None]
"""The user of a token, or None if it is not this issuer's. Raises ``UntrustedError`` if it is invalid now, or
for none of the audiences."""
CatchUp = Callable[[], Awaitable[bool]]
"""Waits until an issuer sees everything that was written before."""


class Authenticator:
    def __init__(self, tokens: Tokens | None = None, *, anonymous: bool = True) -> None:
        """Unless ``anonymous`` is allowed, a request without credentials is a 401."""
        self._tokens = dict(tokens or {})
        self._anonymous = anonymous
        self._issuers: list[tuple[Issuer, CatchUp]] = []

    def trust(self, issuer: Issuer, catch_up: CatchUp) -> None:
        """Accept the tokens of an issuer as well."""
        self._issuers.append((issuer, catch_up))

    def identify(self, certified: User | None, authorization: str | None) -> User:
        """The user, from the connection's certificate and the ``Authorization`` header; or 401.

        Raises ``DependencyUnknownError`` if ``identify_surely`` may give another answer.
        """
        if certified is not None:
            return certified
        if authorization is None:
            return self._anonymous_user()
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return self._anonymous_user()
        try:
            return self.review(token).user
        except DependencyUnknownError:
            raise
        except UntrustedError:
            raise unauthorized() from None

    async def identify_surely(self, certified: User | None, authorization: str | None) -> User:
        """As ``identify``, with a fresh cache."""
        await self._catch_up()
        try:
            return self.identify(certified, authorization)
        except DependencyUnknownError:
            raise unauthorized() from None

    def review(self, token: str, audiences: tuple[str, ...] = (AUDIENCE,)) -> TokenReviewResult:
        """The user of a token, and which of these audiences it is for. Raises ``UntrustedError``."""
        user = self._tokens.get(_digest(token))
        if user is not None and AUDIENCE in audiences:
            return TokenReviewResult(user, (AUDIENCE,))
        for issuer, _ in self._issuers:
            vouched = issuer(token, audiences)
            if vouched is not None:
                return vouched
        raise UntrustedError("invalid bearer token")

    async def review_surely(self, token: str, audiences: tuple[str, ...]) -> TokenReviewResult:
        """As ``review``, with a fresh cache. Raises ``UntrustedError``."""
        try:
            return self.review(token, audiences)
        except DependencyUnknownError:
            await self._catch_up()
        return self.review(token, audiences)

    async def _catch_up(self) -> None:
        for _, catch_up in self._issuers:
            await catch_up()

    def _anonymous_user(self) -> User:
        if not self._anonymous:
            raise unauthorized()
        return ANONYMOUS


def certified_user(certificate: Certificate | None, encoded: bytes | None = None) -> User | None:
    """The user of a certificate: common name, and organizations as groups. None without a name.

    ``encoded`` is the certificate in DER, whose digest identifies the credential.
    """
    name = uid = ""
    groups: list[str] = []
    for relative in (certificate or {}).get("subject", ()):
        for attribute, value in relative:
            if attribute == "commonName":
                name = value
            elif attribute == "organizationName":
                groups.append(value)
            elif attribute == _UID_OID:
                uid = value
    if not name:
        return None
    extra = {CREDENTIAL_ID: (f"X509SHA256={sha256(encoded).hexdigest()}",)} if encoded else {}
    return _authenticated(name, uid, groups, extra)


def read_tokens(text: str, source: str) -> Tokens:
    """The users of a static token file: lines of ``token,user,uid`` and optionally ``"group,group"``.

    Empty lines and ``#`` comments are skipped. ``source`` names the file in messages.
    """
    tokens: dict[bytes, User] = {}
    lines: dict[bytes, int] = {}
    rows = csv.reader(io.StringIO(text), strict=True)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return tokens
        except csv.Error as problem:
            raise TokenFileError(f"{source}, line {rows.line_num}: {problem}") from None
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        where = f"{source}, line {rows.line_num}"
        if len(cells) < 3:
            raise TokenFileError(f'{where}: {len(cells)} of the columns token,user,uid[,"group,group"]')
        if len(cells) > 4:
            raise TokenFileError(
                f"{where}, column 5: one column too many; several groups go in one, quoted: "
                f'"{cells[3]},{cells[4]}"'
            )
        for column, (cell, meaning) in enumerate(zip(cells, ("token", "user"), strict=False), 1):
            if not cell:
                raise TokenFileError(f"{where}, column {column}: the {meaning} is empty")
        digest = _digest(cells[0])
        if digest in tokens:
            raise TokenFileError(f"{where}, column 1: the token of line {lines[digest]} again")
        groups = [group.strip() for group in cells[3].split(",") if group.strip()] if len(cells) == 4 else []
        tokens[digest] = _authenticated(cells[1], cells[2], groups)
        lines[digest] = rows.line_num


def _authenticated(
    name: str, uid: str, groups: list[str], extra: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> User:
    return User(name, uid, tuple(dict.fromkeys([*groups, AUTHENTICATED])), extra)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
