"""Pilothouse itself as the program that is updated: the agent is part of what it replaces.

    own = OwnInstallation(tree, "v0.1.0", restart=stop.asked.set)
    program = OwnProgram(profile, InstalledTree(root), own, api)
    await program.restart()            # other services by a command; then this process, by ``own.restart``

The process that restarts itself does not return from ``restart``: the next one goes on by the journal. It
finds out which version it is by the folder that it runs from. Pods are left alone: their shims outlive it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.updating.installed_tree import InstalledTree
from pilothouse.node.updating.managed_program import ANSWER_SECONDS, ManagedProgram
from pilothouse.node.updating.program_check import MOST_EXITS
from pilothouse.node.updating.update_profile import UpdateProfile


@dataclass(frozen=True)
class OwnInstallation:
    """How this process runs."""

    tree: Path
    """The tree that its code is from."""
    version: str
    restart: Callable[[], None]
    """Has this process end soon, and started again through the launcher."""


class OwnProgram(ManagedProgram):
    supervised = True

    def __init__(self, profile: UpdateProfile, files: InstalledTree, own: OwnInstallation, api: Api) -> None:
        super().__init__(profile)
        self._files = files
        self._own = own
        self._api = api

    async def version(self) -> str:
        return await super().version() if self._profile.version else self._own.version

    async def health(self) -> str:
        """As the profile says; and the agent has to reach an API server, or it is of no use any more."""
        if self._profile.health and (problem := await super().health()):
            return problem
        try:
            await self._api.version(deadline=ANSWER_SECONDS)
        except (TransportError, StatusError, AccessError) as problem:
            return f"the agent does not reach the API server: {problem}"
        return ""

    async def restart(self) -> None:
        if self._profile.restart:
            await super().restart()
        if self._files.current() != self._own.tree:
            self._own.restart()
            await asyncio.get_running_loop().create_future()

    async def running_digest(self) -> str:
        return await asyncio.to_thread(self._files.digest_of, self._own.tree)

    def exits(self) -> tuple[int, str]:
        """The starts that the launcher has counted, if it has given up on this version for them."""
        why = self._files.given_up(self._files.digest_of(self._own.tree))
        return (MOST_EXITS, why) if why else (0, "")
