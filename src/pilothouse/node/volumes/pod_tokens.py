"""The service account tokens of pods, kept fresh.

    tokens = PodTokens(api, clock, rng)
    await tokens.look()                     # which accounts were replaced
    await tokens.all(pod, sources)          # current tokens, renewed after four fifths of their lifetime

A token is bound to the uids of its pod and its account, so tokens are renewed as soon as an account was
deleted and created again. A restarted agent requests new ones.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable
from random import Random
from typing import Final, NamedTuple

import msgspec

from pilothouse.api.kind_names import ServiceAccount
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.subresources import mint_token
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.projected_files import TokenSource

_SHARE: Final = 0.8
_OLDEST: Final = 24 * 3600.0
_JITTER: Final = 10.0

log = logging.getLogger(__name__)


class _Account(NamedTuple):
    namespace: str
    name: str
    uid: str
    """Empty if the token has none."""


class _CachedToken(msgspec.Struct, frozen=True):
    token: str
    account: _Account
    renew: float
    expires: float


class _Named(msgspec.Struct, frozen=True):
    uid: str = ""


class _Private(msgspec.Struct, frozen=True):
    serviceaccount: _Named = _Named()


class _Claims(msgspec.Struct, frozen=True):
    kubernetes: _Private = msgspec.field(name="kubernetes.io", default=_Private())


class PodTokens:
    def __init__(self, api: Api, clock: Clock, rng: Random) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._held: dict[tuple[str, TokenSource], _CachedToken] = {}
        self._unseen: set[_Account] = set()
        """Accounts that the server does not let us read; not tried again."""

    async def all(self, pod: Object, sources: Iterable[TokenSource]) -> dict[TokenSource, str]:
        """A token for each source. Raises StatusError, TransportError."""
        return {source: await self._one(pod, source) for source in sources}

    async def look(self) -> None:
        """Find replaced accounts. For one that can't be read, the cached tokens stay valid."""
        held = {each.account for each in self._held.values() if each.account.uid}
        self._unseen &= held
        outdated = {account for account in held - self._unseen if await self._replaced(account)}
        for key, each in tuple(self._held.items()):
            if each.account in outdated:
                self._held[key] = msgspec.structs.replace(each, renew=0.0)

    async def _replaced(self, account: _Account) -> bool:
        try:
            found = await self._api.find(ServiceAccount, account.name, account.namespace)
        except (StatusError, TransportError, AccessError) as problem:
            log.info("failed to read service account %s/%s: %s", account.namespace, account.name, problem)
            if isinstance(problem, StatusError) and problem.code == 403:
                self._unseen.add(account)
            return False
        return found is not None and found.uid != account.uid

    def forget(self, pod_uid: str) -> None:
        self._held = {key: held for key, held in self._held.items() if key[0] != pod_uid}

    async def _one(self, pod: Object, source: TokenSource) -> str:
        now = self._clock.now()
        held = self._held.get((pod.uid, source))
        if held is not None and now < held.renew:
            return held.token
        try:
            held = await self._minted(pod, source, now)
        except (StatusError, TransportError, AccessError) as problem:
            if held is None or now >= held.expires:
                raise
            # The old one is still valid; the next refresh tries again.
            log.warning("no new token for pod %s/%s yet: %s", pod.namespace, pod.name, problem)
        else:
            self._held[pod.uid, source] = held
        return held.token

    async def _minted(self, pod: Object, source: TokenSource, now: float) -> _CachedToken:
        name = str(pod.spec.get("serviceAccountName") or "default")
        audiences = [source.audience] if source.audience else []
        minted = await mint_token(
            self._api, name, pod.namespace, audiences=audiences, seconds=source.seconds, pod=pod
        )
        expires = parse_time(minted.expires)
        life = max(expires - now, 0.0)
        renew = now + min(life * _SHARE, _OLDEST) - self._rng.uniform(0, min(_JITTER, life / 10))
        account = _Account(pod.namespace, name, account_uid(minted.token))
        return _CachedToken(minted.token, account, renew, expires)


def account_uid(token: str) -> str:
    """The uid of a token's account; empty if it has none. The signature is not verified."""
    claims = token.split(".")[1:2]
    try:
        raw = base64.urlsafe_b64decode(f"{claims[0]}===") if claims else b"{}"
        return msgspec.json.decode(raw, type=_Claims).kubernetes.serviceaccount.uid
    except (ValueError, msgspec.MsgspecError):
        return ""
