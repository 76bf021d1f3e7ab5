"""Builds the volumes of a node from their parts.

volumes = open_volumes(api, node="m1", data=Path("/var/lib/pilothouse/node"), clock=clock, rng=rng)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from pilothouse.aio.task_group import together
from pilothouse.api.local_volumes import DIRECTORY, LOOP
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.node.event_recorder import EventRecorder
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.memory_directories import memory_directories
from pilothouse.node.volumes.pod_tokens import PodTokens
from pilothouse.node.volumes.pod_volumes import REFRESH, PodVolumes, VolumeSettings
from pilothouse.node.volumes.pool_report import StoragePoolReporter
from pilothouse.node.volumes.pooled_backends import PooledDirectories, PooledLoops
from pilothouse.node.volumes.private_directories import PrivateDirectories
from pilothouse.node.volumes.storage_pools import StoragePools
from pilothouse.node.volumes.volume_backend import VolumeBackend
from pilothouse.node.volumes.volume_controller import VolumeController
from pilothouse.node.volumes.volume_mover import VolumeMover
from pilothouse.node.volumes.volume_owners import VolumeOwners
from pilothouse.node.volumes.volume_places import VolumePlaces
from pilothouse.node.volumes.volume_plan_executor import VolumePlanExecutor
from pilothouse.runtime.event_recorder import EventCorrelator

DEFAULT_TIER: Final = "default"
COMPONENT: Final = "pilothouse-volumes"
"""The source of events about claims."""


def open_volumes(
    api: Api,
    *,
    node: str,
    data: Path,
    clock: Clock,
    rng: Random,
    tiers: Mapping[str, Path] = {},
    tier_sizes: Mapping[str, int] = {},
    allocatable: Mapping[str, str] = {},
    refresh: float = REFRESH,
    private: Iterable[Path] = (),
) -> PodVolumes:
    """``data`` is the node's own directory; ``tiers`` are further directories for volumes, by name, some of a
    fixed size (``tier_sizes``, in bytes); ``private`` are further directories that no path of the machine may
    lead to."""
    data = data.absolute()
    root = os.geteuid() == 0
    directories = {DEFAULT_TIER: data / "volumes"} | {name: path.absolute() for name, path in tiers.items()}
    places = VolumePlaces(directories)
    pools = StoragePools(node, directories, tier_sizes, data)
    backends: dict[str, VolumeBackend] = {
        DIRECTORY: PooledDirectories(pools, places),
        LOOP: PooledLoops(pools, places, root=root),
    }
    claims = ClaimVolumes(api, node, backends, directories, VolumeOwners(node, data), root=root)
    settings = VolumeSettings(
        pods=data / "pods",
        root=root,
        allocatable=allocatable,
        refresh=refresh,
        private=PrivateDirectories((data, *tiers.values(), *private)),
    )
    events = EventRecorder(api, EventCorrelator(component=COMPONENT, host=node), clock)

    def record_event(about: Object, reason: str, message: str, warning: bool) -> None:
        events.record(about, reason, message, warning=warning)

    mover = VolumeMover(api, places, claims, clock)
    runner = VolumePlanExecutor(api, node, backends, directories, claims, mover, record_event, clock)
    volume_controller = VolumeController(api, node, runner, clock, rng)
    reporter = StoragePoolReporter(api, node, pools, clock, rng)

    async def run() -> None:
        steps = volume_controller.run()
        await together({"events": events.run(), "volume_controller": steps, "pools": reporter.run()})

    memory, tokens = memory_directories(data, root=root), PodTokens(api, clock, rng)
    return PodVolumes(api, settings, memory, claims, tokens, clock, run, pools)
