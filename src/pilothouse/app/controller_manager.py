"""The controller-manager, assembled: a client, an election, the controllers that fit the server.

    await run(ManagerOptions(access=load(kubeconfig)), announce=print)

It runs on the stock event loop until SIGTERM or SIGINT. Decisions stop first, then the lease is given up, so that another
takes over at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pilothouse
from pilothouse.aio.ordering import Group, Ordered
from pilothouse.app.controllers import all_controllers, chosen
from pilothouse.app.stopping import Stop
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.electing import Timing
from pilothouse.client.http import HttpTransport
from pilothouse.client.informers import Informers
from pilothouse.client.leases import Leadership, unique_identity
from pilothouse.client.rest import Api
from pilothouse.runtime.leading import Alone, Elected, Office
from pilothouse.runtime.managing import COMPONENT, Manager

LEASE = ("kube-system", COMPONENT)
_PATIENCE = 15.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ManagerOptions:
    """What the command's flags come to."""

    access: Access
    controllers: tuple[str, ...] = ("*",)
    elect: bool = True
    lease: tuple[str, str] = LEASE
    """Namespace and name of the Lease that decides who leads."""
    timing: Timing = field(default_factory=Timing)


async def run(options: ManagerOptions, *, announce: Callable[[str], None]) -> None:
    """Run until asked to stop. Raises ``UnknownController``, ``TransportError`` or ``StatusError`` at the start."""
    stop = Stop.on_signals(asyncio.get_running_loop())
    clock, rng = SystemClock(), random.Random()
    agent = f"{COMPONENT}/{pilothouse.__version__}"
    async with HttpTransport.open(options.access, clock, agent=agent) as transport:
        api = Api(transport, rng, manager=COMPONENT)
        version = await api.version()
        known = all_controllers(options.access.authority.decode())
        controllers = chosen(known, options.controllers, ours=version.is_ours)
        if not version.is_ours:
            log.warning(
                "%s is a real Kubernetes (%s): the controllers that it has itself stay off",
                options.access.url,
                version.text,
            )
        identity = unique_identity()
        informers = Informers(api, rng, clock)
        office: Office = Alone()
        parts = []
        leadership = None
        if options.elect:
            leadership = Leadership(api, *options.lease, identity, clock, rng, options.timing)
            office = Elected(leadership)
            parts.append(Group("election", [leadership.run], _PATIENCE))
        manager = Manager(api, controllers, informers, office, clock, identity=identity)
        parts.append(Group("controllers", [manager.run], _PATIENCE))
        names = ", ".join(one.name for one in controllers) or "none"
        announce(f"controller-manager {identity} follows {options.access.url}: {names}")
        running = asyncio.ensure_future(Ordered(parts).run())
        asked = asyncio.ensure_future(stop.asked.wait())
        try:
            await asyncio.wait((running, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            running.cancel()
            await asyncio.gather(running, asked, return_exceptions=True)
        if not running.cancelled() and (problem := running.exception()) is not None:
            raise problem
        if leadership is not None:
            await leadership.release()
