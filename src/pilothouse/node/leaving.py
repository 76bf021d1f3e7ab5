"""Pods that end because their machine does, though the API still wants them: with ``pilothouse up``, or what a killed one left.

    await end_pods(Path("/var/lib/pilothouse/node"), containers, clock, patience=120)      # how many containers ran

No agent may look after the folder meanwhile, or it would start again what ends here. Each container gets its preStop hook, its
stop signal and its pod's grace, sidecars last, as when the pod is deleted. But nothing is written to the API: to the
next agent it is as if the machine had been off, and it starts the containers again. What was mounted for pods is unmounted, what they had in
memory is gone, and so are their control groups.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.node.composing import stop_signal
from pilothouse.node.folders import PodFolder, pod_folders
from pilothouse.node.hooks import Target, handle
from pilothouse.node.lifecycle.ending import grace_of, hook_time, left, turns
from pilothouse.node.lifecycle.roles import Part, parts
from pilothouse.node.parts import Container, Containers
from pilothouse.node.volumes.machine import mounts, under, unmount
from pilothouse.node.volumes.memory import memory_of
from pilothouse.supervise import records
from pilothouse.supervise.cgroups import Group, GroupBusy
from pilothouse.supervise.launching import Exit

_AN_INSTANT = 0.001

log = logging.getLogger(__name__)


async def end_pods(node: Path, containers: Containers, clock: Clock, *, patience: float) -> int:
    """End everything that runs, each pod with its own grace but none with more than ``patience`` seconds.

    What can't be ended keeps none of the others from it, and is told in the end. Raises ``StillRunning``.
    """
    endings = [_Ending(folder, containers, clock, patience) for folder in pod_folders(node / "pods")]
    counts = await asyncio.gather(*(ending.run() for ending in endings), return_exceptions=True)
    for ending, count in zip(endings, counts, strict=True):
        if not isinstance(count, BaseException):
            await ending.remove_groups()
    memory = memory_of(node, root=os.geteuid() == 0)
    for folder in pod_folders(node / "pods"):
        # Secrets in memory, which nobody needs until the pod is started again.
        memory.release(folder.uid)
    for mounted in under(mounts(), node):
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


class _Ending:
    """Of one pod."""

    def __init__(self, folder: PodFolder, containers: Containers, clock: Clock, patience: float) -> None:
        self._folder = folder
        self._containers = containers
        self._clock = clock
        self._patience = patience
        self._since = clock.monotonic()
        self._ended: dict[str, asyncio.Event] = {}

    async def run(self) -> int:
        running = await self._running()
        pod = self._folder.recall()
        if not running:
            return 0
        if pod is None:
            # Whose they are is not known any more; they must not stay.
            await asyncio.gather(*(one.stop(signal.SIGTERM, 0) for one in running.values()))
            return len(running)
        known = parts(pod.spec)
        order = turns(known)
        self._ended = {part.name: asyncio.Event() for part in known}
        await asyncio.gather(
            *(self._end(pod, part, running.get(part.name), order[part.name]) for part in known)
        )
        return len(running)

    def _grant_restart(self, name: str, exit: Exit) -> None:
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
                    groups.update(records.read_launch(folder.attempt(attempt)).cgroups)
        if not groups:
            return
        try:
            await Group.holding(sorted(groups)).remove()
        except GroupBusy as problem:
            log.warning("%s", problem)

    async def _running(self) -> dict[str, Container]:
        found: dict[str, Container] = {}
        for name in self._folder.containers():
            folder = self._folder.container(name)
            for attempt in folder.attempts():
                one = await self._containers.adopt(folder.attempt(attempt))
                if one is not None and not isinstance(one, Exit):
                    found[name] = one
        return found

    async def _end(self, pod: Object, part: Part, one: Container | None, after: tuple[str, ...]) -> None:
        grace = min(grace_of(pod), self._patience)
        try:
            for name in after:
                await self._ended[name].wait()
            if one is None:
                return
            hook = (part.spec.get("lifecycle") or {}).get("preStop")
            if hook is not None and (seconds := hook_time(grace, self._since, self._clock.monotonic())) > 0:
                target = Target(one, part.spec, str(pod.status.get("podIP") or ""))
                outcome = await handle(hook, target, seconds)
                if not outcome.well:
                    log.warning("preStop of %s in %s/%s failed: %s", part.name, *pod.key, outcome.why)
            number = stop_signal(part.spec)
            exit = await one.stop(number, left(grace, self._since, self._clock.monotonic()))
            self._grant_restart(part.name, exit)
        finally:
            self._ended[part.name].set()
