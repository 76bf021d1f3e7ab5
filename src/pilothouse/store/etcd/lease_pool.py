"""Leases for keys that expire, shared by keys so that ten thousand events do not need as many leases.

    lease = await leases.lasting(3600)      # a lease that ends no sooner than an hour from now

A lease is reused for the same TTL within a twentieth of it, at most a minute, for at most a thousand keys. It
lasts that much longer, so that no key expires early.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from pilothouse.store.etcd import messages as wire
from pilothouse.store.etcd.cluster_connection import LEASE_GRANT, ClusterConnection

_KEYS = 1000


class _Lease:
    def __init__(self, id: int, until: float) -> None:
        self.id = id
        self.until = until
        self.keys = 0


class LeasePool:
    """The leases in use, by time to live."""

    def __init__(self, connection: ClusterConnection, *, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._clock = clock
        self._leases: dict[float, _Lease] = {}
        self._granting = asyncio.Lock()

    async def lasting(self, ttl: float) -> int:
        async with self._granting:
            lease = self._leases.get(ttl)
            if lease is None or lease.keys >= _KEYS or self._clock() >= lease.until:
                lease = await self._grant(ttl)
            lease.keys += 1
            return lease.id

    def forget(self, id: int) -> None:
        self._leases = {ttl: lease for ttl, lease in self._leases.items() if lease.id != id}

    async def _grant(self, ttl: float) -> _Lease:
        now = self._clock()
        self._leases = {length: lease for length, lease in self._leases.items() if lease.until > now}
        window = min(60.0, ttl / 20)
        # Repeating a grant does no harm: a lease without keys ends unnoticed.
        request = wire.LeaseGrantRequest(TTL=math.ceil(ttl + window)).SerializeToString()
        answer = await self._connection.call(LEASE_GRANT, request, repeatable=True)
        lease = self._leases[ttl] = _Lease(answer.ID, now + window)
        return lease
