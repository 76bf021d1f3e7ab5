"""Heartbeats: a Lease that is renewed periodically.

await renew(api, "n1", "kube-node-lease", "n1", clock)
"""

from __future__ import annotations

from pilothouse.api.kind_names import Lease
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_micro_time
from pilothouse.client.api import Api
from pilothouse.meta.errors import StatusError

EVERY = 10.0
"""Seconds."""


async def renew(api: Api, name: str, namespace: str, holder: str, clock: Clock) -> None:
    """Renew the Lease once, or create it."""
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 40,
        "renewTime": format_micro_time(clock.now()),
    }
    try:
        await api.patch(Lease, name, namespace, {"spec": spec})
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        await api.create(Lease, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
