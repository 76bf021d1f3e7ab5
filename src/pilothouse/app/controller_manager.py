"""Composes a controller-manager: a client, leader election, and the controllers that suit the server.

    await run(ManagerOptions(access=load(kubeconfig)), announce=print)
    await rehearse(ManagerOptions(access=load(kubeconfig)), say=print, watch=False)

It runs until SIGTERM or SIGINT. Controllers stop first, then the lease is released, so that another manager
takes over at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pilothouse
from pilothouse.aio.race import unless
from pilothouse.aio.start_order import Ordered, StartGroup
from pilothouse.api.kind_names import Plan, UpdateConfig
from pilothouse.app import memory_tuning
from pilothouse.app.addresses import plain_url
from pilothouse.app.controller_list import (
    DEFAULT_TIMEOUTS,
    ControllerTimeouts,
    all_controllers,
    select_controllers,
)
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.manager_pages import manager_pages
from pilothouse.app.parent_pipe import stop_when_closed
from pilothouse.app.processes import PAGES
from pilothouse.app.status_server import serving
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.leader_lease import Leadership, unique_identity
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.dry_run import DryRunLog, Print
from pilothouse.runtime.election import LeaseElection, NoElection
from pilothouse.runtime.manager import COMPONENT, Manager, Observer
from pilothouse.updates.channel_observer import ChannelObserver
from pilothouse.updates.channel_source import ChannelSource
from pilothouse.updates.control_node import ControlNodeIdentity, ControlNodeRegistration
from pilothouse.updates.plan_observer import PlanObserver
from pilothouse.updates.readiness import DEFAULT_PATH, ReadinessProbe, Scheme
from pilothouse.updates.server_checks import ServerChecks
from pilothouse.updates.update_prober import UpdateProber

LEASE = ("kube-system", COMPONENT)
_PATIENCE = 15.0
_AGENT = f"{COMPONENT}/{pilothouse.__version__}"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ManagerOptions:
    access: Access
    controllers: tuple[str, ...] = ("*",)
    elect: bool = True
    lease: tuple[str, str] = LEASE
    """Namespace and name of the Lease for leader election."""
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    listen: tuple[str, int] = ("127.0.0.1", 0)
    """The address of the health and metrics pages; port 0 is a free one."""
    timeouts: ControllerTimeouts = DEFAULT_TIMEOUTS
    control_node: ControlNodeIdentity | None = None
    """The machine to register as a ControlNode."""
    ready_path: str = DEFAULT_PATH
    """Where plans ask whether a machine of the control plane is ready."""
    ready_scheme: Scheme = "https"
    exclude_from_plans: frozenset[str] = frozenset()
    """Kinds of machines that no plan may update: controller, worker."""
    update_prober: str = ""
    """The update server to ask for newer versions where no UpdateConfig follows a channel; none if empty."""
    lifeline: int | None = None
    """The descriptor of the lifeline to the supervisor: see ``processes``."""


async def run(options: ManagerOptions, *, announce: Print) -> None:
    """Run until asked to stop.

    Raises ``UnknownController``, ``StartError``, ``TransportError`` or ``StatusError`` at the start.
    """
    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    memory_tuning.settle_later(asyncio.get_running_loop())
    if options.lifeline is not None:
        stop_when_closed(stop, options.lifeline)
    clock, rng = SystemClock(), random.Random()
    identity = unique_identity()
    async with _reached(options) as (api, controllers):
        informers = SharedInformers(api, rng, clock)
        observers = _observers(options, api, controllers, informers, clock)
        if options.elect:
            leadership = Leadership(api, *options.lease, identity, clock, rng, options.timing)
            election: LeaseElection | NoElection = LeaseElection(leadership)
        else:
            leadership, election = None, NoElection()
        manager = Manager(
            api, controllers, informers, election, clock, identity=identity, observers=observers
        )
        parts = [StartGroup("controllers", [manager.run], _PATIENCE)]
        if options.control_node is not None:
            registration = ControlNodeRegistration(api, options.control_node, clock)
            parts.append(StartGroup("control node", [registration.run], _PATIENCE))
        if leadership is not None:
            # Before the caches are filled: caches that are older than its term would be filled again.
            parts.insert(0, StartGroup("election", [leadership.run], _PATIENCE, ready=leadership.begun))
        host, _ = options.listen
        async with serving(
            *options.listen, manager_pages(manager, informers, leadership, identity, clock)
        ) as port:
            names = ", ".join(one.name for one in controllers) or "none"
            announce(f"controller-manager {identity} follows {options.access.url}: {names}")
            announce(f"{PAGES}{plain_url(host, port)}")
            await unless(Ordered(parts).run(), stop.asked.wait())
        if leadership is not None:
            await leadership.release()


async def rehearse(options: ManagerOptions, *, say: Print, watch: bool) -> None:
    """Decide about all objects, report what would be done, and write nothing; with ``watch``, until stopped.

    No lease is taken, so it may run beside other managers. Raises as ``run`` does.
    """
    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    clock, rng = SystemClock(), random.Random()
    async with _reached(options) as (api, controllers):
        manager = Manager(
            api,
            controllers,
            SharedInformers(api, rng, clock),
            NoElection(),
            clock,
            identity=unique_identity(),
            dry_run=DryRunLog(say),
        )
        await unless(manager.run(), stop.asked.wait() if watch else manager.settled())


def _observers(
    options: ManagerOptions,
    api: Api,
    controllers: Sequence[Controller],
    informers: SharedInformers,
    clock: Clock,
) -> dict[str, Observer]:
    """What finds out, outside the API, what the controllers ask for."""
    primaries = {one.primary for one in controllers}
    observers: dict[str, Observer] = {}
    if Plan in primaries:
        probe = ReadinessProbe(
            options.access, agent=_AGENT, path=options.ready_path, scheme=options.ready_scheme
        )
        plan_observer = PlanObserver(api, informers.get(Plan), clock, ServerChecks(api, probe))
        observers["plan-observer"] = plan_observer.run
    if UpdateConfig in primaries:
        source = ChannelSource(api, clock, running=pilothouse.__version__)
        channel_observer = ChannelObserver(api, informers.get(UpdateConfig), clock, source)
        observers["channel-observer"] = channel_observer.run
    if UpdateConfig in primaries and options.update_prober:
        prober = UpdateProber(
            api, informers.get(UpdateConfig), clock, options.update_prober, running=pilothouse.__version__
        )
        observers["update-prober"] = prober.run
    return observers


@asynccontextmanager
async def _reached(options: ManagerOptions) -> AsyncIterator[tuple[Api, list[Controller]]]:
    """The server, and the selected controllers that suit it."""
    async with HttpTransport.open(options.access, SystemClock(), agent=_AGENT) as transport:
        api = Api(transport, random.Random(), manager=COMPONENT)
        version = await api.version()
        known = all_controllers(
            options.access.authority.decode(),
            options.timeouts,
            exclude_from_plans=options.exclude_from_plans,
        )
        controllers = select_controllers(known, options.controllers, ours=version.is_ours)
        if not version.is_ours:
            off = ", ".join(one.name for one in known if one.standalone)
            log.warning(
                "%s is a Kubernetes API server (%s) with controllers of its own for the same kinds; "
                "disabled: %s",
                options.access.url,
                version.text,
                off,
            )
        yield api, controllers
