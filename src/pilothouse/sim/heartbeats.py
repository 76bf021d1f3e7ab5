"""A sign of life: a Lease renewed again and again.

await renew(api, "n1", "kube-node-lease", "n1", clock)
"""

from __future__ import annotations

from pilothouse.api.nouns import Lease
from pilothouse.base.clock import Clock
from pilothouse.base.times import format_micro_time
from pilothouse.client.rest import Api

EVERY = 10.0
"""Seconds."""


async def renew(api: Api, name: str, namespace: str, holder: str, clock: Clock) -> None:
    """Once; the Lease is made if there is none."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 40,
        "renewTime": format_micro_time(clock.now()),
    }
    if await api.find(Lease, name, namespace) is None:
        await api.create(Lease, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    else:
        await api.patch(Lease, name, namespace, {"spec": spec})
