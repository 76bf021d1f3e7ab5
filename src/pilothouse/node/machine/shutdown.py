"""Stops the pods of a machine that shuts down, without an agent: for ``pilothouse up``, or after a killed
one.

    await end_pods(Path("/var/lib/pilothouse/node"), containers, clock, patience=120)  # how many ran

No agent may use the data directory meanwhile: it would restart the containers. Each container gets its
preStop hook, stop signal and grace period, sidecars last, as when the pod is deleted; a failed hook or an
unreadable record doesn't stop the shutdown. Nothing is written to the API: the next agent starts the
containers again. Mounts, in-memory volumes and control groups of the pods are removed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.node.addresses.address_records import RECORDS_FILE, AddressRecords, AddressRecordsError
from pilothouse.node.containers.container_launch import stop_signal
from pilothouse.node.containers.handlers import HandlerTarget, run_handler
from pilothouse.node.interfaces import ContainerRuntime, RunningContainer
from pilothouse.node.lifecycle.container_roles import PodContainer, containers_of
from pilothouse.node.lifecycle.termination import grace_of, hook_time, remaining_grace, stop_order
from pilothouse.node.pods.pod_directories import PodDirectory, list_pod_directories
from pilothouse.node.volumes.loop_backend import LoopBackend
from pilothouse.node.volumes.memory_directories import memory_directories
from pilothouse.node.volumes.mount_table import MountEntry, mounts, under, unmount
from pilothouse.node.volumes.volume_owners import read_owner
from pilothouse.supervise import container_records
from pilothouse.supervise.cgroups import Cgroup, GroupBusy, remove_empty
from pilothouse.supervise.containers import StillRunning
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError

_AN_INSTANT = 0.001

log = logging.getLogger(__name__)


async def end_pods(node: Path, containers: ContainerRuntime, clock: Clock, *, patience: float) -> int:
    """Stop all containers, each pod with its own grace period but at most ``patience`` seconds.

    A failing pod doesn't keep the others from being stopped. Raises ``StillRunning`` in the end.
    """
    addresses = _addresses(node)
    shutdowns = [
        _PodShutdown(folder, containers, clock, patience, addresses.get(folder.uid, ""))
        for folder in _pod_folders(node / "pods")
    ]
    counts = await asyncio.gather(*(shutdown.run() for shutdown in shutdowns), return_exceptions=True)
    for shutdown, count in zip(shutdowns, counts, strict=True):
        if not isinstance(count, BaseException):
            await shutdown.remove_groups()
    memory = memory_directories(node, root=os.geteuid() == 0)
    for folder in _pod_folders(node / "pods"):
        # Secrets in memory: they are written again when the pod starts.
        memory.release(folder.uid)
    for mounted in _own_mounts(node):
        try:
            unmount(mounted.target)
        except OSError as problem:
            log.warning("failed to unmount %s: %s", mounted.target, problem.strerror)
    ended = 0
    for count in counts:
        if isinstance(count, BaseException):
            raise count
        ended += count
    return ended


def _own_mounts(node: Path) -> list[MountEntry]:
    """The mounts of pods, the last one first: in the node's directory, and its volumes in tiers elsewhere."""
    every = mounts()
    within = under(every, node)
    volumes = [
        each
        for each in every
        if each not in within
        and each.target.name == LoopBackend.inner
        and (owner := read_owner(each.target.parent)) is not None
        and owner.data == str(node.absolute())
    ]
    return [*within, *reversed(volumes)]


def _addresses(node: Path) -> dict[str, str]:
    """The pods' addresses, by uid."""
    try:
        entries = AddressRecords.read(node / RECORDS_FILE).entries
    except AddressRecordsError as problem:
        log.warning("%s", problem)
        return {}
    return {uid: entry.address for uid, entry in entries.items()}


def _pod_folders(folder: Path) -> list[PodDirectory]:
    """All pod directories, even if the remains of a removed pod can't be removed."""
    try:
        return list(list_pod_directories(folder))
    except OSError as problem:
        log.warning("what is left of a removed pod stays: %s", problem)
        return [PodDirectory(each) for each in sorted(folder.iterdir()) if not each.name.startswith(".")]


class _PodShutdown:
    def __init__(
        self, folder: PodDirectory, containers: ContainerRuntime, clock: Clock, patience: float, address: str
    ) -> None:
        self._folder = folder
        self._containers = containers
        self._clock = clock
        self._patience = patience
        self._address = address
        self._since = clock.monotonic()
        self._ended: dict[str, asyncio.Event] = {}
        self._stopped: set[str] = set()
        """The names of containers that got their stop signal."""

    async def run(self) -> int:
        """How many containers ran. Raises ``StillRunning``, and ``LaunchError`` if one hangs in its start."""
        running, problems = await self._running()
        pod = self._folder.read_pod()
        if running:
            try:
                if pod is not None:
                    await self._end_in_turn(pod, running)
            except StillRunning as problem:
                problems.append(problem)
            except Exception:
                log.exception("pod %s can't be ended in its own order", self._folder.uid)
            # Those that the pod's record doesn't have, or all without a record, must stop too.
            rest = await asyncio.gather(
                *(one.stop(signal.SIGTERM, 0) for name, one in running.items() if name not in self._stopped),
                return_exceptions=True,
            )
            problems += [each for each in rest if isinstance(each, BaseException)]
        if problems:
            raise problems[0]
        return len(running)

    async def _end_in_turn(self, pod: Object, running: Mapping[str, RunningContainer]) -> None:
        known = containers_of(pod.spec)
        order = stop_order(known)
        self._ended = {container.name: asyncio.Event() for container in known}
        ends = await asyncio.gather(
            *(self._end(pod, each, running.get(each.name), order[each.name]) for each in known),
            return_exceptions=True,
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def _grant_restart(self, name: str, exit: ContainerExit) -> None:
        """A stop on purpose is no crash: the next start is immediate, and does not raise the back-off."""
        folder = self._folder.container(name)
        if (backoff := folder.backoff) is not None:
            # After the exit, as for a restart that is already decided on (see ``lifecycle.restart_policy``).
            folder.backoff = msgspec.structs.replace(backoff, since=exit.finished + _AN_INSTANT)

    async def remove_groups(self) -> None:
        """Remove the pod's control groups, as the launch records name them."""
        groups: set[str] = set()
        for name in self._folder.containers():
            folder = self._folder.container(name)
            for attempt in folder.attempts():
                # An instance without a complete record never started.
                with suppress(FileNotFoundError, msgspec.DecodeError):
                    if not container_records.is_copied(folder.attempt(attempt)):
                        groups.update(container_records.read_launch(folder.attempt(attempt)).cgroups)
        if not groups:
            return
        try:
            await Cgroup.holding(sorted(groups)).remove()
        except GroupBusy as problem:
            log.warning("%s", problem)
            return
        for group in groups:
            # pilothouse/<node>/pods/<pod>/<container>
            remove_empty(Path(group).parent.parent, 3)

    async def _running(self) -> tuple[dict[str, RunningContainer], list[BaseException]]:
        """The running containers, and the errors of those whose state can't be read."""
        found: dict[str, RunningContainer] = {}
        problems: list[BaseException] = []
        for name in self._folder.containers():
            folder = self._folder.container(name)
            for attempt in folder.attempts():
                try:
                    one = await self._containers.adopt(folder.attempt(attempt))
                except (LaunchError, OSError) as problem:
                    problems.append(problem)
                    continue
                if one is not None and not isinstance(one, ContainerExit):
                    found[name] = one
        return found, problems

    async def _end(
        self, pod: Object, container: PodContainer, one: RunningContainer | None, after: tuple[str, ...]
    ) -> None:
        grace = min(grace_of(pod), self._patience)
        try:
            for name in after:
                await self._ended[name].wait()
            if one is None:
                return
            try:
                await self._pre_stop(pod, container, one, grace)
            except Exception:
                # No error of a hook may keep the pod from being stopped.
                log.exception("preStop of %s in %s/%s failed", container.name, *pod.key)
            number = stop_signal(container.spec)
            self._stopped.add(container.name)
            exit = await one.stop(number, remaining_grace(grace, self._since, self._clock.monotonic()))
            self._grant_restart(container.name, exit)
        finally:
            self._ended[container.name].set()

    async def _pre_stop(
        self, pod: Object, container: PodContainer, one: RunningContainer, grace: float
    ) -> None:
        hook = (container.spec.get("lifecycle") or {}).get("preStop")
        if hook is None or (seconds := hook_time(grace, self._since, self._clock.monotonic())) <= 0:
            return
        asked = hook.get("httpGet") or hook.get("tcpSocket")
        if asked is not None and not (asked.get("host") or self._address):
            # Without a host the request would go to the machine itself.
            where = f"{container.name} in {pod.namespace}/{pod.name}"
            log.warning("preStop of %s failed: the pod's address is not known", where)
            return
        outcome = await run_handler(hook, HandlerTarget(one, container.spec, self._address), seconds)
        if not outcome.succeeded:
            log.warning("preStop of %s in %s/%s failed: %s", container.name, *pod.key, outcome.why)
