"""The agent of a node: it registers the machine, follows the pods that are bound to it, and keeps each of them.

    agent = Agent(api, settings, parts, SystemClock(), Random())
    await agent.run()                  # until cancelled; what runs goes on running

Each pod has a keeper of its own, so that nothing one pod does holds up another; a keeper that fails is begun anew from what is
on disk. Pods of which there is a folder and which the API no longer knows are ended as their own manifest says. Two agents never
have the same data folder.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.node.containers import seccomp_profiles
from pilothouse.node.containers.container_index import ContainerIndex
from pilothouse.node.containers.resource_limits import pod_group
from pilothouse.node.containers.security_context import AgentIdentity
from pilothouse.node.event_recorder import EventRecorder
from pilothouse.node.files.path_names import bad_names
from pilothouse.node.interfaces import NodeParts, NotReady
from pilothouse.node.machine.id_ranges import IdRanges
from pilothouse.node.machine.machine_info import read_available_resources, read_machine_info
from pilothouse.node.machine.node_conditions import (
    ResourcePressure,
    conditions,
    limits_condition,
    problems,
    resource_pressures,
    seccomp_condition,
    users_condition,
)
from pilothouse.node.machine.registration import NodeRegistration
from pilothouse.node.pods.ephemeral_storage import request
from pilothouse.node.pods.eviction import EvictionCandidate, choose_victim, eviction_message, memory_request
from pilothouse.node.pods.pod_directories import PodDirectory, list_pod_directories, unfinished_directories
from pilothouse.node.pods.pod_worker import PodDependencies, PodWorker
from pilothouse.node.settings import NodeSettings
from pilothouse.node.volumes.volume_owners import AGENT_LOCK
from pilothouse.pki.private_files import private_folder
from pilothouse.runtime.event_recorder import EventCorrelator
from pilothouse.supervise.launch_spec import ContainerExit

COMPONENT: Final = "kubelet"
"""By whom events are told: kubectl and people look for this name."""
EVICTIONS: Final = 10.0
"""Seconds between two looks at who takes too much."""
IMAGES: Final = 1.0
"""Seconds between two looks at whether images have come."""
_LEAVING: Final = 30.0
"""Seconds that a pod which has to go is waited for before another has to."""
_SHOWN_PROBLEMS: Final = 5
_AGAIN: Final = Backoff(first=0.5, factor=2.0, longest=30.0)

log = logging.getLogger(__name__)


class DataInUse(Exception):
    """Another agent has the data folder."""


class Agent:
    """All of a node's core."""

    def __init__(
        self,
        api: Api,
        settings: NodeSettings,
        parts: NodeParts,
        clock: Clock,
        rng: Random,
        *,
        serving_problem: Callable[[], str] = lambda: "",
    ) -> None:
        """``serving_problem`` says why the node's own server can't be called yet; empty if it can, or there is none."""
        self._serving_problem = serving_problem
        self.whereabouts = ContainerIndex()
        self._settings = settings
        self._parts = parts
        machine = read_machine_info(settings)
        self._events = EventRecorder(api, EventCorrelator(component=COMPONENT, host=settings.name), clock)
        self._pods = Informer(api, Pod, rng, clock, fields=f"spec.nodeName={settings.name}")
        self._means = PodDependencies(
            api,
            settings,
            parts,
            clock,
            rng,
            self._events,
            self.whereabouts,
            AgentIdentity(os.getuid(), os.getgid()),
            lambda: machine.allocatable,
            IdRanges(settings.pods, settings.user_namespace_ids),
        )
        self._supervisor = BackgroundTasks(
            {"volumes": parts.volumes.run, "addresses": parts.addresses.run, "events": self._events.run}
        )
        self.registration = NodeRegistration(
            api, settings, machine, self._conditions, clock, parts.images.stored
        )
        self._keepers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._clock = clock
        self._leaving: tuple[PodWorker, float] | None = None

    @property
    def pods(self) -> Mapping[str, PodWorker]:
        """Those of which there is something here, by uid."""
        return self._keepers

    async def run(self) -> None:
        """Be a node until cancelled."""
        with _sole(self._settings):
            # What pods leave may be set-user-id: no one folder's mode is all that keeps other users from it.
            private_folder(self._settings.pods)
            left = unfinished_directories(self._settings.pods)
            if self._means.agent.is_root:
                self._recover_ids()
            async with self._supervisor.running():
                try:
                    await together(
                        {
                            "registration": self.registration.run(),
                            "pods": self._pods.run(),
                            "keepers": self._keep(),
                            "evictions": self._evict(),
                            "pressure": self._relieve(),
                            "images": self._follow_images(),
                            "leftovers": self._remove(left),
                        }
                    )
                finally:
                    for task in self._tasks.values():
                        task.cancel()
                    await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                    self._parts.volumes.close()

    def _recover_ids(self) -> None:
        try:
            self._means.id_ranges.recover()
        except (NotReady, OSError) as problem:
            # Pods that need ids of their own wait and say so; the others don't.
            log.warning("the ids of pods: %s", problem)

    async def _remove(self, folders: Iterable[Path]) -> None:
        """What an earlier agent had begun to remove. Nothing waits for it."""
        for folder in folders:
            try:
                await self._parts.removal.remove(folder)
            except OSError as problem:
                log.warning("%s can't be removed: %s", folder, problem)

    async def _keep(self) -> None:
        """Have a keeper for each pod. Nobody is an orphan before all pods are known."""
        await self._pods.synced()
        known = {pod.uid for pod in self._pods.cache.list()}
        for folder in list_pod_directories(self._settings.pods):
            if folder.uid not in known:
                left = folder.recall()
                if left is not None:
                    log.info("pod %s/%s is gone from the API; what is left of it ends", *left.key)
                    self._begin(left, gone=True)
                else:
                    self._take(folder.uid, self._clear(folder))
        unsubscribe = self._pods.subscribe(self._changed)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            unsubscribe()

    async def _evict(self) -> None:
        """Have those pods end that take more than they may, and the others keep to limits that have changed."""
        while True:
            await asyncio.sleep(EVICTIONS)
            for uid, keeper in tuple(self._keepers.items()):
                try:
                    if excess := self._parts.volumes.excess(uid):
                        keeper.evict("Evicted", excess)
                    keeper.limit_anew()
                except OSError as problem:
                    log.warning("pod %s/%s is not held to its limits: %s", *keeper.pod.key, problem)

    async def _follow_images(self) -> None:
        """Have pods that wait for an image, or failed with one, try again as soon as it is imported."""
        known = self._parts.images.revision()
        while True:
            await asyncio.sleep(IMAGES)
            if (found := self._parts.images.revision()) != known:
                known = found
                for keeper in tuple(self._keepers.values()):
                    keeper.image_changed()
                self.registration.refresh()

    async def _relieve(self) -> None:
        """Have the pod end that takes most, when memory or disk runs short. Apart from the above: to see who takes how much of
        the disk may take minutes."""
        while True:
            await asyncio.sleep(EVICTIONS)
            try:
                await self._relieve_now()
            except OSError as problem:
                log.warning("who takes too much can't be seen: %s", problem)

    async def _relieve_now(self) -> None:
        if self._makes_room():
            return
        short = resource_pressures(read_available_resources(self._settings.data))
        if memory := short.get("MemoryPressure"):
            self._evict_one(memory, list(self._users_of_memory()))
        elif disk := short.get("DiskPressure"):
            self._evict_one(disk, await self._users_of_disk(disk.resource))

    def _makes_room(self) -> bool:
        """Whether a pod that had to go still has what others need: how much is missing without it is not known yet."""
        if self._leaving is None:
            return False
        keeper, since = self._leaving
        if keeper.released or self._clock.now() - since >= _LEAVING:
            self._leaving = None
        return self._leaving is not None

    def _evict_one(self, shortage: ResourcePressure, candidates: list[EvictionCandidate]) -> None:
        chosen = choose_victim((each for each in candidates if each.uid in self._keepers), shortage)
        if chosen is None:
            return
        log.warning("pod %s is evicted: %s", chosen.uid, shortage.message)
        keeper = self._keepers[chosen.uid]
        keeper.evict("Evicted", eviction_message(chosen, shortage))
        self._leaving = keeper, self._clock.now()
        self.registration.refresh()

    def _users_of_memory(self) -> Iterator[EvictionCandidate]:
        for uid, keeper in self._keepers.items():
            if not keeper.ends:
                usage = self._parts.groups.group(pod_group(uid)).usage().working_set_bytes or 0
                yield EvictionCandidate(uid, memory_request(keeper.pod), usage)

    async def _users_of_disk(self, resource: str) -> list[EvictionCandidate]:
        pods = [keeper.pod for keeper in self._keepers.values() if not keeper.ends]
        found = await asyncio.gather(*(self._user_of_disk(pod, resource) for pod in pods))
        return [each for each in found if each is not None]

    async def _user_of_disk(self, pod: Object, resource: str) -> EvictionCandidate | None:
        try:
            used = await self._parts.volumes.disk_usage(pod.uid)
        except OSError as problem:
            log.warning("how much pod %s/%s has on the disk can't be seen: %s", *pod.key, problem)
            return None
        hides = bool(used.unmeasured) and not used.timed_out
        if resource == "inodes":
            return EvictionCandidate(pod.uid, 0, used.files, hides)
        return EvictionCandidate(pod.uid, request(pod), used.size, hides)

    def _changed(self, difference: CacheChange) -> None:
        old, new = difference
        if old is not None and (new is None or new.uid != old.uid) and old.uid in self._keepers:
            self._keepers[old.uid].saw(None)
        if new is not None and self._is_sound(new):
            keeper = self._keepers.get(new.uid)
            if keeper is None:
                self._begin(new, gone=False)
            else:
                keeper.saw(new)

    def _is_sound(self, pod: Object) -> bool:
        """Whether names of a pod may become names of files. Every version of every pod comes by here, before anything else."""
        problems = bad_names(pod)
        if problems:
            message = "; ".join(problems[:_SHOWN_PROBLEMS])
            log.error("pod %r/%r is not run: %s", *pod.key, message)
            self._events.tell(pod, "InvalidPod", f"the node does not run it: {message}", warning=True)
        return not problems

    async def _clear(self, folder: PodDirectory) -> None:
        """Away with a pod of which nothing is known any more, not even what it was."""
        log.warning("%s is of no pod that is known; what runs there is killed", folder.path)
        for name in folder.containers():
            container = folder.container(name)
            for number in container.attempts():
                found = await self._parts.containers.adopt(container.attempt(number))
                if found is not None and not isinstance(found, ContainerExit):
                    await found.stop(signal.SIGKILL, 0)
        await self._parts.groups.group(pod_group(folder.uid)).remove()
        await self._parts.volumes.release(folder.uid)
        await self._parts.addresses.release(folder.uid)
        for each in folder.discard():
            await self._parts.removal.remove(each)
        self._means.id_ranges.release(folder.uid)

    def _begin(self, pod: Object, *, gone: bool) -> None:
        # Known at once and not when its task begins: the next change of the pod may come before that.
        self._take(pod.uid, self._attend(self._keeper(pod, gone)))

    def _keeper(self, pod: Object, gone: bool) -> PodWorker:
        keeper = PodWorker(pod, self._means, predecessor=self._earlier, others=self._admitted, gone=gone)
        self._keepers[pod.uid] = keeper
        return keeper

    def _take(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"pod {uid}")
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._tasks.pop(uid) if self._tasks.get(uid) is task else None)

    async def _attend(self, keeper: PodWorker) -> None:
        """Keep a pod until nothing of it is left, whatever goes wrong."""
        failures = 0
        while True:
            try:
                await keeper.run()
                del self._keepers[keeper.pod.uid]
                return
            except Exception as bug:
                failures += 1
                pod = keeper.pod
                self._events.tell(pod, "FailedSync", f"error syncing pod: {_root(bug)}", warning=True)
                log.exception("pod %s/%s could not be kept; it is taken up again", *pod.key)
                await asyncio.sleep(_AGAIN.after(failures))
                keeper = self._keeper(keeper.pod, keeper.gone)

    def _admitted(self) -> int:
        return sum(keeper.admitted for keeper in self._keepers.values())

    def _earlier(self, pod: Object) -> PodWorker | None:
        """A pod of the same name that came before and still has something here."""
        for keeper in self._keepers.values():
            other = keeper.pod
            if other.key == pod.key and other.uid != pod.uid and keeper.gone:
                return keeper
        return None

    def _conditions(self) -> list[dict[str, str]]:
        survey = self._parts.survey
        parts = "; ".join(filter(None, (self._supervisor.problem, self._serving_problem())))
        told = conditions(read_available_resources(self._settings.data), problems(survey, parts))
        told += [dict(self._parts.addresses.condition()), limits_condition(survey)]
        told.append(seccomp_condition(seccomp_profiles.is_enforced()))
        if self._means.agent.is_root:
            told.append(users_condition(survey, self._settings.allow_host_users))
        return told


@contextmanager
def _sole(settings: NodeSettings) -> Iterator[None]:
    """Nobody else has the data folder meanwhile. Raises ``DataInUse``."""
    private_folder(settings.data)
    lock = settings.data / AGENT_LOCK
    # For us alone: whoever can open a file can also lock it.
    with open(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataInUse(
                f"another node agent has {settings.data}: stop it, or give this one a data folder of its own"
            ) from None
        yield


def _root(bug: BaseException) -> str:
    """What went wrong first, out of a group of failures."""
    while isinstance(bug, BaseExceptionGroup):
        bug = bug.exceptions[0]
    return f"{type(bug).__name__}: {bug}"
