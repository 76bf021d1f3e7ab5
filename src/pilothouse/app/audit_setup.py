"""Composes the audit log of a server: recording requests, and serving the records.

trail = open_trail(options.audit, name, clock)
async with recording(trail), without_peers() as peers:
    serve_page(core, trail, peers, clock)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pilothouse.apiserver.audit.audit_policy import DEFAULT, AuditPolicy
from pilothouse.apiserver.audit.log_file import DAY, MEGABYTE, LogFile, Rotation
from pilothouse.apiserver.audit.page import AuditPage, resolver
from pilothouse.apiserver.audit.peers import PATH, AuditPeers, NoPeers, PeerTrails
from pilothouse.apiserver.audit.policy_file import PolicyFileError, read_policy
from pilothouse.apiserver.audit.records import AuditRecorder
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server_instances import ServerInstance, ServerInstances
from pilothouse.app.options import AuditOptions, StartError, explain, read_text
from pilothouse.base.clock import Clock
from pilothouse.pki.keyring import Pair
from pilothouse.store.interface import Store


def open_trail(options: AuditOptions, instance: str, clock: Clock) -> AuditTrail | None:
    """The audit log of the options, if they ask for one.

    A path that can't be right keeps the server from starting; a full disk does not, since it may have room
    again.
    """
    if options.log_path is None:
        return None
    rotation = Rotation(options.max_megabytes * MEGABYTE, options.max_backups, options.max_days * DAY)
    file = LogFile(options.log_path.absolute(), rotation)
    try:
        file.open()
    except (IsADirectoryError, NotADirectoryError, FileExistsError, PermissionError) as problem:
        raise StartError(f"--audit-log-path {options.log_path} can't be used: {explain(problem)}") from None
    except OSError:
        pass  # The log retries, and its health check reports the problem.
    return AuditTrail(file, AuditRecorder(_policy(options), instance), clock)


def _policy(options: AuditOptions) -> AuditPolicy:
    if options.policy_file is None:
        return DEFAULT
    try:
        return read_policy(read_text(options.policy_file), str(options.policy_file))
    except PolicyFileError as problem:
        raise StartError(f"the audit policy can't be used:\n{problem}") from None


@asynccontextmanager
async def recording(trail: AuditTrail | None) -> AsyncIterator[None]:
    if trail is None:
        yield
    else:
        async with trail.running():
            yield


@asynccontextmanager
async def known_to_peers(
    store: Store, me: Callable[[], ServerInstance], credential: Callable[[], Pair]
) -> AsyncIterator[PeerTrails]:
    """The other instances on a store that several share; they know of this one while the context is open."""
    instances = ServerInstances(store, me)
    async with instances.announced(), AuditPeers.open(instances, credential) as peers:
        yield peers


@asynccontextmanager
async def without_peers() -> AsyncIterator[PeerTrails]:
    """A store that is not shared."""
    yield NoPeers()


def serve_page(core: RequestHandler, trail: AuditTrail | None, peers: PeerTrails, clock: Clock) -> None:
    core.serve(PATH, AuditPage(trail, peers, resolver(core.catalog), clock).answer)
