"""An API server, put together from its parts and run until told to stop.

    await run(ApiServerOptions(data=Path("data"), port=0), announce=print)

Order of start: data folder, store, keys, core, listening; only then is the administrator's kubeconfig written and
readiness announced. Stopping goes the other way round.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import resource
import signal
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.audit.peers import Asking
from pilothouse.apiserver.authentication import Authenticator, TokenFileError, Tokens, read_tokens
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.health import Health
from pilothouse.apiserver.http import Edge
from pilothouse.apiserver.instances import Instance
from pilothouse.apiserver.live_tls import LiveContext
from pilothouse.app import addresses, auditing, memory
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.identity import Identity
from pilothouse.app.keeping import key_store, opened_store, serve_maintenance, warn_of_missing_keys
from pilothouse.app.monitoring import Monitoring
from pilothouse.app.options import ApiServerOptions, StartError, explain, read_file
from pilothouse.app.renewing import Renewal
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.pki.authority import UnusableError
from pilothouse.pki.keyring import Keyring
from pilothouse.store.interface import Store, StoreError
from pilothouse.store.timing import Timed

GRACE_SECONDS = 30.0
"""How long requests in flight get to finish when the server stops."""


async def run(options: ApiServerOptions, announce: Callable[[str], None]) -> None:
    """Run a server until SIGTERM or SIGINT. Raises ``StartError`` if it can't start."""
    stop = _stop_on_signals(asyncio.get_running_loop())
    async with serving(options) as (url, folder, health):
        announce(f"pilothouse apiserver is ready at {url} (kubeconfig: {folder.admin_kubeconfig})")
        await stop.wait()
        health.drain()
        await asyncio.sleep(options.shutdown_delay)


@asynccontextmanager
async def serving(options: ApiServerOptions) -> AsyncIterator[tuple[str, DataFolder, Health]]:
    """A server that is ready within the context: its URL, its data folder, and its health."""
    options.check()
    folder = DataFolder.open(options.data)
    authenticator = Authenticator(_tokens(options.token_auth_file), anonymous=options.anonymous_auth)
    health = Health()
    try:
        clock = SystemClock()
        async with opened_store(options, folder) as store:
            keyring = Keyring(folder.pki)
            keys = key_store(options, keyring, store)
            identity = Identity(options, folder, keyring, await keys.authorities(_now(clock)), clock)
            name = folder.instance()
            trail = auditing.open_trail(options.audit, name, clock)
            timed = Timed(store)
            core = Core(
                timed,
                resources(),
                authenticator=authenticator,
                clock=clock,
                random=random.SystemRandom(),
                refusals=refused_fields,
                signing_key=await keys.signing(),
                service_addresses=options.service_addresses,
                history=options.compaction_interval,
            )
            _watch_over(health, store, core)
            serve_maintenance(core, store, keys, clock)
            await warn_of_missing_keys(store)
            if trail is not None:
                health.add("audit", trail.problem)
            async with auditing.recording(trail), core.running():
                watched = Monitoring(options, core, timed)
                watched.serve_pages(trail)
                edge = Edge(
                    core.answer,
                    authenticator=authenticator,
                    health=health,
                    shares=watched.shares,
                    requests=watched.requests,
                    trail=trail,
                )
                live = LiveContext(identity.tls())
                port = await _listen(edge, options, live.listening)
                url = addresses.url(options.host, port)
                identity.admit_admin(url)
                renewal = Renewal(identity, live, lambda: keys.authorities(_now(clock)), url)
                advertised = addresses.advertised(options.host, port)
                memory.settle()
                try:
                    async with (
                        _peers(
                            options,
                            store,
                            lambda: Instance(name, advertised, identity.trusted.decode()),
                            identity,
                        ) as peers,
                        asyncio.TaskGroup() as group,
                    ):
                        auditing.serve_page(core, trail, peers, clock)
                        renewing = group.create_task(renewal.run())
                        yield url, folder, health
                        renewing.cancel()
                finally:
                    await edge.stop(GRACE_SECONDS)
    except (StoreError, UnusableError) as problem:
        raise StartError(str(problem)) from problem


def _peers(
    options: ApiServerOptions, store: Store, me: Callable[[], Instance], identity: Identity
) -> AbstractAsyncContextManager[Asking]:
    """The other instances, where the store can have any."""
    if options.store == "etcd":
        return auditing.known_to_peers(store, me, identity.peer)
    return auditing.without_peers()


async def _listen(edge: Edge, options: ApiServerOptions, tls: ssl.SSLContext) -> int:
    try:
        return await edge.listen(options.host, options.port, tls)
    except OSError as problem:
        raise StartError(f"can't listen on {options.host}:{options.port}: {explain(problem)}") from None


def _tokens(file: Path | None) -> Tokens:
    if file is None:
        return {}
    try:
        return read_tokens(read_file(file).decode(), str(file))
    except UnicodeDecodeError as problem:
        raise StartError(f"{file} is not UTF-8: {problem}") from None
    except TokenFileError as problem:
        raise StartError(str(problem)) from None


def _watch_over(health: Health, store: Store, core: Core) -> None:
    """The checks that say more than that the process runs."""

    async def store_answers() -> str:
        try:
            await store.revision()
        except StoreError as problem:
            return str(problem)
        return ""

    health.add("store", store_answers)
    health.add("cache", core.cache.problem)
    health.add("background", core.background_problem)


def _stop_on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; a second one then ends the process as usual."""
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)

    def asked() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, asked)
    return stop


def allow_many_connections() -> None:
    """Each watcher is an open file; take as many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _now(clock: Clock) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)
