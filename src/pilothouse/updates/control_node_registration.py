"""Registers a machine of the control plane as a ControlNode, and renews its lease.

    registration = ControlNodeRegistration(api, ControlNodeIdentity("c1", mode="controller"), clock)
    await registration.run()              # until cancelled

The manager of a machine does this whether it leads or not. Labels and mode are restored when they change. The
lease ``k0s-ctrl-NAME`` in ``kube-node-lease`` is the heartbeat. Nothing here removes a ControlNode. Its
status is written by the update agent of the machine, and its conditions by ``control_node_silence``.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from typing import Final, Literal

import msgspec

from pilothouse.api.k0s.heartbeats import LEASE_NAMESPACE, control_node_lease
from pilothouse.api.kind_names import ControlNode, Lease
from pilothouse.api.objects import Tree
from pilothouse.base.architectures import go_architecture
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_micro_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

Mode = Literal["controller", "controller+worker"]
MODE_ANNOTATION: Final = "autopilot.k0sproject.io/mode"
LEASE_INTERVAL: Final = 10.0
LEASE_SECONDS: Final = 40
_BACKOFF: Final = Backoff(first=0.2, factor=2.0, longest=7.0)

log = logging.getLogger(__name__)


class ControlNodeIdentity(msgspec.Struct, frozen=True):
    """A machine of the control plane."""

    name: str
    mode: Mode = "controller"
    """``controller+worker`` if it also runs pods."""

    @property
    def labels(self) -> dict[str, str]:
        """By these, plans choose the download for its platform."""
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": go_architecture(platform.machine()),
        }

    @property
    def lease(self) -> str:
        return control_node_lease(self.name)


class ControlNodeRegistration:
    def __init__(self, api: Api, identity: ControlNodeIdentity, clock: Clock) -> None:
        self._api = api
        self._identity = identity
        self._clock = clock

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                await self._register()
                await self._renew()
                failures = 0
            except (StatusError, TransportError, AccessError) as problem:
                failures += 1
                log.warning("failed to register ControlNode %s: %s", self._identity.name, problem)
            await asyncio.sleep(_BACKOFF.after(failures) if failures else LEASE_INTERVAL)

    async def _register(self) -> None:
        identity = self._identity
        labels, annotations = identity.labels, {MODE_ANNOTATION: identity.mode}
        found = await self._api.find(ControlNode, identity.name)
        if found is None:
            await self._create({"name": identity.name, "labels": labels, "annotations": annotations})
            return
        metadata: Tree = {}
        if missing := {key: value for key, value in labels.items() if found.labels.get(key) != value}:
            metadata["labels"] = missing
        if found.annotations.get(MODE_ANNOTATION) != identity.mode:
            metadata["annotations"] = annotations
        if metadata:
            await self._api.patch(ControlNode, identity.name, "", {"metadata": metadata})

    async def _create(self, metadata: Tree) -> None:
        tree = {"apiVersion": ControlNode.api_version, "kind": ControlNode.kind, "metadata": metadata}
        try:
            await self._api.create(ControlNode, tree)
        except StatusError as refusal:
            if refusal.code != 409:
                raise
        else:
            log.info("registered as ControlNode %s", self._identity.name)

    async def _renew(self) -> None:
        name = self._identity.lease
        spec = {
            "holderIdentity": self._identity.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(self._clock.now()),
        }
        try:
            await self._api.patch(Lease, name, LEASE_NAMESPACE, {"spec": spec})
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            metadata = {"name": name, "namespace": LEASE_NAMESPACE}
            tree = {"apiVersion": Lease.api_version, "kind": Lease.kind, "metadata": metadata, "spec": spec}
            await self._api.create(Lease, tree)
