"""Leases that are renewed periodically."""

from __future__ import annotations

from pilothouse.api.kind_names import Lease
from pilothouse.api.objects import Tree
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
    await put_lease(api, name, namespace, spec)


async def put_lease(api: Api, name: str, namespace: str, spec: Tree) -> None:
    try:
        await api.patch(Lease, name, namespace, {"spec": spec})
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        await api.create(Lease, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
