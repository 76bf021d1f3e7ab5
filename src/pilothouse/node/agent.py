"""The node agent: registers the machine, watches the pods bound to it, and runs a worker for each.

    agent = Agent(api, settings, parts, SystemClock(), Random())
    await agent.run()                  # until cancelled; containers keep running

A worker that fails is recreated from what is on disk. A pod that has a directory here and is gone from the
API is terminated with the grace period of its manifest. A lock keeps two agents from sharing a data
directory.
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
from pilothouse.node.containers.resource_limits import pod_cgroup
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
"""The source of events, as kubectl and users know it."""
EVICTION_INTERVAL: Final = 10.0
"""Seconds between eviction checks."""
IMAGE_INTERVAL: Final = 1.0
"""Seconds between checks for imported images."""
_EVICTION_WAIT: Final = 30.0
"""Seconds to wait for an evicted pod to end before another is evicted."""
_SHOWN_PROBLEMS: Final = 5
_RETRY_BACKOFF: Final = Backoff(first=0.5, factor=2.0, longest=30.0)

log = logging.getLogger(__name__)


class DataInUse(Exception):
    """Another agent uses the data directory."""


class Agent:
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
        """``serving_problem`` says why the node's own server is not ready; empty if it is."""
        self._serving_problem = serving_problem
        self.container_index = ContainerIndex()
        self._settings = settings
        self._parts = parts
        machine = read_machine_info(settings)
        self._events = EventRecorder(api, EventCorrelator(component=COMPONENT, host=settings.name), clock)
        self._pods = Informer(api, Pod, rng, clock, fields=f"spec.nodeName={settings.name}")
        self._deps = PodDependencies(
            api,
            settings,
            parts,
            clock,
            rng,
            self._events,
            self.container_index,
            AgentIdentity(os.getuid(), os.getgid()),
            lambda: machine.allocatable,
            IdRanges(settings.pods, settings.user_namespace_ids),
        )
        self._background = BackgroundTasks(
            {"volumes": parts.volumes.run, "addresses": parts.addresses.run, "events": self._events.run}
        )
        self.registration = NodeRegistration(
            api, settings, machine, self._conditions, clock, parts.images.stored
        )
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._clock = clock
        self._evicted: tuple[PodWorker, float] | None = None

    @property
    def pods(self) -> Mapping[str, PodWorker]:
        """The workers of the pods on this node, by uid."""
        return self._workers

    def warn(self, pod: Object, reason: str, message: str) -> None:
        """Record an event of the type Warning about a pod."""
        self._events.record(pod, reason, message, warning=True)

    async def run(self) -> None:
        with _locked(self._settings):
            # Pods may leave set-user-id files: other users must not reach them by any path.
            private_folder(self._settings.pods)
            left = unfinished_directories(self._settings.pods)
            if self._deps.agent.is_root:
                self._recover_ids()
            async with self._background.running():
                try:
                    await together(
                        {
                            "registration": self.registration.run(),
                            "pods": self._pods.run(),
                            "workers": self._run_workers(),
                            "evictions": self._evict_over_limit(),
                            "pressure": self._evict_under_pressure(),
                            "images": self._follow_images(),
                            "leftovers": self._remove_leftovers(left),
                        }
                    )
                finally:
                    for task in self._tasks.values():
                        task.cancel()
                    await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                    self._parts.volumes.close()

    def _recover_ids(self) -> None:
        try:
            self._deps.id_ranges.recover()
        except (NotReady, OSError) as problem:
            # Pods that need a range of user ids wait, with the reason in their status; the others run.
            log.warning("failed to recover the user id ranges of pods: %s", problem)

    async def _remove_leftovers(self, folders: Iterable[Path]) -> None:
        """Remove what an earlier agent had begun to remove. Nothing waits for it."""
        for folder in folders:
            try:
                await self._parts.removal.remove(folder)
            except OSError as problem:
                log.warning("%s can't be removed: %s", folder, problem)

    async def _run_workers(self) -> None:
        """Run a worker for each pod. Orphans are terminated only after the informer has synced."""
        await self._pods.synced()
        known = {pod.uid for pod in self._pods.cache.list()}
        for folder in list_pod_directories(self._settings.pods):
            if folder.uid not in known:
                left = folder.read_pod()
                if left is not None:
                    log.info("pod %s/%s is gone from the API; terminating its containers", *left.key)
                    self._start_worker(left, gone=True)
                else:
                    self._create_task(folder.uid, self._remove_unknown(folder))
        unsubscribe = self._pods.subscribe(self._changed)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            unsubscribe()

    async def _evict_over_limit(self) -> None:
        """Evict pods that exceed their storage limits, and apply changed limits to the others."""
        while True:
            await asyncio.sleep(EVICTION_INTERVAL)
            for uid, worker in tuple(self._workers.items()):
                try:
                    if excess := self._parts.volumes.excess(uid):
                        worker.evict("Evicted", excess)
                    worker.update_limits()
                except OSError as problem:
                    log.warning("pod %s/%s: failed to apply its limits: %s", *worker.pod.key, problem)

    async def _follow_images(self) -> None:
        """Retry pods that wait for an image, or failed with it, as soon as it is imported."""
        known = self._parts.images.revision()
        while True:
            await asyncio.sleep(IMAGE_INTERVAL)
            if (found := self._parts.images.revision()) != known:
                known = found
                for worker in tuple(self._workers.values()):
                    worker.image_changed()
                self.registration.refresh()

    async def _evict_under_pressure(self) -> None:
        """Evict a pod under pressure. A task of its own: measuring disk usage may take minutes."""
        while True:
            await asyncio.sleep(EVICTION_INTERVAL)
            try:
                await self._check_pressure()
            except OSError as problem:
                log.warning("failed to measure resource usage: %s", problem)

    async def _check_pressure(self) -> None:
        if self._is_eviction_pending():
            return
        short = resource_pressures(read_available_resources(self._settings.data))
        if memory := short.get("MemoryPressure"):
            self._evict_one(memory, list(self._memory_candidates()))
        elif disk := short.get("DiskPressure"):
            self._evict_one(disk, await self._disk_candidates(disk.resource))

    def _is_eviction_pending(self) -> bool:
        """Whether an evicted pod has not released its resources yet."""
        if self._evicted is None:
            return False
        worker, since = self._evicted
        if worker.released or self._clock.now() - since >= _EVICTION_WAIT:
            self._evicted = None
        return self._evicted is not None

    def _evict_one(self, shortage: ResourcePressure, candidates: list[EvictionCandidate]) -> None:
        chosen = choose_victim((each for each in candidates if each.uid in self._workers), shortage)
        if chosen is None:
            return
        log.warning("evicting pod %s: %s", chosen.uid, shortage.message)
        worker = self._workers[chosen.uid]
        worker.evict("Evicted", eviction_message(chosen, shortage))
        self._evicted = worker, self._clock.now()
        self.registration.refresh()

    def _memory_candidates(self) -> Iterator[EvictionCandidate]:
        for uid, worker in self._workers.items():
            if not worker.terminating:
                usage = self._parts.groups.group(pod_cgroup(uid)).usage().working_set_bytes or 0
                yield EvictionCandidate(uid, memory_request(worker.pod), usage)

    async def _disk_candidates(self, resource: str) -> list[EvictionCandidate]:
        pods = [worker.pod for worker in self._workers.values() if not worker.terminating]
        found = await asyncio.gather(*(self._disk_candidate(pod, resource) for pod in pods))
        return [each for each in found if each is not None]

    async def _disk_candidate(self, pod: Object, resource: str) -> EvictionCandidate | None:
        try:
            used = await self._parts.volumes.disk_usage(pod.uid)
        except OSError as problem:
            log.warning("pod %s/%s: failed to measure its disk usage: %s", *pod.key, problem)
            return None
        hides = bool(used.unmeasured) and not used.timed_out
        if resource == "inodes":
            return EvictionCandidate(pod.uid, 0, used.files, hides)
        return EvictionCandidate(pod.uid, request(pod), used.size, hides)

    def _changed(self, change: CacheChange) -> None:
        old, new = change
        if old is not None and (new is None or new.uid != old.uid) and old.uid in self._workers:
            self._workers[old.uid].update(None)
        if new is not None and self._has_valid_names(new):
            worker = self._workers.get(new.uid)
            if worker is None:
                self._start_worker(new, gone=False)
            else:
                worker.update(new)

    def _has_valid_names(self, pod: Object) -> bool:
        """Whether the names in a pod are safe as file names. Checked for every version of a pod."""
        problems = bad_names(pod)
        if problems:
            message = "; ".join(problems[:_SHOWN_PROBLEMS])
            log.error("pod %r/%r is invalid: %s", *pod.key, message)
            self._events.record(pod, "InvalidPod", f"invalid pod: {message}", warning=True)
        return not problems

    async def _remove_unknown(self, folder: PodDirectory) -> None:
        """Kill and remove what is in a pod directory without a readable ``pod.json``."""
        log.warning("%s belongs to no known pod; killing what runs there", folder.path)
        for name in folder.containers():
            container = folder.container(name)
            for number in container.attempts():
                found = await self._parts.containers.adopt(container.attempt(number))
                if found is not None and not isinstance(found, ContainerExit):
                    await found.stop(signal.SIGKILL, 0)
        await self._parts.groups.group(pod_cgroup(folder.uid)).remove()
        await self._parts.volumes.release(folder.uid)
        await self._parts.addresses.release(folder.uid)
        for each in folder.discard():
            await self._parts.removal.remove(each)
        self._deps.id_ranges.release(folder.uid)

    def _start_worker(self, pod: Object, *, gone: bool) -> None:
        # The worker is registered before its task runs: the pod may change before that.
        self._create_task(pod.uid, self._run_worker(self._new_worker(pod, gone)))

    def _new_worker(self, pod: Object, gone: bool) -> PodWorker:
        worker = PodWorker(pod, self._deps, predecessor=self._predecessor, others=self._admitted, gone=gone)
        self._workers[pod.uid] = worker
        return worker

    def _create_task(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"pod {uid}")
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._tasks.pop(uid) if self._tasks.get(uid) is task else None)

    async def _run_worker(self, worker: PodWorker) -> None:
        """Run a worker until its pod is cleaned up; recreate it when it fails."""
        failures = 0
        while True:
            try:
                await worker.run()
                del self._workers[worker.pod.uid]
                return
            except Exception as bug:
                failures += 1
                pod = worker.pod
                self._events.record(
                    pod, "FailedSync", f"error syncing pod: {_first_error(bug)}", warning=True
                )
                log.exception("pod %s/%s: error syncing pod; its worker is recreated", *pod.key)
                await asyncio.sleep(_RETRY_BACKOFF.after(failures))
                worker = self._new_worker(worker.pod, worker.gone)

    def _admitted(self) -> int:
        return sum(worker.admitted for worker in self._workers.values())

    def _predecessor(self, pod: Object) -> PodWorker | None:
        """The worker of an earlier pod of the same name that is gone from the API and not cleaned up yet."""
        for worker in self._workers.values():
            other = worker.pod
            if other.key == pod.key and other.uid != pod.uid and worker.gone:
                return worker
        return None

    def _conditions(self) -> list[dict[str, str]]:
        survey = self._parts.survey
        parts = "; ".join(filter(None, (self._background.problem, self._serving_problem())))
        found = conditions(read_available_resources(self._settings.data), problems(survey, parts))
        found += [dict(self._parts.addresses.condition()), limits_condition(survey)]
        found.append(seccomp_condition(seccomp_profiles.is_enforced()))
        if self._deps.agent.is_root:
            found.append(users_condition(survey, self._settings.allow_host_users))
        return found


@contextmanager
def _locked(settings: NodeSettings) -> Iterator[None]:
    """Hold the lock of the data directory. Raises ``DataInUse``."""
    private_folder(settings.data)
    lock = settings.data / AGENT_LOCK
    # Mode 0600: any user who can open the file could lock it.
    with open(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            advice = "stop it, or give this one a data directory of its own"
            raise DataInUse(f"another node agent uses {settings.data}: {advice}") from None
        yield


def _first_error(bug: BaseException) -> str:
    """The first error of an exception group."""
    while isinstance(bug, BaseExceptionGroup):
        bug = bug.exceptions[0]
    return f"{type(bug).__name__}: {bug}"
