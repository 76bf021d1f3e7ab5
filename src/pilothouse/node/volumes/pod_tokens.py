"""The service account tokens of pods, kept fresh.

    tokens = PodTokens(api, clock, rng)
    await tokens.look()                     # of which accounts there is another by now
    await tokens.all(pod, wishes)           # each as it is now; asked for anew once four fifths of its time have passed

A token holds only while its pod and its account live: it is bound to them, not to their names. An account that was deleted and made
again is another, and knows nothing of the earlier one's tokens; so they are asked for anew as soon as that is seen. An agent that was
started anew asks for new ones.
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
    """Empty where a token does not tell."""


class _Held(msgspec.Struct, frozen=True):
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
    """The tokens of this node's pods."""

    def __init__(self, api: Api, clock: Clock, rng: Random) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._held: dict[tuple[str, TokenSource], _Held] = {}
        self._unseen: set[_Account] = set()
        """Those that the server does not let us see, which are not asked for time and again."""

    async def all(self, pod: Object, wishes: Iterable[TokenSource]) -> dict[TokenSource, str]:
        """A token for each. Raises StatusError, TransportError."""
        return {wish: await self._one(pod, wish) for wish in wishes}

    async def look(self) -> None:
        """See which accounts have been replaced. One that can't be seen counts as it was: its tokens are renewed in time."""
        held = {each.account for each in self._held.values() if each.account.uid}
        self._unseen &= held
        outdated = {account for account in held - self._unseen if await self._replaced(account)}
        for key, each in tuple(self._held.items()):
            if each.account in outdated:
                self._held[key] = msgspec.structs.replace(each, renew=0.0)

    async def _replaced(self, account: _Account) -> bool:
        try:
            found = await self._api.find(ServiceAccount, account.name, account.namespace)
        except StatusError as problem:
            log.info("service account %s/%s can't be seen: %s", account.namespace, account.name, problem)
            if problem.code == 403:
                self._unseen.add(account)
            return False
        except (TransportError, AccessError) as problem:
            log.info("service account %s/%s can't be seen: %s", account.namespace, account.name, problem)
            return False
        return found is not None and found.uid != account.uid

    def forget(self, pod_uid: str) -> None:
        """The pod is gone, and its tokens with it."""
        self._held = {key: held for key, held in self._held.items() if key[0] != pod_uid}

    async def _one(self, pod: Object, wish: TokenSource) -> str:
        now = self._clock.now()
        held = self._held.get((pod.uid, wish))
        if held is not None and now < held.renew:
            return held.token
        try:
            held = await self._minted(pod, wish, now)
        except (StatusError, TransportError, AccessError) as problem:
            if held is None or now >= held.expires:
                raise
            # The old one is good for a while, and is asked for again with the next look.
            log.warning("no new token for pod %s/%s yet: %s", pod.namespace, pod.name, problem)
        else:
            self._held[pod.uid, wish] = held
        return held.token

    async def _minted(self, pod: Object, wish: TokenSource, now: float) -> _Held:
        name = str(pod.spec.get("serviceAccountName") or "default")
        audiences = [wish.audience] if wish.audience else []
        minted = await mint_token(
            self._api, name, pod.namespace, audiences=audiences, seconds=wish.seconds, pod=pod
        )
        expires = parse_time(minted.expires)
        life = max(expires - now, 0.0)
        renew = now + min(life * _SHARE, _OLDEST) - self._rng.uniform(0, min(_JITTER, life / 10))
        account = _Account(pod.namespace, name, account_uid(minted.token))
        return _Held(minted.token, account, renew, expires)


def account_uid(token: str) -> str:
    """The uid of the account that a token was made for; empty if it does not say. The signature is the server's business."""
    claims = token.split(".")[1:2]
    try:
        raw = base64.urlsafe_b64decode(f"{claims[0]}===") if claims else b"{}"
        return msgspec.json.decode(raw, type=_Claims).kubernetes.serviceaccount.uid
    except (ValueError, msgspec.MsgspecError):
        return ""
