"""Says that there is a newer version, where nothing follows a channel.

    prober = UpdateProber(api, informers.get(UpdateConfig), clock, "https://x.example.com", running="v1.2.3")
    await prober.run(election.fence)          # until cancelled

Every half hour it asks the channel ``latest`` of a server, without a token, and records one Event about the
namespace kube-system for each newer version. While there is an UpdateConfig, nothing is asked.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.api.k0s.release_versions import newer
from pilothouse.api.kind_names import CoreEvent, Namespace
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.updates.channel_client import NoOffer, ask_index
from pilothouse.updates.cluster_facts import UNKNOWN, gather
from pilothouse.updates.http_fetch import open_session

INTERVAL: Final = 1800.0
CHANNEL: Final = "latest"
_NAMESPACE: Final = "kube-system"

log = logging.getLogger(__name__)


class UpdateProber:
    def __init__(
        self,
        api: Api,
        configs: Informer,
        clock: Clock,
        server: str,
        *,
        running: str,
        storage: str = UNKNOWN,
        authorities: Mapping[str, Path] | None = None,
    ) -> None:
        """``running`` is the version to compare with where no ControlNode reports one; ``storage`` the kind
        of store; ``authorities`` the files of update servers' CAs, by host."""
        self._api = api
        self._configs = configs
        self._clock = clock
        self._server = server
        self._running = running
        self._storage = storage
        self._authorities = authorities

    async def run(self, fence: FenceOf) -> None:
        """Ask until cancelled. ``fence`` raises when this process leads no more."""
        await self._configs.synced()
        while True:
            await self.probe(fence)
            await asyncio.sleep(INTERVAL)

    async def probe(self, fence: FenceOf) -> None:
        """Ask once."""
        if any(True for _ in self._configs.cache.list()):
            return
        try:
            facts = await gather(self._api, self._clock.now(), running=self._running, storage=self._storage)
            async with open_session(self._authorities) as session:
                offer = await ask_index(session, self._server, CHANNEL, facts, "")
            if newer(offer.version, facts.version):
                await self._record(offer.version, fence)
        except NoOffer as problem:
            log.info("the update server was asked for a newer version: %s", problem)
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("a newer version can't be announced: %s", problem)

    async def _record(self, version: str, fence: FenceOf) -> None:
        system = await self._api.get(Namespace, _NAMESPACE)
        moment = format_time(self._clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _event_name(version), "namespace": _NAMESPACE},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": system.name,
                "namespace": _NAMESPACE,
                "uid": system.uid,
            },
            "type": "Normal",
            "reason": "NewVersionAvailable",
            "message": f"New version available: {version}",
            "source": {"component": "k0s"},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            await self._api.create(CoreEvent, event, fence=fence())
        except StatusError as refusal:
            if refusal.reason != "AlreadyExists":
                raise


def _event_name(version: str) -> str:
    """One for each version, so that it is announced once."""
    return f"k0s-update-probe-{re.sub('[^a-z0-9.]+', '-', version.lower()).strip('.-')}"
