"""One container of a pod: its instances, one after the other, with what belongs to each.

    worker = ContainerWorker(part, folder, context, ...)
    await worker.take_up(known, known_id)  # what an earlier agent left
    worker.start(); worker.stop(StopContainer(...)) # return at once; ``context.changed`` is called when there is news
    worker.seen()                          # what is known of it, for the next decision

Number and folder of an instance are decided before its program is started, and a folder's program runs once only, whoever
asks: so a killed agent never makes for two of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.node.containers.container_index import ContainerIndex, InstanceSource
from pilothouse.node.containers.container_stop import ContainerStop
from pilothouse.node.containers.handlers import HandlerTarget, run_handler
from pilothouse.node.containers.probe_worker import LIVENESS, READINESS, STARTUP, ProbeWorker
from pilothouse.node.containers.termination_message import termination_message
from pilothouse.node.interfaces import ContainerRuntime, DirectoryRemover, NotReady, RunningContainer
from pilothouse.node.lifecycle.container_instances import EndedInstance, RunningInstance
from pilothouse.node.lifecycle.container_roles import PodContainer
from pilothouse.node.lifecycle.pod_decision import StopContainer
from pilothouse.node.lifecycle.pod_state import ContainerState, StartBlocker
from pilothouse.node.lifecycle.probe_results import FAILED, PASSED, UNKNOWN
from pilothouse.node.lifecycle.restart_policy import next_backoff
from pilothouse.node.pods.pod_directories import ContainerDirectory
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError, LaunchSpec

AGAIN: Final = Backoff(first=1.0, factor=2.0, longest=30.0)
"""Between attempts at what could not begin."""
NOT_STARTED: Final = 128
"""The exit code of an instance that could not be started."""
_ID_MAP_ADVICE: Final = "put the volume on a filesystem that can be mounted with its ids mapped (ext4, xfs, btrfs, tmpfs), or set hostUsers: true"
_SEEN: Final = "of the machine a container sees /usr and the like, and what the node's --expose-path names"
_HOOK_LIMIT: Final = 3600.0
"""Seconds that a postStart hook may take. Elsewhere it may hang for ever."""

log = logging.getLogger(__name__)


class ContainerContext(msgspec.Struct, frozen=True):
    """What a container's minder has from its pod."""

    pod: Callable[[], Object]
    address: Callable[[], str]
    compose: Callable[[PodContainer, ContainerDirectory, int], Awaitable[LaunchSpec]]
    """Raises ``NotReady``."""
    image_root: Callable[[PodContainer], str]
    """Where the files of a container's image are, as things are; empty if there is none, or it is a program of the host."""
    ended: Callable[[str], Awaitable[None]]
    """Waits for the end of another container of the pod."""
    tell: Callable[[str, str, bool], None]
    """An event: reason, message, whether it is a warning."""
    changed: Callable[[], None]
    is_lost: bool
    """Whether the machine was started anew since the pod was last looked after."""


class ContainerWorker:
    """Looks after one container."""

    def __init__(
        self,
        part: PodContainer,
        folder: ContainerDirectory,
        ward: ContainerContext,
        containers: ContainerRuntime,
        removal: DirectoryRemover,
        whereabouts: ContainerIndex,
        clock: Clock,
        rng: Random,
        group: asyncio.TaskGroup,
    ) -> None:
        self._part = part
        self._folder = folder
        self._ward = ward
        self._containers = containers
        self._removal = removal
        self._pruning: asyncio.Task[None] | None = None
        self._whereabouts = whereabouts
        self._clock = clock
        self._rng = rng
        self._group = group
        self._attempt = -1
        """The number of the latest instance."""
        self._container: RunningContainer | None = None
        self._hooked = True
        self._failed_hook = ""
        self._image_root = ""
        """Where the files of the running instance's image are."""
        self._was_ready = False
        self._is_image_replaced = False
        self._ended: EndedInstance | None = None
        self._earlier: EndedInstance | None = None
        self._hurdle: StartBlocker | None = None
        self._pause = folder.pause
        self._starting: asyncio.Task[None] | None = None
        self._stopping: StopContainer | None = None
        self._probes: ProbeWorker | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._end: ContainerStop | None = None

    @property
    def name(self) -> str:
        return self._part.name

    def seen(self) -> ContainerState:
        """What is known."""
        running = None
        if self._container is not None:
            running = RunningInstance(self._attempt, self._container.started, self._hooked)
        probes = self._probes
        self._note_readiness()
        return ContainerState(
            running=running,
            ended=self._ended,
            earlier=self._earlier,
            starting=self._starting is not None,
            stopping=self._stopping is not None,
            hurdle=self._hurdle,
            pause=self._pause,
            startup=probes.score(STARTUP) if probes else UNKNOWN,
            liveness=probes.score(LIVENESS) if probes else PASSED,
            readiness=probes.score(READINESS) if probes else UNKNOWN,
            has_startup=self._part.probe(STARTUP) is not None,
            has_readiness=self._part.probe(READINESS) is not None,
            failed_hook=self._failed_hook,
            is_image_replaced=self._is_image_replaced and not self._was_ready,
        )

    def image_changed(self) -> None:
        """Images of the node have come, gone or been replaced: what waits for one, or failed with it, need not wait any longer."""
        root = self._ward.image_root(self._part)
        if not root:
            return
        if self._hurdle is not None:
            self._hurdle = msgspec.structs.replace(self._hurdle, again=self._clock.now())
        if self._container is not None:
            is_kept_running = (self._ward.pod().spec.get("restartPolicy") or "Always") == "Always"
            self._is_image_replaced = is_kept_running and self._image_root not in ("", root)
        elif self._ended is not None and root != self._folder.image(self._ended.attempt):
            self._pause = None

    def _note_readiness(self) -> None:
        """Whether the instance has ever been ready, over agents."""
        if self._was_ready or not self._image_root or self._probes is None:
            return
        if self._part.probe(READINESS) is None or self._probes.score(READINESS).verdict is True:
            self._was_ready = True
            try:
                self._folder.set_was_ready(self._attempt)
            except OSError as problem:
                log.warning("container %s: %s", self.name, describe_error(problem))

    async def ended(self) -> None:
        """Wait until nothing of it runs."""
        await self._idle.wait()

    async def take_up(self, known: Mapping[str, Any] | None, known_id: str) -> None:
        """Find out what became of the instances of an earlier agent.

        ``known`` is the status that it last gave of the container, ``known_id`` that instance's name up to its number.
        """
        for number in self._folder.attempts():
            found = self._folder.failed(number) or await self._containers.adopt(self._folder.attempt(number))
            if found is None:
                # Decided on and never started: this very instance is next.
                continue
            self._attempt = number
            if isinstance(found, EndedInstance):
                self._note(msgspec.structs.replace(found, lost=self._ward.is_lost))
            elif isinstance(found, ContainerExit):
                self._note(self._of_exit(found, lost=self._ward.is_lost))
            else:
                same = (known or {}).get("containerID") == f"{known_id}{number}"
                self._run(found, known if same else None)
        self._find()

    def start(self) -> None:
        """Begin the next instance."""
        self._idle.clear()
        self._starting = self._group.create_task(self._start(), name=f"start {self.name}")

    def stop(self, stop: StopContainer) -> None:
        """Begin to end it."""
        self._stopping = stop
        self._group.create_task(self._stop(stop), name=f"stop {self.name}")

    def hasten(self, deadline: float) -> None:
        """What is being stopped must have ended by then."""
        if self._stopping is not None and self._end is not None:
            self._end.hasten(deadline)

    def pod_ends(self) -> None:
        """No more probes but for readiness."""
        if self._probes is not None:
            self._probes.is_ending()

    async def _start(self) -> None:
        try:
            await self._begin(self._attempt + 1)
            self._hurdle = None
        except NotReady as why:
            self._hinder(why.reason, why.message)
        except OSError as problem:
            self._hinder("CreateContainerError", describe_error(problem))
        except Exception as bug:
            log.exception("container %s of pod %s can't be started", self.name, self._ward.pod())
            self._hinder("CreateContainerError", f"{type(bug).__name__}: {bug}")
        finally:
            self._starting = None
            if self._container is None:
                self._idle.set()
            self._find()
            self._ward.changed()

    def _hinder(self, reason: str, message: str) -> None:
        failures = self._hurdle.failures + 1 if self._hurdle else 1
        if self._hurdle is None or self._hurdle.message != message:
            self._ward.tell("Failed", f"Error: {message}", True)
        self._hurdle = StartBlocker(reason, message, self._clock.now() + AGAIN.after(failures), failures)

    async def _begin(self, number: int) -> None:
        folder = self._folder.begin(number)
        # Before it is composed: if the image is replaced meanwhile it is started once too often rather than never.
        if root := self._ward.image_root(self._part):
            try:
                self._folder.set_image(number, root)
            except OSError as problem:
                # Nothing but that it is not started anew when its image is: a full disk must not keep it from starting.
                log.warning("container %s: %s", self.name, describe_error(problem))
        launch = await self._ward.compose(self._part, self._folder, number)
        if self._ended is not None:
            # Before it is started: who is killed here waits too long rather than not at all.
            self._pause = next_backoff(self._pause, self._ended.finished, self._clock.now())
            self._folder.pause = self._pause
        self._ward.tell("Created", f"Created container {self.name}", False)
        began = self._clock.now()
        try:
            container = await self._containers.start(folder, launch)
        except LaunchError as problem:
            if problem.reason == "IdMapRefused":
                raise NotReady(problem.reason, f"{problem.message}; {_ID_MAP_ADVICE}") from None
            now = self._clock.now()
            message = self._unexpanded(problem.message, launch)
            if problem.reason == "ProgramNotFound":
                message += f"; {_SEEN}"
            ended = EndedInstance(number, NOT_STARTED, began, now, reason="StartError", message=message)
            self._folder.fail(ended)
            self._attempt = number
            self._note(ended)
            self._ward.tell("Failed", f"Error: {message}", True)
            return
        self._attempt = number
        self._ward.tell("Started", f"Started container {self.name}", False)
        self._run(container, None)
        if self._pruning is None or self._pruning.done():
            self._pruning = self._group.create_task(self._prune(), name=f"prune {self.name}")

    async def _prune(self) -> None:
        """Away with instances that are asked for no more."""
        for folder in self._folder.outdated():
            try:
                await self._removal.remove(folder)
            except OSError as problem:
                log.warning("%s can't be removed: %s", problem.filename, problem.strerror)

    def _unexpanded(self, message: str, launch: LaunchSpec) -> str:
        """The message with the program as the manifest names it: a variable in it may be a Secret's."""
        written = (self._part.spec.get("command") or self._part.spec.get("args") or [""])[0]
        return message.replace(launch.argv[0], written) if "$(" in written else message

    def _run(self, container: RunningContainer, known: Mapping[str, Any] | None) -> None:
        """From here on the instance is looked after."""
        self._idle.clear()
        self._container = container
        self._failed_hook = ""
        self._image_root = self._folder.image(self._attempt)
        self._was_ready = self._folder.was_ready(self._attempt)
        self._is_image_replaced = False
        post_start = (self._part.spec.get("lifecycle") or {}).get("postStart")
        self._hooked = post_start is None or self._folder.is_hooked(self._attempt)
        standing = None
        if known is not None:
            standing = {
                STARTUP: PASSED if known.get("started") else UNKNOWN,
                READINESS: PASSED if known.get("ready") else FAILED,
            }
        target = HandlerTarget(container, self._part.spec, self._ward.address())
        self._probes = ProbeWorker(
            self._part,
            target,
            container.started,
            self._clock,
            self._rng,
            changed=self._ward.changed,
            unhealthy=self._unhealthy,
            standing=standing,
        )
        self._tasks = [
            self._group.create_task(self._follow(container), name=f"follow {self.name}"),
            self._group.create_task(self._look_after(post_start, target), name=f"look after {self.name}"),
        ]

    async def _look_after(self, post_start: Mapping[str, Any] | None, target: HandlerTarget) -> None:
        if not self._hooked and post_start is not None:
            outcome = await run_handler(post_start, target, _HOOK_LIMIT)
            if not outcome.well:
                self._failed_hook = outcome.why
                self._ward.tell("FailedPostStartHook", f"PostStartHook failed: {self._failed_hook}", True)
                self._ward.changed()
                return
            self._set_hooked()
            self._ward.changed()
        if self._probes is not None:
            await self._probes.run()

    def _set_hooked(self) -> None:
        self._hooked = True
        try:
            self._folder.set_hooked(self._attempt)
        except OSError as problem:
            # The next agent runs the hook once more: at least once is what is promised.
            log.warning("container %s: %s", self.name, describe_error(problem))

    async def _follow(self, container: RunningContainer) -> None:
        exit = await container.exited()
        for task in self._tasks[1:]:
            task.cancel()
        self._container, self._probes, self._stopping, self._end = None, None, None, None
        if self._is_image_replaced:
            self._is_image_replaced, self._pause = False, None
        self._note(self._of_exit(exit))
        self._find()
        self._idle.set()
        self._ward.changed()

    def _of_exit(self, exit: ContainerExit, *, lost: bool = False) -> EndedInstance:
        reason = "OOMKilled" if exit.oom else "ContainerStatusUnknown" if exit.lost else ""
        return EndedInstance(
            self._attempt,
            exit.code,
            exit.started,
            exit.finished,
            exit.signal or 0,
            reason,
            termination_message(self._folder, self._attempt, self._part.spec, well=exit.code == 0),
            lost=lost,
        )

    def _note(self, ended: EndedInstance) -> None:
        self._earlier, self._ended = self._ended, ended

    async def _stop(self, stop: StopContainer) -> None:
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        if self._container is None:
            self._stopping = None
            self._ward.changed()
            return
        self.pod_ends()
        message = stop.because if stop.own else f"Stopping container {self.name}"
        self._ward.tell("Killing", message, False)
        target = HandlerTarget(self._container, self._part.spec, self._ward.address())
        self._end = ContainerStop(target, stop, self._clock, ended=self._ward.ended, tell=self._ward.tell)
        await self._end.run()

    def _unhealthy(self, message: str) -> None:
        self._ward.tell("Unhealthy", message, True)

    def _find(self) -> None:
        """Let others find the instance."""
        attempts = [number for number in self._folder.attempts() if number <= self._attempt]
        last = self._folder.attempt(attempts[-1]) if attempts else None
        previous = self._folder.attempt(attempts[-2]) if len(attempts) > 1 else None
        waiting = self._hurdle.message if self._hurdle else ""
        self._whereabouts.put(
            self._ward.pod(), self.name, InstanceSource(last, self._container, previous, waiting)
        )


def describe_error(problem: OSError) -> str:
    """What went wrong, and with which file."""
    what = problem.strerror or str(problem)
    return f"{what}: {problem.filename}" if problem.filename else what
