"""Composes a pilot from its parts and runs it until its database has exited.

    code = await run(PilotOptions(application="redis", access=access, instance=instance))

It runs on asyncio's own event loop, since it has to see the exit of a child process.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

import pilothouse
from pilothouse.app import memory_tuning
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.pilot.driver import InstanceEnvironment
from pilothouse.pilot.driver_registry import find_driver
from pilothouse.pilot.instance_supervisor import GRACE, InstanceSupervisor
from pilothouse.pilot.probe_server import serving
from pilothouse.pilot.termination_log import write_termination_message
from pilothouse.supervise.signals import forwarding
from pilothouse.supervise.zombie_reaper import Reaper

READY_PORT = 12001
LIVE_PORT = 12000


@dataclass(frozen=True, kw_only=True)
class PilotOptions:
    application: str
    access: Access
    instance: InstanceEnvironment
    ready_port: int = READY_PORT
    live_port: int = LIVE_PORT
    grace: float = GRACE


async def run(options: PilotOptions) -> int:
    """Returns the exit code. Raises ``UnknownApplication``, and ``OSError`` if a port is taken."""
    memory_tuning.settle_later(asyncio.get_running_loop())
    driver = find_driver(options.application, options.instance)
    clock = SystemClock()
    agent = f"pilothouse-pilot/{pilothouse.__version__}"
    async with HttpTransport.open(options.access, clock, agent=agent) as transport:
        api = Api(transport, Random(), manager="pilothouse-pilot")
        supervisor = InstanceSupervisor(api, options.instance, driver, clock, Random(), grace=options.grace)
        questions = {options.ready_port: supervisor.readiness, options.live_port: supervisor.liveness}
        async with (
            serving(options.instance.address, questions, supervisor.metrics),
            forwarding(supervisor.pass_on) as asked,
            # The first process of a container inherits orphans.
            Reaper().running(),
        ):
            code = await supervisor.run(asked)
            if supervisor.exit_message:
                write_termination_message(supervisor.exit_message)
            return code
