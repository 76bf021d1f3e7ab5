"""The pod worker: runs one pod, from the moment it is bound to this node until it is cleaned up.

    worker = PodWorker(pod, deps, predecessor=..., others=..., gone=False)
    worker.update(pod)                     # another version of the pod; None when it is gone from the API
    await worker.run()                     # returns when the pod, its processes and its directories are gone

Each sync reads the state of the containers, decides, begins the actions, and puts the status; it never waits
for a process or for the API. Then the worker waits for a change or for the decision's deadline. A cancelled
worker leaves the containers running; the next agent adopts them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.api.kubernetes.pod_fields import refusals
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.containers.container_config import ContainerConfigurator, image_name
from pilothouse.node.containers.container_index import ContainerIndex
from pilothouse.node.containers.container_worker import (
    RETRY_BACKOFF,
    ContainerContext,
    ContainerWorker,
    describe_error,
)
from pilothouse.node.containers.resource_limits import pod_cgroup
from pilothouse.node.containers.security_context import AgentIdentity
from pilothouse.node.event_recorder import EventRecorder
from pilothouse.node.files.path_names import component
from pilothouse.node.interfaces import NodeParts, NotReady, PreparedVolume
from pilothouse.node.lifecycle.container_roles import PodContainer, containers_of, waiting_reason
from pilothouse.node.lifecycle.pod_decision import (
    ENDED,
    ContainerWaiting,
    EndPod,
    PodAction,
    PodDecision,
    PreparePod,
    StartContainer,
    StopContainer,
    decide,
)
from pilothouse.node.lifecycle.pod_state import PodEnding, PodState, StartBlocker
from pilothouse.node.machine.id_ranges import IdRanges
from pilothouse.node.pods.pod_directories import ContainerDirectory, PodDirectory
from pilothouse.node.pods.pod_status import StatusInputs, container_id, pod_status
from pilothouse.node.pods.pod_status_writer import PodStatusWriter
from pilothouse.node.settings import MAX_PODS, NodeSettings
from pilothouse.supervise.cgroups import GroupBusy
from pilothouse.supervise.launch_spec import LaunchSpec
from pilothouse.supervise.process_identity import boot_id

log = logging.getLogger(__name__)


class PodDependencies(msgspec.Struct, frozen=True):
    api: Api
    settings: NodeSettings
    parts: NodeParts
    clock: Clock
    rng: Random
    events: EventRecorder
    container_index: ContainerIndex
    agent: AgentIdentity
    allocatable: Callable[[], Mapping[str, str]]
    id_ranges: IdRanges


class PodWorker:
    def __init__(
        self,
        pod: Object,
        deps: PodDependencies,
        *,
        predecessor: Callable[[Object], PodWorker | None],
        others: Callable[[], int],
        gone: bool,
    ) -> None:
        """``predecessor`` finds the worker of an earlier pod of the same name that is not cleaned up yet;
        ``others`` counts the pods that the node has admitted."""
        self.pod = pod
        self._deps = deps
        self._predecessor = predecessor
        self._others = others
        self.gone = gone
        """Whether the pod is gone from the API."""
        self._folder = PodDirectory(deps.settings.pods / component(pod.uid))
        self._admitted = bool(self._folder.containers())
        self._status_writer = PodStatusWriter(deps.api, pod)
        self._containers: dict[str, ContainerWorker] = {}
        self._wakeup = asyncio.Event()
        self._prepared: Mapping[str, PreparedVolume] | None = None
        self._address = str(pod.status.get("podIP") or "")
        self._preparing: asyncio.Task[None] | None = None
        self._blocker: StartBlocker | None = None
        self._ending: PodEnding | None = None
        self._start_time = 0.0
        images = {each["name"]: each["imageID"] for each in _container_statuses(pod) if each.get("imageID")}
        self._configurator = ContainerConfigurator(
            deps.api, deps.settings, deps.parts, deps.agent, deps.allocatable, images, deps.id_ranges
        )
        self.released = False
        self._reported_waits: dict[str, str] = {}

    def update(self, pod: Object | None) -> None:
        """Take another version of the pod; None when it is gone from the API."""
        if pod is None:
            self.gone = True
        else:
            self.pod = pod
            self._status_writer.update(pod)
            self._deps.container_index.update(pod)
        self._wakeup.set()

    @property
    def terminating(self) -> bool:
        """Whether the pod is terminating or has ended."""
        return self._ending is not None or self._status_writer.current.get("phase") in ENDED

    @property
    def admitted(self) -> bool:
        """Whether the pod counts against the node's capacity: admitted by any agent, and not released."""
        return self._admitted and not self.released

    def evict(self, reason: str, message: str) -> None:
        """Terminate the pod and mark it failed."""
        if self._ending is None:
            now = self._deps.clock.now()
            self._terminate(PodEnding(reason, message, now, 0.0))
            self._wakeup.set()

    async def run(self) -> None:
        async with BackgroundTasks({f"publish {self.pod.name}": self._status_writer.run}).running():
            if await self._make_directory():
                async with asyncio.TaskGroup() as group:
                    await self._adopt_containers(group)
                    await self._sync_loop(group)
            if not self.gone:
                await self._status_writer.flush()
                await self._status_writer.delete()
            for folder in self._folder.discard():
                await self._deps.parts.removal.remove(folder)
            self._deps.id_ranges.release(self.pod.uid)
            self._deps.container_index.drop(self.pod.uid)

    async def _make_directory(self) -> bool:
        """Create the pod's directory, for the next agent too. False if the pod is deleted before."""
        started = self.pod.status.get("startTime")
        self._start_time = parse_time(started) if started else self._deps.clock.now()
        while True:
            self._wakeup.clear()
            try:
                self._folder.write_pod(self.pod)
                self._blocker = None
                return True
            except OSError as problem:
                if self._folder.path.is_dir():
                    # An earlier agent made one: a slightly outdated pod.json is good enough.
                    log.warning("pod %s/%s: %s", *self.pod.key, problem)
                    return True
                if self.gone or self.pod.deleting:
                    return False
                message = f"failed to make pod data directories: {describe_error(problem)}"
                self._block("NodeStorageError", message)
            self._publish(self._state(), PodDecision(waiting=self._all_waiting()))
            await self._wait(RETRY_BACKOFF.after(self._blocker.failures if self._blocker else 1))

    def _rejection(self) -> PodEnding | None:
        """Why the pod is not admitted: fields that a real kube-apiserver accepts, or a full node."""
        if self._admitted:
            return None
        if refused := refusals(self.pod.spec):
            message = "; ".join(str(each) for each in refused)
            return PodEnding("UnhonouredFields", message, self._deps.clock.now(), 0.0)
        capacity = int(self._deps.allocatable().get("pods", MAX_PODS))
        if (used := self._others()) >= capacity:
            message = (
                f"Node didn't have enough resource: pods, requested: 1, used: {used}, capacity: {capacity}"
            )
            self._event("OutOfpods", message, True)
            return PodEnding("OutOfpods", f"Pod was rejected: {message}", self._deps.clock.now(), 0.0)
        self._admitted = True
        return None

    def _all_waiting(self) -> dict[str, ContainerWaiting]:
        wait = ContainerWaiting(waiting_reason(self.pod.spec))
        if self._blocker:
            wait = ContainerWaiting(self._blocker.reason, self._blocker.message)
        return {container.name: wait for container in containers_of(self.pod.spec)}

    async def _adopt_containers(self, group: asyncio.TaskGroup) -> None:
        """Create a worker for each container, which adopts what an earlier agent left running."""
        boot = boot_id()
        is_lost = self._folder.boot not in ("", boot)
        self._try_write(lambda: setattr(self._folder, "boot", boot))
        self._ending = self._folder.ending
        if self._ending is None and not self.gone and self._status_writer.current.get("phase") not in ENDED:
            self._ending = self._rejection()
        context = ContainerContext(
            pod=lambda: self.pod,
            address=lambda: self._address,
            compose=self._compose,
            image_root=self._image_root,
            ended=self._ended,
            event=self._event,
            changed=self._wakeup.set,
            is_lost=is_lost,
        )
        deps = self._deps
        known = {each["name"]: each for each in _container_statuses(self.pod)}
        for container in containers_of(self.pod.spec):
            folder = self._folder.container(container.name)
            worker = ContainerWorker(
                container,
                folder,
                context,
                deps.parts.containers,
                deps.parts.removal,
                deps.container_index,
                deps.clock,
                deps.rng,
                group,
            )
            id_prefix = container_id(self.pod, container.name, 0).removesuffix("0")
            await worker.adopt(known.get(container.name), id_prefix)
            self._containers[container.name] = worker

    async def _sync_loop(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._wakeup.clear()
            decision = self._sync(group)
            if decision.finished:
                is_leaving = self.gone or self.pod.deleting
                await self._release()
                if is_leaving:
                    return
            wake = decision.wake
            await self._wait(None if wake is None else max(0.0, wake - self._deps.clock.now()))

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()

    def _sync(self, group: asyncio.TaskGroup) -> PodDecision:
        now = self._deps.clock.now()
        state = self._state()
        decision = decide(state, now)
        while any(isinstance(action, EndPod) for action in decision.actions):
            for action in decision.actions:
                self._execute(action, group)
            state = self._state()
            decision = decide(state, now)
        for action in decision.actions:
            self._execute(action, group)
        self._report_waits(decision)
        # The state after the actions have begun.
        self._publish(self._state(), decision)
        return decision

    def _publish(self, state: PodState, decision: PodDecision) -> None:
        before = self._status_writer.current
        if self.gone or before.get("phase") in ENDED:
            return
        configurator = self._configurator
        inputs = StatusInputs(
            self._deps.settings.address, self._address, dict(configurator.images), configurator.not_enforced
        )
        self._status_writer.put(pod_status(state, decision, inputs, before, self._deps.clock.now()))

    def _state(self) -> PodState:
        return PodState(
            pod=self.pod,
            containers={name: worker.state() for name, worker in self._containers.items()},
            prepared=self._prepared is not None,
            blocker=self._blocker,
            ending=self._ending,
            gone=self.gone,
            start_time=self._start_time,
        )

    def _execute(self, action: PodAction, group: asyncio.TaskGroup) -> None:
        match action:
            case PreparePod():
                if self._preparing is None:
                    self._preparing = group.create_task(self._prepare(), name=f"prepare {self.pod.name}")
            case StartContainer(name):
                self._containers[name].start()
            case StopContainer():
                self._containers[action.name].stop(action)
            case EndPod(ending):
                self._terminate(ending)

    def _terminate(self, ending: PodEnding) -> None:
        self._ending = ending
        self._try_write(lambda: setattr(self._folder, "ending", ending))
        if self._preparing is not None:
            self._preparing.cancel()
        for worker in self._containers.values():
            worker.pod_terminating()
            worker.shorten_grace(ending.since + ending.grace)

    def _try_write(self, write: Callable[[], None]) -> None:
        """Write, or log the error: a pod must be able to end though the disk is full."""
        try:
            write()
        except OSError as problem:
            log.warning("pod %s/%s: %s", *self.pod.key, describe_error(problem))

    def _write_address(self) -> None:
        """Record the address: ``node.machine.shutdown`` calls the pod's preStop hooks there."""
        status = {**self.pod.status, "podIP": self._address}
        self._folder.write_pod(Object(self.pod.noun, {**self.pod.tree, "status": status}))

    async def _prepare(self) -> None:
        try:
            other = self._predecessor(self.pod)
            if other is not None:
                problem = (
                    f"waiting for the earlier pod of the same name (uid {other.pod.uid}) to end on this node"
                )
                raise NotReady("PodTerminating", problem)
            self._address = await self._deps.parts.addresses.assign(self.pod)
            self._try_write(self._write_address)
            self._prepared = await self._deps.parts.volumes.prepare(self.pod)
            self._blocker = None
        except NotReady as why:
            self._block(why.reason, why.message, why.retry)
        except OSError as problem:
            self._block("NodeStorageError", describe_error(problem))
        except (StatusError, TransportError, AccessError) as problem:
            self._block("FailedToPrepare", str(problem))
        finally:
            self._preparing = None
            self._wakeup.set()

    def _block(self, reason: str, message: str, retry: float | None = None) -> None:
        """``retry``: seconds until the next attempt; its messages are progress, of which one is an event."""
        before = self._blocker
        failures = before.failures + 1 if before else 1
        if before is None or (before.reason if retry else before.message) != (reason if retry else message):
            self._event(reason, message, True)
        again = self._deps.clock.now() + (retry or RETRY_BACKOFF.after(failures))
        self._blocker = StartBlocker(reason, message, again, failures)

    async def _release(self) -> None:
        """Release volumes, address and scratch directories, once nothing of the pod runs."""
        if self.released:
            return
        if self._preparing is not None:
            await asyncio.wait((self._preparing,))
        failures = 0
        while not self.released:
            try:
                # A process that a container left behind must not keep its volumes busy.
                await self._deps.parts.groups.group(pod_cgroup(self.pod.uid)).remove()
                await self._deps.parts.volumes.release(self.pod.uid)
                await self._deps.parts.addresses.release(self.pod.uid)
                for name in self._folder.containers():
                    for folder in self._folder.container(name).scratch():
                        await self._deps.parts.removal.remove(folder)
                self.released = True
            except (NotReady, OSError, GroupBusy) as problem:
                failures += 1
                self._event("FailedUnmount", str(problem), True)
                log.warning("pod %s/%s: failed to release volumes and address: %s", *self.pod.key, problem)
                await asyncio.sleep(RETRY_BACKOFF.after(failures))

    async def _compose(self, container: PodContainer, folder: ContainerDirectory, attempt: int) -> LaunchSpec:
        return await self._configurator.compose(
            self.pod, container, self._address, self._prepared or {}, folder, attempt
        )

    def _image_root(self, container: PodContainer) -> str:
        try:
            root = self._deps.parts.images.resolve(image_name(self.pod, container)).root
        except (NotReady, OSError):
            return ""
        return str(root) if root is not None else ""

    def image_changed(self) -> None:
        """Images of the node were imported, replaced or removed."""
        for worker in self._containers.values():
            worker.image_changed()
        self._wakeup.set()

    def update_limits(self) -> None:
        """Apply the current I/O limits of the pod's volumes to its running containers."""
        self._configurator.update_limits(self.pod)

    async def _ended(self, name: str) -> None:
        await self._containers[name].ended()

    def _event(self, reason: str, message: str, warning: bool) -> None:
        self._deps.events.record(self.pod, reason, message, warning=warning)

    def _report_waits(self, decision: PodDecision) -> None:
        """Record an event when a container enters CrashLoopBackOff."""
        waits = {name: wait.reason for name, wait in decision.waiting.items()}
        pod = f"{self.pod.name}_{self.pod.namespace}"
        for name, reason in waits.items():
            if reason == "CrashLoopBackOff" and self._reported_waits.get(name) != reason:
                self._event("BackOff", f"Back-off restarting failed container {name} in pod {pod}", True)
        self._reported_waits = waits


def _container_statuses(pod: Object) -> list[Mapping[str, Any]]:
    status = pod.status
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
