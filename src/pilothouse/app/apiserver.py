"""Composes an API server from its parts and runs it until it is stopped.

    await run(ApiServerOptions(data=Path("data"), port=0), announce=print)

The order of start is: data folder, store, keys, core, listening; only then is the administrator's kubeconfig
written and readiness announced. Stopping is the reverse, see ``graceful_shutdown``.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pilothouse.api.kubernetes.node_claims import NETWORK_PAGE, NetworkPage
from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.audit.peers import PeerTrails
from pilothouse.apiserver.authentication.authenticator import (
    Authenticator,
    TokenFileError,
    Tokens,
    read_tokens,
)
from pilothouse.apiserver.loopback_client import LoopbackClient
from pilothouse.apiserver.registry.kubernetes_service import KubernetesService, Member, Members
from pilothouse.apiserver.registry.node_client import HTTPSNodeClient
from pilothouse.apiserver.registry.node_status_reset import withdraw_reports
from pilothouse.apiserver.request_handler import Page, RequestHandler
from pilothouse.apiserver.server.health import Health
from pilothouse.apiserver.server.https_server import HTTPSServer
from pilothouse.apiserver.server.limits import ClientTimeouts
from pilothouse.apiserver.server.messages import Answer, Request, Response
from pilothouse.apiserver.server.reloadable_tls import ReloadableContext
from pilothouse.apiserver.server_instances import ServerInstance, running
from pilothouse.app import addresses, admission_control, audit_setup, memory_tuning
from pilothouse.app.certificate_renewal import CertificateRenewal
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.inherited_sockets import inherited_sockets
from pilothouse.app.options import ApiServerOptions, StartError, explain, read_text
from pilothouse.app.parent_pipe import stop_when_closed
from pilothouse.app.server_identity import ServerIdentity
from pilothouse.app.server_metrics import Monitoring
from pilothouse.app.stores import key_store, opened_store, serve_maintenance, warn_of_missing_keys
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.base.uids import Uids
from pilothouse.pki.authority import UnusableError
from pilothouse.pki.keyring import Keyring
from pilothouse.pki.pinning import PAGE as AUTHORITIES
from pilothouse.store.factory import BACKENDS
from pilothouse.store.interface import Store, StoreError
from pilothouse.store.store_health import condition_of
from pilothouse.store.timed_store import TimedStore

GRACE_SECONDS = 30.0
"""How long requests in flight get to finish when the server stops."""


async def run(options: ApiServerOptions, announce: Callable[[str], None]) -> None:
    """Run a server until SIGTERM or SIGINT. Raises ``StartError`` if it can't start."""
    stop = ShutdownRequest.on_signals(asyncio.get_running_loop())
    if options.lifeline is not None:
        stop_when_closed(stop, options.lifeline)
    async with serving(options) as server:
        announce(
            f"pilothouse apiserver is ready at {server.url} (kubeconfig: {server.folder.admin_kubeconfig})"
        )
        await stop.asked.wait()
        await stop.drain(server, delay=options.shutdown_delay, grace=GRACE_SECONDS)


@dataclass(frozen=True)
class ApiServer:
    url: str
    folder: DataFolder
    core: RequestHandler
    edge: HTTPSServer

    def leave(self) -> None:
        """Stop being ready, and close connections as they are used."""
        self.edge.leave()

    async def finish(self, grace: float) -> None:
        """Accept nothing further, end watches, and give requests in flight ``grace`` seconds."""
        self.edge.close()
        # Before connections close: so each watch ends with all its events delivered.
        self.core.watches.end_all()
        await self.edge.stop(grace)


@asynccontextmanager
async def serving(options: ApiServerOptions) -> AsyncIterator[ApiServer]:
    """A server that is ready within the context. Without ``finish``, leaving it cuts off its clients."""
    options.check()
    pod_security = admission_control.pod_security(options.admission_control_config_file)
    folder = DataFolder.open(options.data)
    authenticator = Authenticator(_tokens(options.token_auth_file), anonymous=options.anonymous_auth)
    health = Health()
    try:
        clock = SystemClock()
        async with opened_store(options, folder) as store:
            keyring = Keyring(folder.pki)
            keys = key_store(options, keyring, store)
            identity = ServerIdentity(options, folder, keyring, await keys.authorities(_now(clock)), clock)
            # Not only at the first call of a node: on a full disk no certificate could be made then.
            identity.peer()
            name = folder.instance()
            trail = audit_setup.open_trail(options.audit, name, clock)
            timed = TimedStore(store)
            core = RequestHandler(
                timed,
                resources(),
                authenticator=authenticator,
                clock=clock,
                random=random.SystemRandom(),
                uids=Uids(),
                refusals=refused_fields,
                signing_key=await keys.signing(),
                authority=lambda: identity.authority,
                nodes=HTTPSNodeClient(identity.node_tls),
                service_addresses=options.service_addresses,
                cluster_ranges=options.cluster_ranges,
                node_mask_size=options.node_mask_size,
                node_addresses=options.node_addresses,
                server_names=addresses.names(options.host),
                history=options.compaction_interval,
                pod_security=pod_security,
            )
            _add_health_checks(health, store, core)
            serve_maintenance(core, store, keys, clock)
            core.serve(AUTHORITIES, _authorities_page(identity))
            core.serve(NETWORK_PAGE, _network_page(options))
            await warn_of_missing_keys(store)
            if trail is not None:
                health.add("audit", trail.problem)
            async with audit_setup.recording(trail), core.running():
                watched = Monitoring(options, core, timed)
                watched.serve_pages(trail)
                edge = HTTPSServer(
                    core.answer,
                    authenticator=authenticator,
                    health=health,
                    shares=watched.shares,
                    requests=watched.requests,
                    check_head=core.check_head,
                    cached_reads=core.prompt(watched.requests),
                    trail=trail,
                    patience=ClientTimeouts(head=options.client_timeout, taking=options.client_timeout),
                )
                if options.local_node_absent:
                    await withdraw_reports(core, options.local_node, clock)
                live = ReloadableContext(identity.tls())
                port = await _listen(edge, options, live.listening)
                url = addresses.url(options.host, port)
                identity.write_kubeconfigs(url)
                renewal = CertificateRenewal(
                    identity, live, lambda: keys.authorities(_now(clock)), url, edge.dismiss
                )
                advertised = addresses.advertised(options.host, port)
                memory_tuning.settle()
                kubernetes = KubernetesService(
                    LoopbackClient(core), options.service_addresses, _members(options, store, advertised)
                )
                try:
                    async with (
                        _peers(
                            options,
                            store,
                            lambda: ServerInstance(name, advertised, identity.trusted.decode()),
                            identity,
                        ) as peers,
                        asyncio.TaskGroup() as group,
                    ):
                        audit_setup.serve_page(core, trail, peers, clock)
                        await kubernetes.reconcile()
                        keeping = [group.create_task(each.run()) for each in (renewal, kubernetes)]
                        yield ApiServer(url, folder, core, edge)
                        for each in keeping:
                            each.cancel()
                finally:
                    await edge.stop(0)
    except (StoreError, UnusableError) as problem:
        raise StartError(str(problem)) from problem


def _peers(
    options: ApiServerOptions, store: Store, me: Callable[[], ServerInstance], identity: ServerIdentity
) -> AbstractAsyncContextManager[PeerTrails]:
    """The other instances, if the store can be shared."""
    if BACKENDS[options.store].shared:
        return audit_setup.known_to_peers(store, me, identity.peer)
    return audit_setup.without_peers()


def _members(options: ApiServerOptions, store: Store, advertised: str) -> Members:
    """The addresses of all servers that share the store, this one included."""

    async def members() -> set[Member]:
        others = await running(store) if BACKENDS[options.store].shared else []
        return {addresses.place(each) for each in (advertised, *(other.url for other in others))}

    return members


async def _listen(edge: HTTPSServer, options: ApiServerOptions, tls: ssl.SSLContext) -> int:
    if options.listen_fds:
        return await edge.listen_on(inherited_sockets(options.listen_fds), tls)
    try:
        return await edge.listen(options.host, options.port, tls)
    except OSError as problem:
        raise StartError(f"can't listen on {options.host}:{options.port}: {explain(problem)}") from None


def _tokens(file: Path | None) -> Tokens:
    if file is None:
        return {}
    try:
        return read_tokens(read_text(file), str(file))
    except TokenFileError as problem:
        raise StartError(str(problem)) from None


def _authorities_page(identity: ServerIdentity) -> Page:
    """Public: the authorities of this server, to be compared with a hash from elsewhere."""

    async def page(request: Request) -> Answer:
        return Response(200, identity.trusted, "application/x-pem-file")

    return page


def _network_page(options: ApiServerOptions) -> Page:
    """For nodes: the ranges of pod and service addresses, so that they route and listen at no others."""
    body = msgspec.json.encode(
        NetworkPage(tuple(map(str, options.cluster_ranges)), (str(options.service_addresses),))
    )

    async def page(request: Request) -> Answer:
        return Response(200, body)

    return page


def _add_health_checks(health: Health, store: Store, core: RequestHandler) -> None:
    """The readiness checks besides that of the process."""

    async def store_answers() -> str:
        try:
            await store.revision()
        except StoreError as problem:
            return str(problem)
        return ""

    async def store_is_well() -> str:
        return condition_of(store).problem

    health.add("store", store_answers)
    health.add("store-condition", store_is_well)
    health.add("cache", core.cache.problem)
    health.add("background", core.background_problem)


def _now(clock: Clock) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
