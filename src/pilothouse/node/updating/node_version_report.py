"""The version of a worker's program, in an annotation of its Node: by it UpdateConfigs notice late joiners.

report = NodeVersionReport(api, informer, name, program)
await report.run()                    # every half minute; sooner while it is not known
await report.write()
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION
from pilothouse.api.kind_names import Node
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.updating.control_node_report import INTERVAL, SOON
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError

_LONGEST: Final = 64
"""Characters of a version that are reported."""

log = logging.getLogger(__name__)


class NodeVersionReport:
    def __init__(self, api: Api, informer: Informer, name: str, program: ManagedProgram) -> None:
        """``informer`` follows the Node."""
        self._api = api
        self._informer = informer
        self._name = name
        self._program = program

    async def run(self) -> None:
        await self._informer.synced()
        failures = 0
        while True:
            try:
                failures = 0 if await self.write() else failures + 1
            except (StatusError, TransportError, AccessError) as problem:
                failures += 1
                log.warning("the version of node %s can't be reported: %s", self._name, problem)
            await asyncio.sleep(SOON.after(failures) if failures else INTERVAL)

    async def write(self) -> bool:
        """Write the version, if it has changed; returns whether it is known. Raises StatusError,
        TransportError."""
        node = self._informer.cache.get("", self._name)
        if node is None:
            return False
        try:
            version = (await self._program.version())[:_LONGEST]
        except ProgramError as problem:
            log.info("the program does not answer for its version: %s", problem)
            return False
        if node.annotations.get(RUNNING_VERSION) != version:
            annotations = {RUNNING_VERSION: version}
            await self._api.patch(Node, self._name, "", {"metadata": {"annotations": annotations}})
        return True
