"""The pilots of one cluster: who they are, and which of them leads.

    crew = Crew(api, pilot, clock, rng, stands=True, changed=wake)
    task = group.create_task(crew.run())
    crew.leads, crew.leader, crew.pilots
    crew.tell(serves=False)                 # again and again; who is astray for long stands aside

A pilot that does not stand for election sees neither peers nor leader: it has no use for them. Losing the lease ends the acts for the whole
cluster, and nothing else: the database goes on. One whose instance does not serve while that of another does can't see what it would lead: it gives the
lease up after a while, and stands again when its own serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from pilothouse.aio.together import together
from pilothouse.api.navigator.labels import CLUSTER_NAME, leader_lease
from pilothouse.api.nouns import Pilot
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.ids import new_uid
from pilothouse.client.informer import Informer
from pilothouse.client.leases import Leadership
from pilothouse.client.rest import Api

ASTRAY: Final = 30.0
"""Seconds after which one that does not serve, while another does, stands aside."""


class Crew:
    """As one of them sees it."""

    def __init__(
        self, api: Api, pilot: Object, clock: Clock, rng: Random, *, changed: Callable[[], None]
    ) -> None:
        owner = pilot.controller
        assert owner is not None
        label = CLUSTER_NAME[owner["kind"]]
        self._owner = owner["uid"]
        self._name = pilot.name
        self._clock = clock
        self._astray_since: float | None = None
        self._aside = asyncio.Event()
        self._stands = asyncio.Event()
        self._stands.set()
        self._peers = Informer(
            api, Pilot, rng, clock, namespace=pilot.namespace, labels=f"{label}={owner['name']}"
        )
        self._leadership = Leadership(
            api,
            pilot.namespace,
            leader_lease(owner["name"]),
            f"{pilot.name}_{new_uid()}",
            clock,
            rng,
            # It goes with the cluster: one of the same name that comes later has pilots of its own.
            owner={key: owner[key] for key in ("apiVersion", "kind", "name", "uid")},
        )
        self._leadership.subscribe(gained=lambda _: changed(), lost=changed)
        self._peers.subscribe(lambda _: changed())

    @property
    def leads(self) -> bool:
        """At this moment, and knowing its peers."""
        return self._leadership.fence is not None and self._peers.is_synced

    @property
    def term(self) -> tuple[str, int] | None:
        """By which one time of leading is told from another."""
        fence = self._leadership.fence
        return (fence.uid, fence.transitions) if fence is not None else None

    @property
    def leader(self) -> str:
        """The name of the Pilot whose pilot leads; empty if nobody is known to."""
        return self._leadership.leader.partition("_")[0]

    @property
    def pilots(self) -> list[Object]:
        """All Pilots that the cluster controls."""
        return [
            each for each in self._peers.cache.list() if (each.controller or {}).get("uid") == self._owner
        ]

    async def run(self) -> None:
        """Until cancelled."""
        await together({"peers": self._peers.run(), "election": self._elect()})

    def tell(self, *, serves: bool) -> None:
        """Whether one's own instance serves at this moment."""
        others = any(each.name != self._name and each.is_true("Ready") for each in self.pilots)
        now = self._clock.monotonic()
        if serves or not others:
            self._astray_since = None
        elif self._astray_since is None:
            self._astray_since = now
        if self._astray_since is not None and now - self._astray_since >= ASTRAY:
            self._stands.clear()
            self._aside.set()
        else:
            self._aside.clear()
            self._stands.set()

    async def _elect(self) -> None:
        while True:
            await self._stands.wait()
            standing = asyncio.create_task(self._leadership.run())
            aside = asyncio.create_task(self._aside.wait())
            try:
                await asyncio.wait((standing, aside), return_when=asyncio.FIRST_COMPLETED)
            finally:
                aside.cancel()
                standing.cancel()
                _, ended = await asyncio.gather(aside, standing, return_exceptions=True)
            if isinstance(ended, Exception):
                raise ended
            await self._leadership.release()

    async def release(self) -> None:
        """Let another lead at once."""
        await self._leadership.release()


def has_crew(pilot: Object) -> bool:
    """Whether a cluster that we know controls it."""
    return (pilot.controller or {}).get("kind") in CLUSTER_NAME
