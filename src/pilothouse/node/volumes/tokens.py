"""Tokens of a pod's service account, kept fresh.

    tokens = Tokens(api, clock, rng)
    await tokens.all(pod, wishes)           # each as it is now; asked for anew once four fifths of its time have passed

A token holds only while its pod lives (it is bound to it). An agent that was started anew asks for new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.times import parse_time
from pilothouse.client.access import AccessError
from pilothouse.client.rest import Api
from pilothouse.client.subresources import mint_token
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes.payloads import TokenWish

_SHARE: Final = 0.8
_OLDEST: Final = 24 * 3600.0
_JITTER: Final = 10.0


log = logging.getLogger(__name__)


class _Held(msgspec.Struct, frozen=True):
    token: str
    renew: float
    expires: float


class Tokens:
    """The tokens of this node's pods."""

    def __init__(self, api: Api, clock: Clock, rng: Random) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._held: dict[tuple[str, TokenWish], _Held] = {}

    async def all(self, pod: Object, wishes: Iterable[TokenWish]) -> dict[TokenWish, str]:
        """A token for each. Raises StatusError, TransportError."""
        return {wish: await self._one(pod, wish) for wish in wishes}

    def forget(self, pod_uid: str) -> None:
        """The pod is gone, and its tokens with it."""
        self._held = {key: held for key, held in self._held.items() if key[0] != pod_uid}

    async def _one(self, pod: Object, wish: TokenWish) -> str:
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

    async def _minted(self, pod: Object, wish: TokenWish, now: float) -> _Held:
        account = str(pod.spec.get("serviceAccountName") or "default")
        audiences = [wish.audience] if wish.audience else []
        minted = await mint_token(
            self._api, account, pod.namespace, audiences=audiences, seconds=wish.seconds, pod=pod
        )
        expires = parse_time(minted.expires)
        life = max(expires - now, 0.0)
        renew = now + min(life * _SHARE, _OLDEST) - self._rng.uniform(0, min(_JITTER, life / 10))
        return _Held(minted.token, renew, expires)
