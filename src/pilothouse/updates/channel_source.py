"""Finds out what the channel of an UpdateConfig offers.

    source = ChannelSource(api, clock, running=pilothouse.__version__)
    offer = await source.offer(config, fence)     # raises NoOffer

With a window the server's ``index.yaml`` is read, with a schedule its older form; with ``trustedRoot`` the
channel is a TUF repository, and what was last seen of it is kept in the cluster.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pilothouse.api.k0s.upgrade_strategies import window_of
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import Plan, Secret
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.updates.channel_client import NoOffer, ask_index, ask_legacy
from pilothouse.updates.channel_index import ChannelOffer
from pilothouse.updates.cluster_facts import UNKNOWN, gather
from pilothouse.updates.http_fetch import open_session

TOKEN_SECRET: Final = ("kube-system", "update-server-token")
TOKEN_KEY: Final = "token"
SERVER_KEY: Final = "server"
"""Optional: the server that the token is for. Without it, any server that an UpdateConfig names gets it."""


class ChannelSource:
    """Asks update servers on behalf of a cluster."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        *,
        running: str,
        storage: str = UNKNOWN,
        authorities: Mapping[str, Path] | None = None,
    ) -> None:
        """``running`` is the version to report where no ControlNode reports one; ``storage`` the kind of
        store; ``authorities`` the files of update servers' CAs, by host.
        """
        self._api = api
        self._clock = clock
        self._running = running
        self._storage = storage
        self._authorities = authorities

    async def offer(self, config: Object, fence: FenceOf) -> ChannelOffer:
        """What the channel of a config offers. Raises NoOffer."""
        try:
            return await self._asked(config, fence)
        except (StatusError, TransportError, AccessError) as problem:
            raise NoOffer(f"the API server did not answer a question about the cluster: {problem}") from None
        except OSError as problem:
            raise NoOffer(f"the channel can't be read: {problem.strerror or problem}") from None

    async def _asked(self, config: Object, fence: FenceOf) -> ChannelOffer:
        server, channel = config.spec["updateServer"], config.spec["channel"]
        token = await self._token(server)
        facts = await gather(self._api, self._clock.now(), running=self._running, storage=self._storage)
        async with open_session(self._authorities) as session:
            if config.spec.get("trustedRoot"):
                from pilothouse.updates.tuf_channel import ask_repository

                return await ask_repository(self._api, session, config, facts, token, fence)
            if window_of(config.spec["upgradeStrategy"]) is not None:
                return await ask_index(session, server, channel, facts, token)
            plan = await self._api.find(Plan, RUNNING_PLAN)
            state = str(plan.status.get("state") or "") if plan is not None else ""
            return await ask_legacy(session, server, channel, facts, token, state)

    async def _token(self, server: str) -> str:
        """The token for an update server; empty without one. Raises NoOffer if it is for another server."""
        namespace, name = TOKEN_SECRET
        secret = await self._api.find(Secret, name, namespace)
        data = (secret.tree.get("data") or {}) if secret is not None else {}
        if not data.get(TOKEN_KEY):
            return ""
        meant = _word(data, SERVER_KEY) if data.get(SERVER_KEY) else ""
        if meant and _origin(meant) != _origin(server):
            raise NoOffer(
                f"the token in Secret {namespace}/{name} is for {meant}, and spec.updateServer is another"
            )
        return _word(data, TOKEN_KEY)


def _word(data: Mapping[str, str], key: str) -> str:
    """One key of the Secret. Raises NoOffer."""
    try:
        word = base64.b64decode(data[key], validate=True).decode("ascii").strip()
    except (binascii.Error, ValueError):
        word = ""
    if not word.isprintable() or " " in word or not word:
        raise NoOffer(f"the {key} of Secret {'/'.join(TOKEN_SECRET)} is not one word of ASCII")
    return word


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url if "://" in url else f"https://{url}")
    return parts.scheme, parts.netloc
