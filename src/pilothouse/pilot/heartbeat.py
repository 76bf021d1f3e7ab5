"""The heartbeat: a pilot renews a Lease of its own for as long as it runs.

Controllers go by when a renewal arrives; the time in it is for people. The Lease is owned by the Pilot and
deleted with it.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.kind_names import Lease
from pilothouse.api.navigator.labels import pilot_lease
from pilothouse.api.objects import Object, owner_reference
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_micro_time
from pilothouse.client.api import Api
from pilothouse.meta.errors import StatusError

EVERY: Final = 10.0
_SECONDS: Final = 5.0
_LASTS: Final = 40


class PilotHeartbeat:
    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def beat(self, pilot: Object) -> None:
        """Raises ``StatusError`` or ``TransportError``."""
        moment = format_micro_time(self._clock.now())
        name = pilot_lease(pilot.name)
        spec = {"holderIdentity": pilot.name, "leaseDurationSeconds": _LASTS, "renewTime": moment}
        try:
            await self._api.patch(Lease, name, pilot.namespace, {"spec": spec}, deadline=_SECONDS)
        except StatusError as problem:
            if problem.code != 404:
                raise
            metadata = {
                "name": name,
                "namespace": pilot.namespace,
                "labels": dict(pilot.labels),
                "ownerReferences": [owner_reference(pilot, controller=False, blocks=False)],
            }
            await self._api.create(Lease, {"metadata": metadata, "spec": spec}, deadline=_SECONDS)
