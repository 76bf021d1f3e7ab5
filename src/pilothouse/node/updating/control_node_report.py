"""The status of the ControlNode of this machine: addresses, port of the API server, version of the program.

    report = ControlNodeReport(api, informer, name, address, port, program)
    await report.run()                    # when the ControlNode changes, and every half minute
    await report.write()

The controller manager of the machine creates the ControlNode; until then there is nothing to write to. A
program that does not answer is asked again soon: it may be starting, and plans wait for its version.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pilothouse.api.kind_names import ControlNode
from pilothouse.api.objects import Tree
from pilothouse.base.backoff import Backoff
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError

INTERVAL: Final = 30.0
"""Seconds between two looks at the version: the program may be updated by hand."""
SOON: Final = Backoff(first=0.5, factor=2.0, longest=INTERVAL)
"""Pauses while the version is not known, or can't be written."""

log = logging.getLogger(__name__)


class ControlNodeReport:
    def __init__(
        self, api: Api, informer: Informer, name: str, address: str, port: int, program: ManagedProgram
    ) -> None:
        """``informer`` follows the ControlNode; ``port`` is 0 if the machine has no API server."""
        self._api = api
        self._informer = informer
        self._name = name
        self._address = address
        self._port = port
        self._program = program

    async def run(self) -> None:
        changed = asyncio.Event()
        unsubscribe = self._informer.subscribe(lambda _: changed.set())
        failures = 0
        try:
            while True:
                changed.clear()
                try:
                    failures = 0 if await self.write() else failures + 1
                except (StatusError, TransportError, AccessError) as problem:
                    failures += 1
                    log.warning("the status of ControlNode %s can't be written: %s", self._name, problem)
                try:
                    async with asyncio.timeout(SOON.after(failures) if failures else INTERVAL):
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            unsubscribe()

    async def write(self) -> bool:
        """Write what has changed; returns whether all is known. Raises StatusError, TransportError."""
        current = self._informer.cache.get("", self._name)
        if current is None:
            return True
        status: Tree = {
            "addresses": [
                {"type": "InternalIP", "address": self._address},
                {"type": "Hostname", "address": current.labels.get("kubernetes.io/hostname", self._name)},
            ]
        }
        if self._port:
            status["apiPort"] = self._port
        try:
            status["k0sVersion"] = await self._program.version()
            known = True
        except ProgramError as problem:
            # The last reported version stays: there is no better one.
            log.info("the program does not answer for its version: %s", problem)
            known = False
        if any(current.status.get(name) != value for name, value in status.items()):
            await self._api.patch(ControlNode, self._name, "", {"status": status}, subresource="status")
        return known
