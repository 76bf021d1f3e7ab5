"""Verification of service account tokens, which ``registry.token_requests`` issues.

    tokens = ServiceAccountTokens(signing_key, cache, clock)
    tokens.review(token, (AUDIENCE,))       # TokenReviewResult(user=…, audiences=…)

The signature is checked once per token; dates, and that account and bound object still exist with the same
uid, each time. An object counts as gone a minute after its deletion timestamp.
"""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

from pilothouse.apiserver.authentication.authenticator import (
    AUDIENCE,
    AUTHENTICATED,
    CREDENTIAL_ID,
    DependencyUnknownError,
    TokenReviewResult,
    UntrustedError,
)
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.server.messages import User
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import CachedValues, StoredValue
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.pki.jwt import SigningKey

T = TypeVar("T")
ISSUER = AUDIENCE
_REMEMBERED = 4096
_LEEWAY = 60.0
_ACCOUNTS = "system:serviceaccounts"
_EXTRA = "authentication.kubernetes.io/"


class BoundReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """An object that a token depends on, or names."""

    name: str
    uid: str = ""


class PrivateClaims(msgspec.Struct, frozen=True, omit_defaults=True):
    """Kubernetes' own claims."""

    namespace: str
    serviceaccount: BoundReference
    pod: BoundReference | None = None
    secret: BoundReference | None = None
    node: BoundReference | None = None
    """What the token is bound to if there is no pod; else where the pod was when the token was made."""


class TokenClaims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: tuple[str, ...]
    iat: int
    nbf: int
    exp: int
    jti: str
    kubernetes: PrivateClaims = msgspec.field(name="kubernetes.io")


class VerifiedToken(msgspec.Struct, frozen=True):
    """A token whose signature is ours."""

    claims: TokenClaims
    user: User


class BoundObjectState(msgspec.Struct, frozen=True):
    """The relevant fields of an object at one revision."""

    revision: int
    uid: str
    gone: float
    """When it counts as gone; infinity unless it is being deleted."""


class ServiceAccountTokens:
    def __init__(self, key: SigningKey, guesses: CachedValues, clock: Clock) -> None:
        self._key = key
        self._guesses = guesses
        self._clock = clock
        self._known: dict[str, VerifiedToken] = {}
        self._seen: dict[str, BoundObjectState] = {}

    def review(self, token: str, audiences: tuple[str, ...]) -> TokenReviewResult | None:
        """The user of a token; None if it is not ours. Raises ``UntrustedError`` if it is not valid now."""
        if token.count(".") != 2:
            return None
        known = self._known.get(token) or self._learn(token)
        claims = known.claims
        if claims.iss != ISSUER:
            return None
        now = self._clock.now()
        if now >= claims.exp:
            raise _untrusted("service account token has expired")
        if now < claims.nbf:
            raise _untrusted("service account token is not valid yet")
        meant = tuple(each for each in claims.aud if each in audiences)
        if not meant:
            raise _untrusted(
                f"token audiences {_quoted(claims.aud)} is invalid for the target audiences "
                f"{_quoted(audiences)}"
            )
        private = claims.kubernetes
        self._find("serviceaccounts", private.namespace, private.serviceaccount, now)
        if private.secret is not None:
            self._find("secrets", private.namespace, private.secret, now)
        if private.pod is not None:
            self._find("pods", private.namespace, private.pod, now)
        elif private.node is not None:
            self._find("nodes", "", private.node, now)
        return TokenReviewResult(known.user, meant)

    def _learn(self, token: str) -> VerifiedToken:
        try:
            claims = msgspec.convert(self._key.verify(token), TokenClaims)
        except ValueError as problem:
            raise _untrusted(str(problem)) from None
        private = claims.kubernetes
        groups = (_ACCOUNTS, f"{_ACCOUNTS}:{private.namespace}", AUTHENTICATED)
        known = VerifiedToken(claims, User(claims.sub, private.serviceaccount.uid, groups, _extra(claims)))
        _remember(self._known, token, known)
        return known

    def _find(self, plural: str, namespace: str, wanted: BoundReference, now: float) -> None:
        """Check that an object exists and is the one that the token was issued for."""
        key = f"{ROOT}{plural}/{namespace}/{wanted.name}" if namespace else f"{ROOT}{plural}/{wanted.name}"
        found = self._guesses.peek(key)
        if found is None:
            raise DependencyUnknownError(_message(f'{plural} "{wanted.name}" not found'))
        seen = self._seen.get(key)
        if seen is None or seen.revision != found.revision:
            seen = _look(found)
            _remember(self._seen, key, seen)
        if seen.uid != wanted.uid:
            detail = f"UID ({seen.uid}) does not match the token's ({wanted.uid})"
            raise DependencyUnknownError(
                _message(f'{plural} "{wanted.name}" is another one now: its {detail}')
            )
        if now > seen.gone:
            raise _untrusted("service account token has been invalidated")


def _look(found: StoredValue) -> BoundObjectState:
    metadata = codec.decode(found.value)["metadata"]
    going = metadata.get("deletionTimestamp")
    return BoundObjectState(
        found.revision, metadata["uid"], parse_time(going) + _LEEWAY if going else math.inf
    )


def _remember(memory: dict[str, T], key: str, value: T) -> None:
    """Cache a value, evicting the oldest."""
    if len(memory) >= _REMEMBERED:
        del memory[next(iter(memory))]
    memory[key] = value


def _extra(claims: TokenClaims) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims.jti}",)}
    for what, reference in (("node", claims.kubernetes.node), ("pod", claims.kubernetes.pod)):
        if reference is not None:
            extra[f"{_EXTRA}{what}-name"] = (reference.name,)
            if reference.uid:
                extra[f"{_EXTRA}{what}-uid"] = (reference.uid,)
    return extra


def _untrusted(why: str) -> UntrustedError:
    return UntrustedError(_message(why))


def _message(why: str) -> str:
    return f"[invalid bearer token, {why}]"


def _quoted(audiences: tuple[str, ...]) -> str:
    return f"[{' '.join(msgspec.json.encode(each).decode() for each in audiences)}]"
