"""Who is asking: client certificates, static bearer tokens, and tokens that an issuer vouches for.

    authenticator = Authenticator(read_tokens(text, "tokens.csv"))
    authenticator.identify(certificate, "Bearer s3cret")    # User(name="alice", groups=("dev", "system:authenticated"))

The first way in that succeeds counts: certificate, then token. A credential that is presented and wrong is a 401,
never a silent fall back to anonymous. A certificate reaches this module only after TLS has verified its chain, its
dates and that it is meant for clients.

Tokens are looked up by their digest, so the time a lookup takes says nothing about how much of a guess was right.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from pilothouse.apiserver.exchange import ANONYMOUS, User
from pilothouse.meta.errors import unauthorized

AUTHENTICATED = "system:authenticated"
_UID_OID = "1.3.6.1.4.1.57683.2"
"""The subject attribute that carries a user's uid."""

Certificate = Mapping[str, Any]
"""A verified certificate as ``ssl.SSLSocket.getpeercert`` describes it."""
Issuer = Callable[[str], User | None]
"""Says whose a token is, or None if it is not one of its own that is valid now."""
Tokens = Mapping[bytes, User]
"""Users by the digest of their token."""


class TokenFileError(Exception):
    """A token file that can't be used; the message names file, line and column."""


class Authenticator:
    """Says who is behind a request."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        self._tokens = dict(tokens or {})
        self._issuers: list[Issuer] = []

    def trust(self, issuer: Issuer) -> None:
        """Take the tokens that ``issuer`` vouches for as well."""
        self._issuers.append(issuer)

    def identify(self, certified: User | None, authorization: str | None) -> User:
        """The user, given whom the connection's certificate names and the ``Authorization`` header."""
        if certified is not None:
            return certified
        if authorization is None:
            return ANONYMOUS
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self._tokens.get(_digest(token)) or self._vouched(token)
        if user is None:
            raise unauthorized()
        return user

    def _vouched(self, token: str) -> User | None:
        for issuer in self._issuers:
            user = issuer(token)
            if user is not None:
                return user
        return None


def certified_user(certificate: Certificate | None) -> User | None:
    """Whom a certificate names: the common name is the user, each organization a group. None without a name."""
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
    return _authenticated(name, uid, groups) if name else None


def read_tokens(text: str, source: str) -> Tokens:
    """The users of a static token file: lines of ``token,user,uid`` and, where there are any, ``"group,group"``.

    Empty lines and lines that begin with ``#`` are skipped. ``source`` is what messages call the file.
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
                f'{where}, column 5: one column too many; several groups go in one, quoted: "{cells[3]},{cells[4]}"'
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


def _authenticated(name: str, uid: str, groups: list[str]) -> User:
    return User(name, uid, tuple(dict.fromkeys([*groups, AUTHENTICATED])))


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
