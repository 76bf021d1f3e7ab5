"""The pilots of one cluster, and which of them leads.

    peers = PilotPeers(api, pilot, clock, rng, changed=wake)
    task = group.create_task(peers.run())
    peers.leads, peers.leader, peers.pilots
    peers.update(serves=False)              # periodically; a pilot out of its cluster for long withdraws

Only a candidate has ``PilotPeers``. A leader that loses the lease ceases to act for the cluster; its database
runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pilothouse.aio.race import unless
from pilothouse.aio.task_group import together
from pilothouse.api.applications.registry import application_of_owner
from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.labels import leader_lease
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.uids import new_uid
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.leader_lease import Leadership
from pilothouse.pilot.election_candidacy import Candidacy


class PilotPeers:
    def __init__(
        self, api: Api, pilot: Object, clock: Clock, rng: Random, *, changed: Callable[[], None]
    ) -> None:
        owner, application = pilot.controller, application_of_owner(pilot.controller)
        assert owner is not None
        assert application is not None
        self._owner = owner["uid"]
        self._name = pilot.name
        self._clock = clock
        self._candidacy = Candidacy()
        self._peers = Informer(
            api,
            Pilot,
            rng,
            clock,
            namespace=pilot.namespace,
            labels=f"{application.cluster_label}={owner['name']}",
        )
        self._leadership = Leadership(
            api,
            pilot.namespace,
            leader_lease(owner["name"]),
            f"{pilot.name}_{new_uid()}",
            clock,
            rng,
            # It is deleted with the cluster: a later one of the same name has pilots of its own.
            owner={key: owner[key] for key in ("apiVersion", "kind", "name", "uid")},
        )
        self._leadership.subscribe(gained=lambda _: changed(), lost=changed)
        self._peers.subscribe(lambda _: changed())

    @property
    def leads(self) -> bool:
        """Whether this pilot leads at this moment, by its own clock, and has listed its peers."""
        fence = self._leadership.fence
        return fence is not None and fence.left() > 0 and self._peers.is_synced

    @property
    def term(self) -> tuple[str, int] | None:
        """Identifies one period of leading; None if this pilot does not lead."""
        fence = self._leadership.fence
        return (fence.uid, fence.transitions) if fence is not None else None

    @property
    def leader(self) -> str:
        """The name of the leader's Pilot; empty if no leader is known."""
        return self._leadership.leader.partition("_")[0]

    @property
    def pilots(self) -> list[Object]:
        """All Pilots that the cluster controls."""
        listed = self._peers.cache.list()
        return [each for each in listed if (each.controller or {}).get("uid") == self._owner]

    async def run(self) -> None:
        """Until cancelled."""
        await together({"peers": self._peers.run(), "election": self._elect()})

    def update(self, *, serves: bool) -> None:
        """``serves``: the instance of this pilot is ready."""
        others = any(each.name != self._name and each.is_true("Ready") for each in self.pilots)
        self._candidacy.update(serves=serves, others_serve=others, now=self._clock.monotonic())

    async def _elect(self) -> None:
        while True:
            await self._candidacy.until_candidate()
            await unless(self._leadership.run(), self._candidacy.until_withdrawn())
            await self._leadership.release()

    async def release(self) -> None:
        """Give the lease up, so that another pilot can lead at once."""
        await self._leadership.release()


def has_peers(pilot: Object) -> bool:
    """Whether the cluster of an application controls it."""
    return application_of_owner(pilot.controller) is not None
