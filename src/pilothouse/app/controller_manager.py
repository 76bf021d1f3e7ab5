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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pilothouse
from pilothouse.aio.race import unless
from pilothouse.aio.start_order import Ordered, StartGroup
from pilothouse.aio.task_group import together
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import (
    ActionApproval,
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    Plan,
    UpdateConfig,
)
from pilothouse.app import memory_tuning
from pilothouse.app.addresses import plain_url
from pilothouse.app.autopilot_metrics import RuleTotals, rule_errors, scrape_families
from pilothouse.app.controller_list import (
    DEFAULT_TIMEOUTS,
    ControllerTimeouts,
    all_controllers,
    select_controllers,
)
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.manager_pages import RuleFamilies, manager_pages
from pilothouse.app.parent_pipe import stop_when_closed
from pilothouse.app.processes import PAGES
from pilothouse.app.rule_metrics import RuleMetrics
from pilothouse.app.status_server import serving
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.leader_lease import Leadership, unique_identity
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.controllers.application_actions.webhook_actions import webhook_actions
from pilothouse.rules.ruled_objects import RuleSettings
from pilothouse.rules.webhooks import WebhookObserver
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.dry_run import DryRunLog, Print
from pilothouse.runtime.election import LeaseElection, NoElection
from pilothouse.runtime.engine import Engine
from pilothouse.runtime.manager import COMPONENT, Manager, Observer
from pilothouse.runtime.optional_kinds import ServedAs, served_kinds
from pilothouse.updates.channel_observer import ChannelObserver
from pilothouse.updates.channel_source import ChannelSource
from pilothouse.updates.cluster_facts import UNKNOWN
from pilothouse.updates.control_node_registration import ControlNodeIdentity, ControlNodeRegistration
from pilothouse.updates.plan_checks import ServerChecks
from pilothouse.updates.plan_observer import PlanObserver
from pilothouse.updates.readiness_probe import DEFAULT_PATH, ReadinessProbe, Scheme
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
    autopilot_config: Path | None = None
    """The file that names the providers of metrics; it need not exist."""
    recommend_only: bool = False
    """Rules only record what they would do."""
    update_authorities: Mapping[str, Path] = field(default_factory=dict)
    """The files of update servers' CAs, by host."""
    storage: str = UNKNOWN
    """The kind of the API server's store, as it is reported to update servers."""
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
    async with _reached(options, rng, clock) as reached:
        api, controllers, informers = reached.api, reached.controllers, reached.informers
        observers = _observers(options, api, controllers, informers, clock)
        if options.elect:
            leadership = Leadership(api, *options.lease, identity, clock, rng, options.timing)
            election: LeaseElection | NoElection = LeaseElection(leadership)
        else:
            leadership, election = None, NoElection()
        manager = Manager(
            api,
            controllers,
            informers,
            election,
            clock,
            identity=identity,
            observers=observers,
            served_as=reached.served_as,
        )
        parts = [StartGroup("controllers", [manager.run, *reached.parts.values()], _PATIENCE)]
        if options.control_node is not None:
            registration = ControlNodeRegistration(api, options.control_node, clock)
            parts.append(StartGroup("control node", [registration.run], _PATIENCE))
        if leadership is not None:
            # Before the caches are filled: caches that are older than its term would be filled again.
            parts.insert(0, StartGroup("election", [leadership.run], _PATIENCE, ready=leadership.begun))
        host, _ = options.listen
        followed = informers.get(Plan) if any(one.primary == Plan for one in controllers) else None
        pages = manager_pages(
            manager,
            informers,
            leadership,
            identity,
            clock,
            plan=lambda: followed.cache.get("", RUNNING_PLAN) if followed is not None else None,
            rules=reached.rule_families(),
        )
        async with serving(*options.listen, pages) as port:
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
    async with _reached(options, rng, clock) as reached:
        manager = Manager(
            reached.api,
            reached.controllers,
            reached.informers,
            NoElection(),
            clock,
            identity=unique_identity(),
            dry_run=DryRunLog(say),
            served_as=reached.served_as,
        )
        parts = {"manager": manager.run, **reached.parts}
        running = together({name: run() for name, run in parts.items()})
        await unless(running, stop.asked.wait() if watch else manager.settled())


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
        source = ChannelSource(
            api,
            clock,
            running=pilothouse.__version__,
            storage=options.storage,
            authorities=options.update_authorities,
        )
        channel_observer = ChannelObserver(api, informers.get(UpdateConfig), clock, source)
        observers["channel-observer"] = channel_observer.run
    if UpdateConfig in primaries and options.update_prober:
        prober = UpdateProber(
            api,
            informers.get(UpdateConfig),
            clock,
            options.update_prober,
            running=pilothouse.__version__,
            storage=options.storage,
            authorities=options.update_authorities,
        )
        observers["update-prober"] = prober.run
    if any(one.name == webhook_actions.name for one in controllers):
        webhooks = WebhookObserver(
            api,
            informers.get(ApplicationAction),
            informers.get(ActionApproval),
            informers.get(AutopilotRuleObject),
            clock,
            options.autopilot_config,
        )
        observers["webhook-observer"] = webhooks.run
    return observers


class _Reached(NamedTuple):
    """A server that answers, and what is to run there."""

    api: Api
    controllers: list[Controller]
    """Those that are selected and suit it."""
    informers: SharedInformers
    metrics: RuleMetrics
    served_as: ServedAs
    """Optional kinds that it lacks, or has in another version."""

    @property
    def follows_rules(self) -> bool:
        return any(one.primary == AutopilotRule for one in self.controllers)

    def rule_families(self) -> RuleFamilies:
        """The metrics of rules, counted from here on; there are none without their controllers."""
        if not self.follows_rules:
            return lambda engines, leads: ()
        totals = RuleTotals()
        totals.follow(self.informers)

        def families(engines: Sequence[Engine], leads: bool) -> Iterator[str]:
            if leads:
                yield from totals.families(rule_errors(engines))
            if self.metrics.scrapes is not None:
                yield from scrape_families(self.metrics.scrapes)

        return families

    @property
    def parts(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """What runs beside the manager, also in one that stands by."""
        return {"metrics of rules": self.metrics.run} if self.follows_rules else {}


@asynccontextmanager
async def _reached(options: ManagerOptions, rng: random.Random, clock: Clock) -> AsyncIterator[_Reached]:
    async with HttpTransport.open(options.access, clock, agent=_AGENT) as transport:
        api = Api(transport, rng, manager=COMPONENT)
        version = await api.version()
        informers = SharedInformers(api, rng, clock)
        metrics = RuleMetrics(transport, informers, clock, options.autopilot_config)
        known = all_controllers(
            options.access.authority.decode(),
            options.timeouts,
            exclude_from_plans=options.exclude_from_plans,
            providers=metrics,
            rule_settings=RuleSettings(recommend_only=options.recommend_only),
            rule_budget=metrics.budget,
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
        served_as = {} if version.is_ours else await served_kinds(api)
        yield _Reached(api, controllers, informers, metrics, served_as)
