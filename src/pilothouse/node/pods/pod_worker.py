"""One pod of this node, from its first sight until nothing of it is left.

    worker = PodWorker(pod, dependencies, predecessor, ...)
    worker.saw(newer)                      # a newer version; None when the API has it no more
    await worker.run()                     # returns when pod, processes and folders are gone

A turn: gather what is known, decide, begin the acts, say the status; then wait for news or for the decision's alarm. Nothing in a turn
waits for a process or for the API. Cancelled, it leaves the containers running for whoever comes next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
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
from pilothouse.node.containers.container_worker import AGAIN, ContainerContext, ContainerWorker
from pilothouse.node.containers.container_worker import describe_error as told
from pilothouse.node.containers.resource_limits import pod_group
from pilothouse.node.containers.security_context import AgentIdentity
from pilothouse.node.event_recorder import EventRecorder
from pilothouse.node.files.path_names import component
from pilothouse.node.interfaces import NodeParts, NotReady, PreparedVolume
from pilothouse.node.lifecycle.container_roles import PodContainer, containers_of, not_begun
from pilothouse.node.lifecycle.pod_decision import (
    ENDED,
    Act,
    ContainerWaits,
    EndPod,
    PodDecision,
    PreparePod,
    StartContainer,
    StopContainer,
    decide,
)
from pilothouse.node.lifecycle.pod_state import PodEnding, PodState, StartBlocker
from pilothouse.node.machine.id_ranges import IdRanges
from pilothouse.node.pods.pod_directories import ContainerDirectory, PodDirectory
from pilothouse.node.pods.pod_status import StatusInputs, container_id
from pilothouse.node.pods.pod_status import pod_status as status
from pilothouse.node.pods.pod_status_writer import PodStatusWriter
from pilothouse.node.settings import MAX_PODS, NodeSettings
from pilothouse.supervise.cgroups import GroupBusy
from pilothouse.supervise.launch_spec import LaunchSpec
from pilothouse.supervise.process_identity import boot_id

log = logging.getLogger(__name__)


class PodDependencies(msgspec.Struct, frozen=True):
    """What every pod of a node is kept with."""

    api: Api
    settings: NodeSettings
    parts: NodeParts
    clock: Clock
    rng: Random
    events: EventRecorder
    whereabouts: ContainerIndex
    agent: AgentIdentity
    allocatable: Callable[[], Mapping[str, str]]
    id_ranges: IdRanges


class PodWorker:
    """Keeps one pod."""

    def __init__(
        self,
        pod: Object,
        means: PodDependencies,
        *,
        predecessor: Callable[[Object], PodWorker | None],
        others: Callable[[], int],
        gone: bool,
    ) -> None:
        """``predecessor`` is a pod of the same name of which there still is something, ``others`` the number of pods that the
        node has taken."""
        self.pod = pod
        self._means = means
        self._predecessor = predecessor
        self._others = others
        self.gone = gone
        """Whether the API knows nothing of it any more."""
        self._folder = PodDirectory(means.settings.pods / component(pod.uid))
        self._admitted = bool(self._folder.containers())
        self._publisher = PodStatusWriter(means.api, pod)
        self._minders: dict[str, ContainerWorker] = {}
        self._news = asyncio.Event()
        self._prepared: Mapping[str, PreparedVolume] | None = None
        self._address = str(pod.status.get("podIP") or "")
        self._preparing: asyncio.Task[None] | None = None
        self._hurdle: StartBlocker | None = None
        self._ending: PodEnding | None = None
        self._begun = 0.0
        images = {each["name"]: each["imageID"] for each in _container_statuses(pod) if each.get("imageID")}
        self._outfitter = ContainerConfigurator(
            means.api, means.settings, means.parts, means.agent, means.allocatable, images, means.id_ranges
        )
        self._released = False
        self._told_waits: dict[str, str] = {}

    def saw(self, pod: Object | None) -> None:
        """A newer version has come, or the API has it no more."""
        if pod is None:
            self.gone = True
        else:
            self.pod = pod
            self._publisher.saw(pod)
            self._means.whereabouts.saw(pod)
        self._news.set()

    @property
    def ends(self) -> bool:
        """Whether it is on its way out already, or out."""
        return self._ending is not None or self._publisher.current.get("phase") in ENDED

    @property
    def released(self) -> bool:
        """Whether its volumes and its address are free for others."""
        return self._released

    @property
    def admitted(self) -> bool:
        """Whether it has a place on the node: it was taken, by this agent or one before, and has not let go of all it had."""
        return self._admitted and not self._released

    def evict(self, reason: str, message: str) -> None:
        """Have the pod end and fail, to make room."""
        if self._ending is None:
            now = self._means.clock.now()
            self._end(PodEnding(reason, message, now, 0.0))
            self._news.set()

    async def run(self) -> None:
        """Until nothing is left of it."""
        async with BackgroundTasks({f"publish {self.pod.name}": self._publisher.run}).running():
            if await self._settle_in():
                async with asyncio.TaskGroup() as group:
                    await self._take_up(group)
                    await self._keep(group)
            if not self.gone:
                await self._publisher.flush()
                await self._publisher.delete()
            for folder in self._folder.discard():
                await self._means.parts.removal.remove(folder)
            self._means.id_ranges.release(self.pod.uid)
            self._means.whereabouts.drop(self.pod.uid)

    async def _settle_in(self) -> bool:
        """Have a folder: nothing begins that the next agent would not find. False if the pod is to go before it has one."""
        started = self.pod.status.get("startTime")
        self._begun = parse_time(started) if started else self._means.clock.now()
        while True:
            self._news.clear()
            try:
                self._folder.remember(self.pod)
                self._hurdle = None
                return True
            except OSError as problem:
                if self._folder.path.is_dir():
                    # It has one from before, which will do.
                    log.warning("pod %s/%s: %s", *self.pod.key, problem)
                    return True
                if self.gone or self.pod.deleting:
                    return False
                self._hinder("NodeStorageError", f"the node can't keep the pod on its disk: {told(problem)}")
            self._publish(self._situation(), PodDecision(waits=self._waits_for_node()))
            try:
                async with asyncio.timeout(AGAIN.after(self._hurdle.failures if self._hurdle else 1)):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _refusal(self) -> PodEnding | None:
        """A pod that asks for what can't be honoured fails at once: a real Kubernetes lets it come this far."""
        if self._admitted:
            return None
        if refused := refusals(self.pod.spec):
            message = "; ".join(str(each) for each in refused)
            return PodEnding("UnhonouredFields", message, self._means.clock.now(), 0.0)
        capacity = int(self._means.allocatable().get("pods", MAX_PODS))
        if (used := self._others()) >= capacity:
            message = (
                f"Node didn't have enough resource: pods, requested: 1, used: {used}, capacity: {capacity}"
            )
            self._tell("OutOfpods", message, True)
            return PodEnding("OutOfpods", f"Pod was rejected: {message}", self._means.clock.now(), 0.0)
        self._admitted = True
        return None

    def _waits_for_node(self) -> dict[str, ContainerWaits]:
        wait = (
            ContainerWaits(self._hurdle.reason, self._hurdle.message)
            if self._hurdle
            else ContainerWaits(not_begun(self.pod.spec))
        )
        return {part.name: wait for part in containers_of(self.pod.spec)}

    async def _take_up(self, group: asyncio.TaskGroup) -> None:
        """Begin, or go on where an earlier agent was."""
        boot = boot_id()
        is_lost = self._folder.boot not in ("", boot)
        self._write_down(lambda: setattr(self._folder, "boot", boot))
        self._ending = self._folder.ending
        if self._ending is None and not self.gone and self._publisher.current.get("phase") not in ENDED:
            self._ending = self._refusal()
        ward = ContainerContext(
            pod=lambda: self.pod,
            address=lambda: self._address,
            compose=self._compose,
            image_root=self._image_root,
            ended=self._ended,
            tell=self._tell,
            changed=self._news.set,
            is_lost=is_lost,
        )
        means = self._means
        known = {each["name"]: each for each in _container_statuses(self.pod)}
        for part in containers_of(self.pod.spec):
            folder = self._folder.container(part.name)
            minder = ContainerWorker(
                part,
                folder,
                ward,
                means.parts.containers,
                means.parts.removal,
                means.whereabouts,
                means.clock,
                means.rng,
                group,
            )
            await minder.take_up(known.get(part.name), container_id(self.pod, part.name, 0).removesuffix("0"))
            self._minders[part.name] = minder

    async def _keep(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._news.clear()
            decision = self._turn(group)
            if decision.over and (self.gone or self.pod.deleting):
                await self._release()
                return
            if decision.over:
                await self._release()
            wait = None if decision.wake is None else max(0.0, decision.wake - self._means.clock.now())
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _turn(self, group: asyncio.TaskGroup) -> PodDecision:
        now = self._means.clock.now()
        situation = self._situation()
        decision = decide(situation, now)
        while any(isinstance(act, EndPod) for act in decision.acts):
            for act in decision.acts:
                self._carry_out(act, group)
            situation = self._situation()
            decision = decide(situation, now)
        for act in decision.acts:
            self._carry_out(act, group)
        self._tell_waits(decision)
        # As it is once the acts have begun.
        self._publish(self._situation(), decision)
        return decision

    def _publish(self, situation: PodState, decision: PodDecision) -> None:
        before = self._publisher.current
        if self.gone or before.get("phase") in ENDED:
            return
        outfitter = self._outfitter
        facts = StatusInputs(
            self._means.settings.address, self._address, dict(outfitter.images), outfitter.not_enforced
        )
        self._publisher.put(status(situation, decision, facts, before, self._means.clock.now()))

    def _situation(self) -> PodState:
        return PodState(
            pod=self.pod,
            containers={name: minder.seen() for name, minder in self._minders.items()},
            prepared=self._prepared is not None,
            hurdle=self._hurdle,
            ending=self._ending,
            gone=self.gone,
            begun=self._begun,
        )

    def _carry_out(self, act: Act, group: asyncio.TaskGroup) -> None:
        match act:
            case PreparePod():
                if self._preparing is None:
                    self._preparing = group.create_task(self._prepare(), name=f"prepare {self.pod.name}")
            case StartContainer(name):
                self._minders[name].start()
            case StopContainer():
                self._minders[act.name].stop(act)
            case EndPod(ending):
                self._end(ending)

    def _end(self, ending: PodEnding) -> None:
        self._ending = ending
        self._write_down(lambda: setattr(self._folder, "ending", ending))
        if self._preparing is not None:
            self._preparing.cancel()
        for minder in self._minders.values():
            minder.pod_ends()
            minder.hasten(ending.since + ending.grace)

    def _write_down(self, write: Callable[[], None]) -> None:
        """For what is better kept and not worth stopping for: a pod must be able to end though the disk is full."""
        try:
            write()
        except OSError as problem:
            log.warning("pod %s/%s: %s", *self.pod.key, told(problem))

    def _remember_address(self) -> None:
        """For who ends the pod without an agent: its hooks are asked there."""
        status = {**self.pod.status, "podIP": self._address}
        self._folder.remember(Object(self.pod.noun, {**self.pod.tree, "status": status}))

    async def _prepare(self) -> None:
        try:
            other = self._predecessor(self.pod)
            if other is not None:
                raise NotReady(
                    "PodTerminating",
                    f"waiting for the earlier pod of the same name (uid {other.pod.uid}) to end on this node",
                )
            self._address = await self._means.parts.addresses.assign(self.pod)
            self._write_down(self._remember_address)
            self._prepared = await self._means.parts.volumes.prepare(self.pod)
            self._hurdle = None
        except NotReady as why:
            self._hinder(why.reason, why.message)
        except OSError as problem:
            self._hinder("NodeStorageError", told(problem))
        except (StatusError, TransportError, AccessError) as problem:
            self._hinder("FailedToPrepare", str(problem))
        finally:
            self._preparing = None
            self._news.set()

    def _hinder(self, reason: str, message: str) -> None:
        failures = self._hurdle.failures + 1 if self._hurdle else 1
        if self._hurdle is None or self._hurdle.message != message:
            self._tell(reason, message, True)
        self._hurdle = StartBlocker(
            reason, message, self._means.clock.now() + AGAIN.after(failures), failures
        )

    async def _release(self) -> None:
        """Nothing of the pod runs any more: its volumes, its address and the disk that its containers took are free."""
        if self._released:
            return
        if self._preparing is not None:
            await asyncio.wait((self._preparing,))
        failures = 0
        while not self._released:
            try:
                # Whatever a container has left behind must not hold its volumes.
                await self._means.parts.groups.group(pod_group(self.pod.uid)).remove()
                await self._means.parts.volumes.release(self.pod.uid)
                await self._means.parts.addresses.release(self.pod.uid)
                for name in self._folder.containers():
                    for folder in self._folder.container(name).scratch():
                        await self._means.parts.removal.remove(folder)
                self._released = True
            except (NotReady, OSError, GroupBusy) as problem:
                failures += 1
                self._tell("FailedUnmount", str(problem), True)
                log.warning("pod %s/%s can't let go of what it had: %s", *self.pod.key, problem)
                await asyncio.sleep(AGAIN.after(failures))

    async def _compose(self, part: PodContainer, folder: ContainerDirectory, attempt: int) -> LaunchSpec:
        return await self._outfitter.compose(
            self.pod, part, self._address, self._prepared or {}, folder, attempt
        )

    def _image_root(self, part: PodContainer) -> str:
        try:
            root = self._means.parts.images.resolve(image_name(self.pod, part)).root
        except (NotReady, OSError):
            return ""
        return str(root) if root is not None else ""

    def image_changed(self) -> None:
        """Images of the node have come, gone or been replaced."""
        for minder in self._minders.values():
            minder.image_changed()
        self._news.set()

    def limit_anew(self) -> None:
        """Have containers that run held to the limits that their volumes have by now."""
        self._outfitter.limit_anew(self.pod)

    async def _ended(self, name: str) -> None:
        await self._minders[name].ended()

    def _tell(self, reason: str, message: str, warning: bool) -> None:
        self._means.events.tell(self.pod, reason, message, warning=warning)

    def _tell_waits(self, decision: PodDecision) -> None:
        """An event when a container begins to wait because it has failed."""
        waits = {name: wait.reason for name, wait in decision.waits.items()}
        for name, reason in waits.items():
            if reason == "CrashLoopBackOff" and self._told_waits.get(name) != reason:
                message = (
                    f"Back-off restarting failed container {name} in pod {self.pod.name}_{self.pod.namespace}"
                )
                self._tell("BackOff", message, True)
        self._told_waits = waits


def _container_statuses(pod: Object) -> list[Mapping[str, Any]]:
    told = pod.status
    return [*(told.get("initContainerStatuses") or ()), *(told.get("containerStatuses") or ())]
