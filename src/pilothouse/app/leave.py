"""``pilothouse leave``: a machine that joined stops being a node.

    await leave(DepartureOptions(data=folder, admin=access, patience=300), say=print)

With its own certificate the node is cordoned and its pods are evicted, as disruption budgets allow. The agent
and the remaining pods are stopped. The Node object is deleted, if an administrator's kubeconfig is given: a
node may not do that itself, or it could come back without its taints. Then its credentials and data are
removed; volumes and images stay unless a flag says otherwise. It can be interrupted anywhere and run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from pilothouse.api.kind_names import Node, Pod
from pilothouse.api.objects import Object
from pilothouse.app import plane_registry
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.options import StartError
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.subresources import evict
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.machine.node_credentials import NodeCredentials
from pilothouse.node.machine.shutdown import end_pods
from pilothouse.node.volumes.removal import remove
from pilothouse.supervise import containers
from pilothouse.supervise.launch_spec import LaunchError
from pilothouse.supervise.process_identity import ProcessGone, ProcessHandle

AGENT: Final = "pilothouse-leave"
_LOOK_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 60.0
_SHOWN: Final = 5
VOLUMES, IMAGES = "volumes", "images"

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class DepartureOptions:
    data: Path
    admin: Access | None = None
    """An administrator's kubeconfig, to delete the Node."""
    patience: float = 300.0
    """Seconds for pods to be evicted."""
    force: bool = False
    """Leave even if the API can't be reached, or pods are not evicted in time."""
    remove_volumes: bool = False
    remove_images: bool = False


async def leave(options: DepartureOptions, *, say: Say) -> None:
    """Raises ``StartError``; what was done until then stays done."""
    identity = NodeCredentials(options.data)
    name = _name(identity)
    clock = SystemClock()
    running = _running_agent(options.data)
    if running is None:
        say(
            f"no agent is running on {options.data}: pods of {name} are not evicted, and those still running "
            "are stopped"
        )
    else:
        await _drain(identity, name, options, clock, say)
        await _stop_agent(running, clock)
        say("stopped the agent")
    with _without_agent(options.data):
        await _end_pods(options.data, options.patience)
        if options.admin is not None:
            async with _reached(options.admin, clock, wait_for_server=False) as api:
                if (found := await api.find(Node, name)) is not None:
                    await api.delete(Node, name, uid=found.uid)
                    say(f"deleted the Node {name}")
        try:
            _remove_files(options, identity, say)
        except OSError as problem:
            raise StartError(
                f"{problem.filename or options.data} can't be removed: {problem.strerror}"
            ) from None
    say(f"this machine is no longer node {name}")
    if options.admin is None:
        say(f"its Node object still exists; an administrator can delete it: kubectl delete node {name}")


def _name(identity: NodeCredentials) -> str:
    """The node's name. Raises ``StartError`` where no machine has joined."""
    folder = DataFolder(identity.folder)
    if folder.admin_kubeconfig.exists():
        raise StartError(
            f"{folder.path} is the folder of a control plane, not of a machine that joined one; "
            "`pilothouse down` stops it, and removing the folder deletes it"
        )
    if not identity.kubeconfig_file.exists():
        raise StartError(
            f"{identity.kubeconfig_file} does not exist: this machine has not joined a control plane"
        )
    try:
        return identity.name
    except (ValueError, LookupError, TypeError):
        raise StartError(
            f"{identity.kubeconfig_file} is not a kubeconfig that `pilothouse join` wrote"
        ) from None


def _running_agent(data: Path) -> plane_registry.RegistryEntry | None:
    """The agent of this user that runs on the folder."""
    for entry in plane_registry.entries():
        if entry.running and entry.role == "node" and os.path.realpath(entry.data) == os.path.realpath(data):
            return entry
    return None


@contextmanager
def _without_agent(data: Path) -> Iterator[None]:
    """Keep agents from starting on the folder. Raises ``StartError`` if one runs."""
    try:
        # The lock is removed with the rest; an agent that starts then finds no kubeconfig.
        lock = os.open(DataFolder(data).node / "agent.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as problem:
        raise StartError(f"{data} can't be used: {problem.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StartError(f"another agent is running on {data}: stop it first") from None
    finally:
        os.close(lock)


async def _drain(
    identity: NodeCredentials, name: str, options: DepartureOptions, clock: Clock, say: Say
) -> None:
    """Raises ``StartError`` if pods are left, unless forced."""
    try:
        access = load(identity.kubeconfig_file)
        async with _reached(access, clock, wait_for_server=False) as api:
            await api.patch(Node, name, "", {"spec": {"unschedulable": True}})
        say(f"cordoned {name}")
        async with _reached(access, clock) as api:
            left = await _evict_all(api, name, clock, options.patience, say)
    except (StatusError, TransportError) as problem:
        if options.force:
            say(f"pods are not evicted: {problem}")
            return
        raise StartError(f"{problem}; --force leaves without evicting the pods") from None
    if left and not options.force:
        raise StartError(
            f"{_listed(left)} not evicted within {options.patience:g} s; {name} stays cordoned. "
            "Run the command again, or with --force to stop them here"
        )


async def _evict_all(api: Api, name: str, clock: Clock, patience: float, say: Say) -> list[Object]:
    """Returns the pods that are left when the time is up."""
    deadline = clock.monotonic() + patience
    reported, next_try = "", 0.0
    while True:
        pods = (await api.list(Pod, fields=f"spec.nodeName={name}")).objects
        left = [pod for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        if not left or clock.monotonic() > deadline:
            return left
        refused = ""
        if clock.monotonic() >= next_try:
            next_try = clock.monotonic() + _RETRY_SECONDS
            for pod in left:
                if not pod.deletion_timestamp:
                    refused = await _evict(api, pod) or refused
        news = f"waiting for {_listed(left)} to be evicted" + (f": {refused}" if refused else "")
        if news != reported and (refused or not reported):
            reported = news
            say(news)
        await asyncio.sleep(_LOOK_SECONDS)


async def _evict(api: Api, pod: Object) -> str:
    """Why the eviction is refused; empty if it is not."""
    try:
        await evict(api, pod.name, pod.namespace, uid=pod.uid)
    except StatusError as refusal:
        if refusal.code == HTTPStatus.TOO_MANY_REQUESTS:
            return str(refusal)
        if refusal.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise
    return ""


def _listed(pods: list[Object]) -> str:
    names = [f"{pod.namespace}/{pod.name}" for pod in pods]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ("pod " if len(names) == 1 else f"{len(names)} pods, ") + ", ".join(names[:_SHOWN]) + more


async def _stop_agent(entry: plane_registry.RegistryEntry, clock: Clock) -> None:
    """Raises ``StartError``."""
    assert entry.process is not None
    try:
        with contextlib.closing(ProcessHandle.open(entry.process)) as handle:
            handle.signal(signal.SIGTERM)
            deadline = clock.monotonic() + _STOP_SECONDS
            while not handle.ended:
                if clock.monotonic() > deadline:
                    raise StartError(
                        f"the agent, process {handle.pid}, did not stop within {_STOP_SECONDS:g} s"
                    )
                await asyncio.sleep(_LOOK_SECONDS)
    except ProcessGone:
        return


async def _end_pods(data: Path, patience: float) -> None:
    try:
        await end_pods(DataFolder(data).node, containers, SystemClock(), patience=patience)
    except (containers.StillRunning, LaunchError, OSError) as problem:
        raise StartError(str(problem)) from None


def _remove_files(options: DepartureOptions, identity: NodeCredentials, say: Say) -> None:
    node = DataFolder(options.data).node
    kept = [
        each
        for each, wanted in ((VOLUMES, options.remove_volumes), (IMAGES, options.remove_images))
        if not wanted and (node / each).is_dir() and any((node / each).iterdir())
    ]
    for entry in sorted(node.iterdir()) if node.is_dir() else ():
        if entry.name not in kept:
            remove(entry)
    if not kept:
        remove(node)
    for file in (identity.credential_file, identity.authorities_file, identity.kubeconfig_file):
        file.unlink(missing_ok=True)
    say("removed the node's key, certificate, kubeconfig and pod data")
    if options.remove_volumes:
        say(f"removed the volumes in {node / VOLUMES}; those in folders of --tier stay")
    for each in kept:
        say(f"kept the {each} in {node / each}; --remove-{each} removes them too")


@asynccontextmanager
async def _reached(access: Access, clock: Clock, *, wait_for_server: bool = True) -> AsyncIterator[Api]:
    async with HttpTransport.open(access, clock, agent=AGENT) as transport:
        yield Api(transport, random.Random(), manager=AGENT, wait_for_server=wait_for_server)
