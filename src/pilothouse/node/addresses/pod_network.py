"""The node's network: an address for each pod, names inside pods, services, routes to other machines.

    network = PodNetwork.open(settings, api, clock, rng)
    address = await network.assign(pod)             # recorded until released
    mounts = network.mounts(pod, address)           # /etc/hosts and /etc/resolv.conf
    await network.run()                             # names, services and routes follow the API

Until a cache has synced, existing files, routes and listening sockets stay. Routes and files outlive the
agent.

All problems are in ``problems``; only those of this node's own range set its condition
``NetworkUnavailable``. Claims of other nodes never do: a node could otherwise keep pods off all others and
attract them to itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from random import Random
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import EndpointSlice, Node, Service
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.node.addresses.address_records import RECORDS_FILE, AddressRecord, AddressRecords
from pilothouse.node.addresses.cluster_ranges import ClusterRanges
from pilothouse.node.addresses.dns_names import HEADLESS, names_of
from pilothouse.node.addresses.host_ports import conflict, occupied, ports_of
from pilothouse.node.addresses.iproute import IpRoute, RouteProblem
from pilothouse.node.addresses.pod_files import PodFiles
from pilothouse.node.addresses.pod_ranges import LoopbackBlock, answers, is_ipv4, next_free, pod_range
from pilothouse.node.addresses.route_plan import RoutePlan, internal_address, plan_routes
from pilothouse.node.event_recorder import EventRecorder
from pilothouse.node.interfaces import AddressNotReady
from pilothouse.node.services.backends import (
    ListenAddress,
    backends,
    misplaced,
    reachable,
    service_places,
    unserved,
)
from pilothouse.node.services.connection_budget import ConnectionBudget
from pilothouse.node.services.listening_sockets import listening_sockets, users_at
from pilothouse.node.services.service_proxy import ServiceProxy
from pilothouse.node.services.socket_store import SocketStore
from pilothouse.node.settings import NodeSettings
from pilothouse.runtime.event_recorder import EventCorrelator
from pilothouse.supervise.launch_spec import Mount

COMPONENT: Final = "kube-proxy"
"""The source of events: users look for this name."""
RETRY_SECONDS: Final = 10.0
"""Seconds between retries of routes and listeners that failed."""
EVENT_SECONDS: Final = 1800.0
"""Seconds after which the event of a problem that lasts is recorded again: events expire after an hour."""
BATCH_SECONDS: Final = 0.05
"""Seconds for which changes are batched."""
FIRST_NAMES: Final = 2.0
"""Seconds that the first pods wait for the names of services."""

log = logging.getLogger(__name__)


class PodNetwork:
    """Implements ``interfaces.AddressManager``."""

    def __init__(
        self,
        settings: NodeSettings,
        api: Api,
        network: IPv4Network,
        clock: Clock,
        rng: Random,
        *,
        block: LoopbackBlock | None,
        records: AddressRecords,
        store: SocketStore | None = None,
    ) -> None:
        """``block`` is None with ``--pod-cidr``. ``store`` keeps listening sockets between agents."""
        self._settings = settings
        self._clock = clock
        self._network = network
        self._block = block
        self._records = msgspec.structs.replace(records, network=str(network))
        self._files = PodFiles(settings.pods)
        self._ip = IpRoute()
        self._cluster = ClusterRanges(api, clock)
        self._proxy = ServiceProxy(clock, rng, ConnectionBudget.of_this_process(), store)
        self._events = EventRecorder(api, EventCorrelator(component=COMPONENT, host=settings.name), clock)
        self._informers = SharedInformers(api, rng, clock)
        self._services = self._informers.get(Service)
        self._slices = self._informers.get(EndpointSlice)
        self._nodes = self._informers.get(Node)
        self._pods: dict[str, Object] = {}
        self._behind: set[str] = set()
        """Pods whose hosts files lack the latest names."""
        self._changed = asyncio.Event()
        self._plan = RoutePlan()
        self._settled_plan: RoutePlan | None = None
        self._route_problems: list[RouteProblem] = []
        self._unserved: list[tuple[Object, str]] = []
        self._occupied: dict[tuple[str, str], tuple[Object, str]] = {}
        """Services with a port that another program has, each with a message."""
        self._settle_problem = ""
        self._reported: dict[str, float] = {}
        """The problems that were reported, and when by the monotonic clock."""

    @classmethod
    def open(
        cls, settings: NodeSettings, api: Api, clock: Clock, rng: Random, store: SocketStore | None = None
    ) -> PodNetwork:
        """Raises ``BadRange``, ``AddressRecordsError`` or ``NoBlock``."""
        records = AddressRecords.read(settings.data / RECORDS_FILE)
        for uid in tuple(records.entries):
            # A pod without a directory never started, or is gone.
            if not (settings.pods / uid).exists():
                records = records.without(uid)
        if settings.pod_cidr:
            network, block = pod_range(settings.pod_cidr), None
        else:
            block = LoopbackBlock.claim(preferred=records.network, data=settings.data)
            network = block.network
        return cls(settings, api, network, clock, rng, block=block, records=records, store=store)

    async def assign(self, pod: Object, /) -> str:
        """The pod's address, the same for the pod's whole life. Raises ``AddressNotReady``."""
        known = self._records.entries.get(pod.uid)
        if known is None:
            known = self._allocate(pod)
            last = self._records.last if pod.spec.get("hostNetwork") else known.address
            self._save(msgspec.structs.replace(self._records.with_entry(pod.uid, known), last=last))
        self._pods[pod.uid] = pod
        # A pod that an earlier agent started may have an outdated file.
        self._behind.add(pod.uid)
        self._changed.set()
        if not pod.spec.get("hostNetwork"):
            await self._answering(known.address)
        await self._names_known()
        return known.address

    async def release(self, pod_uid: str, /) -> None:
        if self._pods.pop(pod_uid, None) is not None:
            self._changed.set()
        if pod_uid in self._records.entries:
            self._save(self._records.without(pod_uid))

    def mounts(self, pod: Object, address: str, /) -> Sequence[Mount]:
        """Both files, read-only: the next update would overwrite what a pod writes there."""
        self._files.write(pod, address)
        places = (
            (self._files.hosts(pod.uid), "/etc/hosts"),
            (self._files.resolver(pod.uid), "/etc/resolv.conf"),
        )
        return [
            Mount(str(source), target, read_only=True, is_file=True, mapped=True) for source, target in places
        ]

    def services(self, namespace: str, /) -> Sequence[Object]:
        return [each for each in self._services.cache.list() if each.namespace == namespace]

    def _allocate(self, pod: Object) -> AddressRecord:
        ports = ports_of(pod)
        held = {entry.pod: entry.ports for entry in self._records.entries.values()}
        for problem in (conflict(ports, held), *(occupied(port, self._settings.address) for port in ports)):
            if problem:
                raise AddressNotReady("NodePorts", problem)
        name = f"{pod.namespace}/{pod.name}"
        if pod.spec.get("hostNetwork"):
            return AddressRecord(self._settings.address, name, ports)
        address = next_free(self._network, self._records.taken, after=self._records.last)
        if address is None:
            raise AddressNotReady("NoAddress", f"all addresses of {self._network} belong to pods")
        return AddressRecord(address, name, ports)

    async def _answering(self, address: str) -> None:
        """Check that the machine has an address; those of ``--pod-cidr`` need a local route first."""
        if answers(address):
            return
        self._settled_plan = None
        await self._sync_routes()
        if not answers(address):
            why = "; ".join(self._own_route_problems()) or f"{address} is not an address of this machine"
            raise AddressNotReady("NoAddress", why)

    async def _names_known(self) -> None:
        """Wait up to ``FIRST_NAMES`` seconds for services and endpoints."""
        if _filled(self._services, self._slices):
            return
        try:
            async with asyncio.timeout(FIRST_NAMES):
                await self._services.synced()
                await self._slices.synced()
        except TimeoutError:
            log.warning(
                "services and endpoints are not known yet; a pod starts, and finds others by name later"
            )
        else:
            await self._update_hosts_files()

    def _save(self, records: AddressRecords) -> None:
        records.write(self._settings.data / RECORDS_FILE)
        self._records = records

    @property
    def problems(self) -> list[str]:
        return [problem for problem, _ in self._all_problems()]

    def condition(self) -> Mapping[str, str]:
        """The Node's condition ``NetworkUnavailable``, without times."""
        wrong = [*self._plan.problems, *self._own_route_problems()]
        return {
            "type": "NetworkUnavailable",
            "status": "True" if wrong else "False",
            "reason": "NoRoutes" if wrong else "RoutesCreated",
            "message": "; ".join(wrong) if wrong else f"pods have addresses of {self._network}",
        }

    def _own_route_problems(self) -> list[str]:
        """Why this node's own range does not answer. Routes to other machines don't count."""
        return list(
            dict.fromkeys(each.message for each in self._route_problems if each.network in self._plan.local)
        )

    async def run(self) -> None:
        watched = (self._services, self._slices, self._nodes)
        endings = [informer.follow(self._changed.set) for informer in watched]
        try:
            async with self._informers.running():
                await together({"events": self._events.run(), "following": self._follow()})
        finally:
            for end in endings:
                end()
            await self._proxy.close()

    async def _follow(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._sync()
                self._settle_problem = ""
            except OSError as problem:
                # Out of files or disk: what is done stays, the rest is retried.
                self._settle_problem = f"names, services and routes may be behind: {problem}"
                log.warning("%s", self._settle_problem)
                await asyncio.sleep(RETRY_SECONDS)
            try:
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._changed.wait()
                await asyncio.sleep(BATCH_SECONDS)
            except TimeoutError:
                self._settled_plan = None

    def close(self) -> None:
        """Release the block of addresses."""
        if self._block is not None:
            self._block.close()

    async def _sync(self) -> None:
        await self._sync_routes()
        await self._sync_services()
        # Last: no name may resolve to a port that another program has.
        await self._update_hosts_files()
        self._report_problems()

    def _report_problems(self) -> None:
        """Report each problem once in the log, and in an event about the object, again before that
        expires."""
        current, now = dict(self._all_problems()), self._clock.monotonic()
        for problem, about in current.items():
            reported = self._reported.get(problem)
            if reported is not None and now - reported < EVENT_SECONDS:
                continue
            if reported is None:
                log.warning("%s", problem)
            if about is not None:
                reason = "NotRouted" if about.kind == Node.kind else "NotForwarded"
                self._events.record(about, reason, problem, warning=True)
            self._reported[problem] = now
        self._reported = {problem: at for problem, at in self._reported.items() if problem in current}

    def _all_problems(self) -> Iterator[tuple[str, Object | None]]:
        """Each problem as a message, and the object concerned."""
        for problem in (*self._plan.problems, *self._own_route_problems()):
            yield problem, None
        for each in self._plan.warnings:
            yield each.message, self._nodes.cache.get("", each.node)
        for network, problem in self._route_problems:
            if network not in self._plan.local:
                yield problem, self._nodes.cache.get("", self._plan.owners.get(network, ""))
        if self._settle_problem:
            yield self._settle_problem, None
        pods = {pod.key: pod for pod in self._pods.values()}
        for owner, message, _ in self._proxy.problems.values():
            place = (owner.namespace, owner.name)
            yield message, self._services.cache.get(*place) if owner.kind == "Service" else pods.get(place)
        for service, message in (*self._unserved, *self._misplaced(), *self._occupied.values()):
            yield message, service
        for informer in (self._services, self._slices, self._nodes):
            if informer.problem:
                problem = (
                    f"names, services and routes may be behind: {informer.noun.resource}: {informer.problem}"
                )
                yield problem, None

    async def _update_hosts_files(self) -> None:
        """Write the known names to every pod's hosts file."""
        if not _filled(self._services, self._slices):
            return
        named = [one for one in self._forwarded() if one.key not in self._occupied]
        if self._files.set_names(names_of(named, self._reachable_slices())):
            self._behind |= self._pods.keys()
        while self._behind:
            uid = self._behind.pop()
            if uid in self._pods:
                self._files.revise(self._pods[uid], self._records.entries[uid].address)
            # Thousands of names in many files take a while; let other tasks run.
            await asyncio.sleep(0)

    async def _sync_routes(self) -> None:
        own = None if self._block is not None else self._network
        filled = _filled(self._nodes, self._services)
        if filled:
            await self._cluster.refresh()
        cluster = self._cluster.known
        if not filled or cluster is None:
            if own is None or (str(own) in self._plan.local and not self._route_problems):
                return
            # Until the others are known, their routes stay, and our own range answers.
            self._plan = RoutePlan(local=frozenset({str(own)}))
            self._route_problems = await self._ip.add(self._plan)
            return
        addresses = {str(one.spec.get("clusterIP") or "") for one in self._forwarded()}
        plan = plan_routes(
            self._nodes.cache.list(),
            me=self._settings.name,
            address=self._settings.address,
            own=own,
            services=filter(is_ipv4, addresses - {"", HEADLESS}),
            servers=filter(is_ipv4, map(_host_of, (self._settings.server, *self._settings.other_servers))),
            cluster=cluster,
        )
        if plan == self._settled_plan or (plan == self._plan == RoutePlan() and not self._route_problems):
            return
        self._plan = plan
        self._route_problems = await self._ip.settle(plan)
        self._settled_plan = plan

    async def _sync_services(self) -> None:
        if not _filled(self._services, self._slices):
            return
        services = self._forwarded()
        addresses = list(dict.fromkeys((self._settings.address, "127.0.0.1")))
        table = backends(
            services,
            self._reachable_slices(),
            {self._records.entries[uid].address: pod for uid, pod in self._pods.items()},
            node=self._settings.name,
            addresses=addresses,
        )
        await self._proxy.settle(table)
        self._unserved = unserved(services)
        self._occupied = await self._occupied_services(services)

    def _forwarded(self) -> list[Object]:
        """Services without a cluster IP, or with one in the service ranges."""
        wrong = {service.key for service, _ in self._misplaced()}
        return [one for one in self._services.cache.list() if one.key not in wrong]

    def _misplaced(self) -> list[tuple[Object, str]]:
        own = (self._settings.address, "127.0.0.1")
        return misplaced(
            self._services.cache.list(),
            ranges=self._cluster.services,
            taken=(self._network, *(IPv4Network(IPv4Address(each)) for each in own if is_ipv4(each))),
        )

    async def _occupied_services(
        self, services: Sequence[Object]
    ) -> dict[tuple[str, str], tuple[Object, str]]:
        """Services of which another user's program has a port. Root's programs and this user's don't count:
        the latter may be another agent, which forwards as this one does."""
        ours, in_use = self._proxy.listening, self._proxy.in_use
        places = {at: one for one in services for at in service_places(one) if at not in ours}
        if not places:
            return {}
        sockets = await asyncio.to_thread(listening_sockets)
        trusted = {0, os.geteuid()}
        return {
            service.key: (service, _occupied(service, at))
            for at, service in places.items()
            if not (users := users_at(*at, sockets)) <= trusted or (not users and at in in_use)
        }

    def _reachable_slices(self) -> list[Object]:
        elsewhere = {
            node.name
            for node in self._nodes.cache.list()
            if node.name != self._settings.name and internal_address(node) != self._settings.address
        }
        return reachable(self._slices.cache.list(), elsewhere=elsewhere)


def _occupied(service: Object, at: ListenAddress) -> str:
    return (
        f"service {service.namespace}/{service.name}: a program of another user has {at.address}:{at.port}, "
        f"or that port of all addresses (0.0.0.0), so the name is left out of pods' /etc/hosts; stop that "
        f"program, have it listen on its pod's address, or give the service another port"
    )


def _filled(*informers: Informer) -> bool:
    return all(informer.is_synced for informer in informers)


def _host_of(url: str) -> str:
    return urlsplit(url).hostname or ""
