"""The volumes of a node, put together from their parts.

    volumes = open_volumes(api, node="m1", data=Path("/var/lib/pilothouse/node"), allocatable={…}, clock=clock, rng=rng)

Whether the agent is root is asked of the machine here, once; everything else is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from pilothouse.aio.together import together
from pilothouse.api.local_volumes import DIRECTORY, LOOP
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.rest import Api
from pilothouse.node.telling import Events
from pilothouse.node.volumes.claims import Claims
from pilothouse.node.volumes.directories import Directories
from pilothouse.node.volumes.keeping import Keeper
from pilothouse.node.volumes.loops import Loops
from pilothouse.node.volumes.memory import memory_of
from pilothouse.node.volumes.preparing import REFRESH, Volumes, VolumeSettings
from pilothouse.node.volumes.private_folders import PrivateFolders
from pilothouse.node.volumes.running_errands import Runner
from pilothouse.node.volumes.storekeeping import Storekeeper
from pilothouse.node.volumes.tokens import Tokens
from pilothouse.node.volumes.volume_owners import VolumeOwners
from pilothouse.runtime.telling import Teller

DEFAULT_TIER: Final = "default"
COMPONENT: Final = "pilothouse-volumes"
"""By whom events about claims are told."""


def open_volumes(
    api: Api,
    *,
    node: str,
    data: Path,
    clock: Clock,
    rng: Random,
    tiers: Mapping[str, Path] = {},
    allocatable: Mapping[str, str] = {},
    refresh: float = REFRESH,
    private: Iterable[Path] = (),
) -> Volumes:
    """``data`` is the node's own folder; ``tiers`` are folders for volumes beside the one in it, by name; ``private`` is what else no
    path of the machine leads to."""
    data = data.absolute()
    root = os.geteuid() == 0
    keepers: dict[str, Keeper] = {DIRECTORY: Directories(), LOOP: Loops(root=root)}
    every = {DEFAULT_TIER: data / "volumes"} | {name: path.absolute() for name, path in tiers.items()}
    claims = Claims(api, node, keepers, every, VolumeOwners(node, data), root=root)
    settings = VolumeSettings(
        pods=data / "pods",
        root=root,
        allocatable=allocatable,
        refresh=refresh,
        private=PrivateFolders((data, *tiers.values(), *private)),
    )
    events = Events(api, Teller(component=COMPONENT, host=node), clock)

    def tell(about: Object, reason: str, message: str, warning: bool) -> None:
        events.tell(about, reason, message, warning=warning)

    runner = Runner(api, node, keepers, every, claims, tell, clock)
    storekeeper = Storekeeper(api, node, runner, clock, rng)

    async def keep() -> None:
        await together({"events": events.run(), "storekeeper": storekeeper.run()})

    return Volumes(api, settings, memory_of(data, root=root), claims, Tokens(api, clock, rng), clock, keep)
