"""The pilots of one cluster: who they are, and which of them leads.

    crew = PilotPeers(api, pilot, clock, rng, changed=wake)
    task = group.create_task(crew.run())
    crew.leads, crew.leader, crew.pilots
    crew.tell(serves=False)                 # again and again; who is astray for long stands aside

A pilot that does not stand for election sees neither peers nor leader: it has no use for them. Losing the lease ends the acts for the whole
cluster, and nothing else: the database goes on. ``candidacy`` says when one gives it up of its own accord.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pilothouse.aio.race import unless
from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.labels import CLUSTER_NAME, leader_lease
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.uids import new_uid
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.leader_lease import Leadership
from pilothouse.pilot.election_candidacy import Candidacy


class PilotPeers:
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
        self._candidacy = Candidacy()
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
        """At this moment, by the holder's own clock, and knowing its peers."""
        fence = self._leadership.fence
        return fence is not None and fence.left() > 0 and self._peers.is_synced

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
        self._candidacy.tell(serves=serves, others_serve=others, now=self._clock.monotonic())

    async def _elect(self) -> None:
        while True:
            await self._candidacy.taken_up()
            await unless(self._leadership.run(), self._candidacy.given_up())
            await self._leadership.release()

    async def release(self) -> None:
        """Let another lead at once."""
        await self._leadership.release()


def has_peers(pilot: Object) -> bool:
    """Whether a cluster that we know controls it."""
    return (pilot.controller or {}).get("kind") in CLUSTER_NAME
