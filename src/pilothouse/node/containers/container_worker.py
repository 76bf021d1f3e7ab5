"""The container worker: starts, probes, stops and restarts one container of a pod.

    worker = ContainerWorker(definition, folder, context, ...)
    await worker.adopt(status, id_prefix)  # the instances that an earlier agent left
    worker.start()                         # begins, and calls ``context.changed`` when something has happened
    worker.stop(StopContainer(...))        # likewise
    worker.state()                         # for the next decision

The number and directory of an instance are fixed before its program starts, and a directory's program starts
only once, so an agent that is killed in between can't cause a second instance.
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

RETRY_BACKOFF: Final = Backoff(first=1.0, factor=2.0, longest=30.0)
"""Between attempts to prepare a pod or to start a container."""
NOT_STARTED: Final = 128
"""The exit code of an instance that could not be started."""
_ID_MAP_ADVICE: Final = (
    "put the volume on a filesystem that can be mounted with its ids mapped (ext4, xfs, btrfs, tmpfs), "
    "or set hostUsers: true"
)
_SEEN: Final = "of the machine a container sees /usr and the like, and what the node's --expose-path names"
"""Advice for a program that is not found."""
_HOOK_LIMIT: Final = 3600.0
"""Seconds that a postStart hook may take. Kubelet sets no limit."""

log = logging.getLogger(__name__)


class ContainerContext(msgspec.Struct, frozen=True):
    """What a container's worker gets from its pod's worker."""

    pod: Callable[[], Object]
    address: Callable[[], str]
    compose: Callable[[PodContainer, ContainerDirectory, int], Awaitable[LaunchSpec]]
    """Raises ``NotReady``."""
    image_root: Callable[[PodContainer], str]
    """The directory of a container's image; empty if it is missing, or a program of the host."""
    ended: Callable[[str], Awaitable[None]]
    """Waits until another container of the pod has ended."""
    event: Callable[[str, str, bool], None]
    """An event: reason, message, whether it is a warning."""
    changed: Callable[[], None]
    is_lost: bool
    """Whether the machine was rebooted since an agent last ran the pod."""


class ContainerWorker:
    def __init__(
        self,
        definition: PodContainer,
        folder: ContainerDirectory,
        context: ContainerContext,
        containers: ContainerRuntime,
        removal: DirectoryRemover,
        container_index: ContainerIndex,
        clock: Clock,
        rng: Random,
        group: asyncio.TaskGroup,
    ) -> None:
        self._definition = definition
        self._folder = folder
        self._context = context
        self._containers = containers
        self._removal = removal
        self._pruning: asyncio.Task[None] | None = None
        self._index = container_index
        self._clock = clock
        self._rng = rng
        self._group = group
        self._attempt = -1
        """The number of the latest instance."""
        self._container: RunningContainer | None = None
        self._post_start_done = True
        self._failed_hook = ""
        self._image_root = ""
        """The directory of the running instance's image."""
        self._was_ready = False
        self._is_image_replaced = False
        self._ended: EndedInstance | None = None
        self._earlier: EndedInstance | None = None
        self._blocker: StartBlocker | None = None
        self._backoff = folder.backoff
        self._starting: asyncio.Task[None] | None = None
        self._stopping: StopContainer | None = None
        self._probes: ProbeWorker | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._end: ContainerStop | None = None

    @property
    def name(self) -> str:
        return self._definition.name

    def state(self) -> ContainerState:
        running = None
        if self._container is not None:
            running = RunningInstance(self._attempt, self._container.started, self._post_start_done)
        probes = self._probes
        self._note_readiness()
        return ContainerState(
            running=running,
            ended=self._ended,
            earlier=self._earlier,
            starting=self._starting is not None,
            stopping=self._stopping is not None,
            blocker=self._blocker,
            backoff=self._backoff,
            startup=probes.score(STARTUP) if probes else UNKNOWN,
            liveness=probes.score(LIVENESS) if probes else PASSED,
            readiness=probes.score(READINESS) if probes else UNKNOWN,
            has_startup=self._definition.probe(STARTUP) is not None,
            has_readiness=self._definition.probe(READINESS) is not None,
            failed_hook=self._failed_hook,
            is_image_replaced=self._is_image_replaced and not self._was_ready,
        )

    def image_changed(self) -> None:
        """Images have changed: retry a container that waits for one, or failed with it, at once."""
        root = self._context.image_root(self._definition)
        if not root:
            return
        if self._blocker is not None:
            self._blocker = msgspec.structs.replace(self._blocker, again=self._clock.now())
        if self._container is not None:
            is_kept_running = (self._context.pod().spec.get("restartPolicy") or "Always") == "Always"
            self._is_image_replaced = is_kept_running and self._image_root not in ("", root)
        elif self._ended is not None and root != self._folder.image(self._ended.attempt):
            self._backoff = None

    def _note_readiness(self) -> None:
        """Record on disk that the instance has been ready once."""
        if self._was_ready or not self._image_root or self._probes is None:
            return
        if self._definition.probe(READINESS) is None or self._probes.score(READINESS).verdict is True:
            self._was_ready = True
            try:
                self._folder.set_was_ready(self._attempt)
            except OSError as problem:
                log.warning("container %s: %s", self.name, describe_error(problem))

    async def ended(self) -> None:
        """Wait until no instance runs."""
        await self._idle.wait()

    async def adopt(self, known: Mapping[str, Any] | None, known_id: str) -> None:
        """Adopt the instances that an earlier agent started.

        ``known`` is the container's last reported status, ``known_id`` the prefix of its container ids.
        """
        for number in self._folder.attempts():
            found = self._folder.failed(number) or await self._containers.adopt(self._folder.attempt(number))
            if found is None:
                # Its directory was made and its program never started: this is the next instance.
                continue
            self._attempt = number
            if isinstance(found, EndedInstance):
                self._set_ended(msgspec.structs.replace(found, lost=self._context.is_lost))
            elif isinstance(found, ContainerExit):
                self._set_ended(self._of_exit(found, lost=self._context.is_lost))
            else:
                same = (known or {}).get("containerID") == f"{known_id}{number}"
                self._run(found, known if same else None)
        self._update_index()

    def start(self) -> None:
        self._idle.clear()
        self._starting = self._group.create_task(self._start(), name=f"start {self.name}")

    def stop(self, stop: StopContainer) -> None:
        self._stopping = stop
        self._group.create_task(self._stop(stop), name=f"stop {self.name}")

    def shorten_grace(self, deadline: float) -> None:
        """Bring the deadline of a stop that is under way forward."""
        if self._stopping is not None and self._end is not None:
            self._end.shorten_grace(deadline)

    def pod_terminating(self) -> None:
        """Stop the startup and liveness probes; readiness is probed to the end."""
        if self._probes is not None:
            self._probes.pod_terminating()

    async def _start(self) -> None:
        try:
            await self._begin(self._attempt + 1)
            self._blocker = None
        except NotReady as why:
            self._block(why.reason, why.message)
        except OSError as problem:
            self._block("CreateContainerError", describe_error(problem))
        except Exception as bug:
            log.exception("container %s of pod %s failed to start", self.name, self._context.pod())
            self._block("CreateContainerError", f"{type(bug).__name__}: {bug}")
        finally:
            self._starting = None
            if self._container is None:
                self._idle.set()
            self._update_index()
            self._context.changed()

    def _block(self, reason: str, message: str) -> None:
        failures = self._blocker.failures + 1 if self._blocker else 1
        if self._blocker is None or self._blocker.message != message:
            self._context.event("Failed", f"Error: {message}", True)
        self._blocker = StartBlocker(
            reason, message, self._clock.now() + RETRY_BACKOFF.after(failures), failures
        )

    async def _begin(self, number: int) -> None:
        folder = self._folder.begin(number)
        # First: if the image is replaced meanwhile, the container restarts once too often, not never.
        if root := self._context.image_root(self._definition):
            try:
                self._folder.set_image(number, root)
            except OSError as problem:
                # A full disk must not keep it from starting; it only misses the restart after a re-import.
                log.warning("container %s: %s", self.name, describe_error(problem))
        launch = await self._context.compose(self._definition, self._folder, number)
        if self._ended is not None:
            # Before the start: an agent killed here makes the container wait too long rather than not at all.
            self._backoff = next_backoff(self._backoff, self._ended.finished, self._clock.now())
            self._folder.backoff = self._backoff
        self._context.event("Created", f"Created container {self.name}", False)
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
            self._set_ended(ended)
            self._context.event("Failed", f"Error: {message}", True)
            return
        self._attempt = number
        self._context.event("Started", f"Started container {self.name}", False)
        self._run(container, None)
        if self._pruning is None or self._pruning.done():
            self._pruning = self._group.create_task(self._prune(), name=f"prune {self.name}")

    async def _prune(self) -> None:
        for folder in self._folder.outdated():
            try:
                await self._removal.remove(folder)
            except OSError as problem:
                log.warning("failed to remove %s: %s", problem.filename, problem.strerror)

    def _unexpanded(self, message: str, launch: LaunchSpec) -> str:
        """The message with the command as the manifest writes it: a variable may hold a Secret's value."""
        written = (self._definition.spec.get("command") or self._definition.spec.get("args") or [""])[0]
        return message.replace(launch.argv[0], written) if "$(" in written else message

    def _run(self, container: RunningContainer, known: Mapping[str, Any] | None) -> None:
        """Run hook and probes of an instance, and wait for its exit."""
        self._idle.clear()
        self._container = container
        self._failed_hook = ""
        self._image_root = self._folder.image(self._attempt)
        self._was_ready = self._folder.was_ready(self._attempt)
        self._is_image_replaced = False
        post_start = (self._definition.spec.get("lifecycle") or {}).get("postStart")
        self._post_start_done = post_start is None or self._folder.is_post_start_done(self._attempt)
        initial_scores = None
        if known is not None:
            initial_scores = {
                STARTUP: PASSED if known.get("started") else UNKNOWN,
                READINESS: PASSED if known.get("ready") else FAILED,
            }
        target = HandlerTarget(container, self._definition.spec, self._context.address())
        self._probes = ProbeWorker(
            self._definition,
            target,
            container.started,
            self._clock,
            self._rng,
            changed=self._context.changed,
            unhealthy=self._unhealthy,
            initial_scores=initial_scores,
        )
        self._tasks = [
            self._group.create_task(self._wait_exit(container), name=f"follow {self.name}"),
            self._group.create_task(
                self._run_hook_and_probes(post_start, target), name=f"look after {self.name}"
            ),
        ]

    async def _run_hook_and_probes(self, post_start: Mapping[str, Any] | None, target: HandlerTarget) -> None:
        if not self._post_start_done and post_start is not None:
            outcome = await run_handler(post_start, target, _HOOK_LIMIT)
            if not outcome.succeeded:
                self._failed_hook = outcome.why
                self._context.event("FailedPostStartHook", f"PostStartHook failed: {self._failed_hook}", True)
                self._context.changed()
                return
            self._finish_post_start()
            self._context.changed()
        if self._probes is not None:
            await self._probes.run()

    def _finish_post_start(self) -> None:
        self._post_start_done = True
        try:
            self._folder.set_post_start_done(self._attempt)
        except OSError as problem:
            # The next agent runs the hook again: hooks run at least once.
            log.warning("container %s: %s", self.name, describe_error(problem))

    async def _wait_exit(self, container: RunningContainer) -> None:
        exit = await container.exited()
        for task in self._tasks[1:]:
            task.cancel()
        self._container, self._probes, self._stopping, self._end = None, None, None, None
        if self._is_image_replaced:
            self._is_image_replaced, self._backoff = False, None
        self._set_ended(self._of_exit(exit))
        self._update_index()
        self._idle.set()
        self._context.changed()

    def _of_exit(self, exit: ContainerExit, *, lost: bool = False) -> EndedInstance:
        reason = "OOMKilled" if exit.oom else "ContainerStatusUnknown" if exit.lost else ""
        return EndedInstance(
            self._attempt,
            exit.code,
            exit.started,
            exit.finished,
            exit.signal or 0,
            reason,
            termination_message(self._folder, self._attempt, self._definition.spec, succeeded=exit.code == 0),
            lost=lost,
        )

    def _set_ended(self, ended: EndedInstance) -> None:
        self._earlier, self._ended = self._ended, ended

    async def _stop(self, stop: StopContainer) -> None:
        if self._starting is not None:
            await asyncio.wait((self._starting,))
        if self._container is None:
            self._stopping = None
            self._context.changed()
            return
        self.pod_terminating()
        message = stop.because if stop.own else f"Stopping container {self.name}"
        self._context.event("Killing", message, False)
        target = HandlerTarget(self._container, self._definition.spec, self._context.address())
        self._end = ContainerStop(
            target, stop, self._clock, ended=self._context.ended, event=self._context.event
        )
        await self._end.run()

    def _unhealthy(self, message: str) -> None:
        self._context.event("Unhealthy", message, True)

    def _update_index(self) -> None:
        """Put the latest instances into the container index."""
        attempts = [number for number in self._folder.attempts() if number <= self._attempt]
        last = self._folder.attempt(attempts[-1]) if attempts else None
        previous = self._folder.attempt(attempts[-2]) if len(attempts) > 1 else None
        waiting = self._blocker.message if self._blocker else ""
        self._index.put(
            self._context.pod(), self.name, InstanceSource(last, self._container, previous, waiting)
        )


def describe_error(problem: OSError) -> str:
    what = problem.strerror or str(problem)
    return f"{what}: {problem.filename}" if problem.filename else what
