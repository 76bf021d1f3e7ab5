"""Pods that end because their machine does, though the API still wants them: with ``pilothouse up``, or what a killed one left.

    await end_pods(Path("/var/lib/pilothouse/node"), containers, clock, patience=120)      # how many containers ran

No agent may look after the folder meanwhile, or it would start again what ends here. Each container gets its preStop hook, its
stop signal and its pod's grace, sidecars last, as when the pod is deleted. Whatever goes wrong with a hook or with a pod's own record, its
containers are stopped. But nothing is written to the API: to the
next agent it is as if the machine had been off, and it starts the containers again. What was mounted for pods is unmounted, what they had in
memory is gone, and so are their control groups.
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
from pilothouse.node.addresses.address_records import LEDGER, AddressRecords, AddressRecordsError
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
    """End everything that runs, each pod with its own grace but none with more than ``patience`` seconds.

    What can't be ended keeps none of the others from it, and is told in the end. Raises ``StillRunning``.
    """
    addresses = _addresses(node)
    endings = [
        _Ending(folder, containers, clock, patience, addresses.get(folder.uid, ""))
        for folder in _pod_folders(node / "pods")
    ]
    counts = await asyncio.gather(*(ending.run() for ending in endings), return_exceptions=True)
    for ending, count in zip(endings, counts, strict=True):
        if not isinstance(count, BaseException):
            await ending.remove_groups()
    memory = memory_directories(node, root=os.geteuid() == 0)
    for folder in _pod_folders(node / "pods"):
        # Secrets in memory, which nobody needs until the pod is started again.
        memory.release(folder.uid)
    for mounted in _own_mounts(node):
        try:
            unmount(mounted.target)
        except OSError as problem:
            log.warning("%s stays mounted: %s", mounted.target, problem.strerror)
    ended = 0
    for count in counts:
        if isinstance(count, BaseException):
            raise count
        ended += count
    return ended


def _own_mounts(node: Path) -> list[MountEntry]:
    """What was mounted for pods, the last one first: in the node's folder, and volumes of ours in tiers elsewhere."""
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
    """The pods' addresses, by uid. The remembered pod has none: its status is not kept on disk."""
    try:
        entries = AddressRecords.read(node / LEDGER).entries
    except AddressRecordsError as problem:
        log.warning("%s", problem)
        return {}
    return {uid: entry.address for uid, entry in entries.items()}


def _pod_folders(folder: Path) -> list[PodDirectory]:
    """Every pod that there is something of. One that can't be removed keeps no other from being ended."""
    try:
        return list(list_pod_directories(folder))
    except OSError as problem:
        log.warning("what is left of a removed pod stays: %s", problem)
        return [PodDirectory(each) for each in sorted(folder.iterdir()) if not each.name.startswith(".")]


class _Ending:
    """Of one pod."""

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
        """ContainerRuntime that have been told to stop."""

    async def run(self) -> int:
        """How many containers ran. Raises ``StillRunning``, and ``LaunchError`` of one that is being started and does not get on."""
        running, problems = await self._running()
        pod = self._folder.recall()
        if running:
            try:
                if pod is not None:
                    await self._end_in_turn(pod, running)
            except StillRunning as problem:
                problems.append(problem)
            except Exception:
                log.exception("pod %s can't be ended in its own order", self._folder.uid)
            # Those that the pod's record does not know of, or all if there is none: they must not stay.
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
        self._ended = {part.name: asyncio.Event() for part in known}
        ends = await asyncio.gather(
            *(self._end(pod, part, running.get(part.name), order[part.name]) for part in known),
            return_exceptions=True,
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def _grant_restart(self, name: str, exit: ContainerExit) -> None:
        """An end that was ordered is no crash: the next start comes at once, and does not make later pauses longer."""
        folder = self._folder.container(name)
        if (pause := folder.pause) is not None:
            # Later than the end: the pause of a restart that was decided on after it (see `lifecycle.restarting`).
            folder.pause = msgspec.structs.replace(pause, since=exit.finished + _AN_INSTANT)

    async def remove_groups(self) -> None:
        """Nothing runs in them any more. Where they are is known from what was started there: no other tree is looked at."""
        groups: set[str] = set()
        for name in self._folder.containers():
            folder = self._folder.container(name)
            for attempt in folder.attempts():
                # Without a whole one it was never started.
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
        """What runs, and what keeps us from knowing of more."""
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
        self, pod: Object, part: PodContainer, one: RunningContainer | None, after: tuple[str, ...]
    ) -> None:
        grace = min(grace_of(pod), self._patience)
        try:
            for name in after:
                await self._ended[name].wait()
            if one is None:
                return
            try:
                await self._pre_stop(pod, part, one, grace)
            except Exception:
                # A hook is the pod's own: nothing in it may keep the pod from being stopped.
                log.exception("preStop of %s in %s/%s failed", part.name, *pod.key)
            number = stop_signal(part.spec)
            self._stopped.add(part.name)
            exit = await one.stop(number, remaining_grace(grace, self._since, self._clock.monotonic()))
            self._grant_restart(part.name, exit)
        finally:
            self._ended[part.name].set()

    async def _pre_stop(self, pod: Object, part: PodContainer, one: RunningContainer, grace: float) -> None:
        hook = (part.spec.get("lifecycle") or {}).get("preStop")
        if hook is None or (seconds := hook_time(grace, self._since, self._clock.monotonic())) <= 0:
            return
        asked = hook.get("httpGet") or hook.get("tcpSocket")
        if asked is not None and not (asked.get("host") or self._address):
            # Without a host it would go to the machine itself.
            log.warning("preStop of %s in %s/%s failed: the pod's address is not known", part.name, *pod.key)
            return
        outcome = await run_handler(hook, HandlerTarget(one, part.spec, self._address), seconds)
        if not outcome.well:
            log.warning("preStop of %s in %s/%s failed: %s", part.name, *pod.key, outcome.why)
