"""Composes a node from its parts and runs it until it is stopped.

    await run(NodeOptions(access=load(kubeconfig), settings=settings), announce=print)

Pods keep running and are adopted by the next agent, unless the settings say otherwise; SIGUSR1 keeps them
running in any case.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import random
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import pilothouse
from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.aio.race import unless
from pilothouse.aio.task_group import together
from pilothouse.app import memory_tuning
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.inherited_sockets import inherited_sockets
from pilothouse.app.node_announcement import announce_readiness
from pilothouse.app.open_files import raise_open_files
from pilothouse.app.options import StartError, explain
from pilothouse.app.parent_pipe import when_closed
from pilothouse.app.pod_shutdown import end_all
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.node.addresses.address_records import AddressRecordsError
from pilothouse.node.addresses.pod_network import PodNetwork
from pilothouse.node.addresses.pod_ranges import BadRange, NoBlock
from pilothouse.node.agent import Agent, DataInUse
from pilothouse.node.containers.pilot_installation import installation
from pilothouse.node.files.directory_removal import DirectoryRemoval
from pilothouse.node.images.image_store import ImageStore
from pilothouse.node.interfaces import NodeParts
from pilothouse.node.machine.certificate_renewal import NodeCertificateRenewal
from pilothouse.node.machine.machine_info import read_machine_info
from pilothouse.node.machine.node_credentials import NodeCredentials
from pilothouse.node.metrics.log_matches import LogMatches
from pilothouse.node.metrics.metrics_pages import MetricsPages
from pilothouse.node.server.caller_authorization import CallerAuthorizer
from pilothouse.node.server.container_programs import ContainerPrograms
from pilothouse.node.server.exec_sessions import ExecSessions
from pilothouse.node.server.http_server import ServerBackends, listening, serving
from pilothouse.node.server.listener import NodeListener
from pilothouse.node.server.pod_pages import PodPages
from pilothouse.node.server.serving_certificate import ServingCertificate
from pilothouse.node.services.socket_store import SocketStore
from pilothouse.node.settings import NodeSettings
from pilothouse.node.volumes.assembly import open_volumes
from pilothouse.node.volumes.pod_volumes import PodVolumes
from pilothouse.node.volumes.tier_permissions import tier_problem
from pilothouse.supervise import cgroups, containers
from pilothouse.supervise.machine_survey import survey_machine

if TYPE_CHECKING:
    from pilothouse.app.node_updates import UpdateOptions

log = logging.getLogger(__name__)

AGENT = f"pilothouse-node/{pilothouse.__version__}"


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    access: Access
    settings: NodeSettings
    host: str = "127.0.0.1"
    """Where the node's own server listens."""
    client_authorities: bytes = b""
    """PEM of authorities that callers of that server may have, besides the API server's."""
    joined: NodeCredentials | None = None
    """The files of a machine that joined, which the node itself renews."""
    lifeline: int | None = None
    listen_fd: int | None = None
    """A listening socket, inherited from the supervisor; None to open one."""
    socket_store_fds: tuple[int, ...] = ()
    """A socket pair that keeps listening sockets while the node restarts; may be empty."""
    updates: UpdateOptions | None = None
    """What update plans do on this machine; None if they do nothing."""


async def run(options: NodeOptions, *, announce: Callable[[str], None]) -> bool:
    """Run until asked to stop. Returns whether to start it again, in the version that it has installed.

    Raises ``StartError`` at the start."""
    if options.updates is not None and not options.updates.pods:
        return await _run_updates_alone(options, options.updates, announce)
    loop = asyncio.get_running_loop()
    # Files get the modes that they are created with, whatever the umask was.
    os.umask(0o022)
    memory_tuning.settle_later(loop)
    stop = ShutdownRequest.on_signals(loop)
    ends_pods, restarts = options.settings.stop_pods, False
    listeners: list[NodeListener] = []

    def leave_pods() -> None:
        nonlocal ends_pods
        ends_pods = False
        stop.asked.set()

    def restart() -> None:
        nonlocal restarts
        restarts = True
        leave_pods()

    loop.add_signal_handler(signal.SIGUSR1, leave_pods)
    if options.lifeline is not None:
        # Without its supervisor, which decides about the pods, it leaves them to the next agent.
        when_closed(
            options.lifeline, leave_pods, is_healthy=lambda: not any(each.is_deaf() for each in listeners)
        )
    clock, server_socket = SystemClock(), _listening_socket(options)
    settings = msgspec.structs.replace(
        options.settings,
        port=server_socket.getsockname()[1],
        open_files=options.settings.open_files or raise_open_files(),
    )
    async with HttpTransport.open(options.access, clock, agent=AGENT) as transport:
        api = Api(transport, random.Random(), manager="pilothouse-node")
        certificate = ServingCertificate(
            settings.data / "serving",
            settings.name,
            [settings.address],
            api,
            clock,
            authorities=options.access.authority + b"\n" + options.client_authorities,
        )
        volumes = _volumes(settings, api, clock)
        store = _socket_store(options.socket_store_fds)
        parts = await _parts(settings, api, clock, volumes, store)
        agent = Agent(
            api, settings, parts, clock, random.Random(), serving_problem=lambda: certificate.problem
        )
        log_matches = LogMatches(agent.container_index, agent.warn, clock)
        figures = MetricsPages(settings.name, agent.container_index, parts.groups, volumes, log_matches)
        server_backends = _server_backends(agent, settings, api, clock, figures)
        async with serving(server_socket, certificate.context(), server_backends) as listener:
            listeners.append(listener)
            work = {
                "agent": agent.run(),
                "log matches": log_matches.run(),
                "serving certificate": certificate.run(),
                "announcing": announce_readiness(agent.registration, certificate.issued, settings, announce),
            }
            if options.updates is not None:
                work["updates"] = _updates_beside_pods(options.updates, settings, api, clock, restart)
            if options.joined is not None:
                work["renewing"] = NodeCertificateRenewal(api, settings.name, options.joined, clock).run()
            try:
                await unless(together(work), stop.asked.wait())
            except DataInUse as problem:
                raise StartError(str(problem)) from None
            finally:
                listeners.clear()
        if ends_pods:
            await end_all(settings.data, stop)
            cgroups.find(_group(settings)).remove_empty()
    return restarts


async def _run_updates_alone(
    options: NodeOptions, updates: UpdateOptions, announce: Callable[[str], None]
) -> bool:
    """Run the update agent alone, without a Node and pods, until asked to stop."""
    restarts = False

    def restart() -> None:
        nonlocal restarts
        restarts = True
        stop.asked.set()

    os.umask(0o022)
    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    if options.lifeline is not None:
        when_closed(options.lifeline, stop.asked.set)
    clock, settings = SystemClock(), options.settings
    async with HttpTransport.open(options.access, clock, agent=AGENT) as transport:
        api = Api(transport, random.Random(), manager="pilothouse-node")
        work = {"updates": _updates(updates, settings, api, clock, restart)}
        if options.joined is not None:
            work["renewing"] = NodeCertificateRenewal(api, settings.name, options.joined, clock).run()
        announce(f"updates of {settings.name} are carried out as plans say; it runs no pods")
        try:
            await unless(together(work), stop.asked.wait())
        except DataInUse as problem:
            raise StartError(str(problem)) from None
    return restarts


async def _updates_beside_pods(
    options: UpdateOptions, settings: NodeSettings, api: Api, clock: Clock, restart: Callable[[], None]
) -> None:
    """Run the update agent, and start it again if it fails: pods don't depend on it."""
    tasks = BackgroundTasks({"updates": lambda: _updates(options, settings, api, clock, restart)})
    async with tasks.running():
        await asyncio.get_running_loop().create_future()


async def _updates(
    options: UpdateOptions, settings: NodeSettings, api: Api, clock: Clock, restart: Callable[[], None]
) -> None:
    # Imported here: machines that plans don't update should not pay for it.
    from pilothouse.app.node_updates import update_agent

    await update_agent(options, settings, api, clock, restart).run()


def _listening_socket(options: NodeOptions) -> socket.socket:
    """The address of the node's own server. Raises ``StartError``."""
    if options.listen_fd is not None:
        return inherited_sockets((options.listen_fd,))[0]
    try:
        return listening(options.host, options.settings.port)
    except OSError as problem:
        raise StartError(
            f"can't listen on {options.host}:{options.settings.port}: {explain(problem)}"
        ) from None


def _server_backends(
    agent: Agent, settings: NodeSettings, api: Api, clock: Clock, figures: MetricsPages
) -> ServerBackends:
    """The backends of the node's own server."""
    pages = PodPages(agent.container_index, clock)
    return ServerBackends(
        pages,
        ExecSessions(pages, ContainerPrograms()),
        CallerAuthorizer(api, settings.name, clock),
        {
            "/metrics": figures.all,
            "/metrics/resource": figures.resource,
            "/metrics/cadvisor": figures.containers,
        },
    )


def _volumes(settings: NodeSettings, api: Api, clock: Clock) -> PodVolumes:
    """Raises ``StartError`` if other users can change a tier."""
    for name, folder in settings.tiers.items():
        if problem := tier_problem(folder):
            raise StartError(f"--tier {name}={folder}: {problem}")
    return open_volumes(
        api,
        node=settings.name,
        data=settings.data,
        clock=clock,
        rng=random.Random(),
        tiers=settings.tiers,
        tier_sizes=settings.tier_sizes,
        private=map(Path, settings.hidden),
        allocatable=read_machine_info(settings).allocatable,
    )


def _group(settings: NodeSettings) -> str:
    """The control group above those of all pods.

    It depends on the data folder: a control plane that was restored on the same machine has pods of the same
    uids, on a node of the same name.
    """
    mark = hashlib.sha256(os.fsencode(settings.data.absolute())).hexdigest()[:8]
    return f"pilothouse/{settings.name}-{mark}"


async def _parts(
    settings: NodeSettings, api: Api, clock: Clock, volumes: PodVolumes, store: SocketStore | None
) -> NodeParts:
    group = _group(settings)
    groups = cgroups.find(group)
    try:
        groups.weigh(os.cpu_count() or 1)
    except OSError as problem:
        log.warning("all pods together have the CPU weight of one process: %s", problem)
    return NodeParts(
        images=ImageStore(
            settings.data / "images", clock, seen=(*installation(), *map(str, settings.exposed))
        ),
        volumes=volumes,
        addresses=_network(settings, api, clock, random.Random(), store),
        containers=containers,
        groups=groups,
        removal=DirectoryRemoval(),
        survey=await survey_machine(settings.data / "survey", group),
    )


def _socket_store(descriptors: tuple[int, ...]) -> SocketStore | None:
    if not descriptors:
        return None
    writing, reading = descriptors
    return SocketStore(socket.socket(fileno=writing), socket.socket(fileno=reading))


def _network(
    settings: NodeSettings, api: Api, clock: Clock, rng: random.Random, store: SocketStore | None
) -> PodNetwork:
    try:
        return PodNetwork.open(settings, api, clock, rng, store)
    except (BadRange, AddressRecordsError, NoBlock) as problem:
        raise StartError(str(problem)) from None
    except OSError as problem:
        raise StartError(f"{settings.data} can't be written: {explain(problem)}") from None
