"""The volumes of this node's pods: made before their containers start, and kept up to date while they run.

    volumes = PodVolumes(api, settings, memory, claims, PodTokens(api, clock, rng), clock, run_claims, pools)
    prepared = await volumes.prepare(pod)
    volumes.mounts(pod, container, prepared, env=env)
    await volumes.release(pod.uid)

    PODS/<uid>/volumes/<name>       an emptyDir on disk; config maps and fields of the pod
    PODS/<uid>/subpaths/…           bind mounts of subpaths
    MEMORY/<uid>/<name>             secrets, tokens, and emptyDirs in memory

``prepare`` is idempotent. ``run`` updates files from config maps, secrets and pod fields (within half a
minute), renews tokens, and measures storage for ``excess``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.aio.task_group import together
from pilothouse.api.kind_names import ConfigMap, Pod, Secret
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.containers.environment import CONFIG_MAP, Source
from pilothouse.node.files.directory_handles import open_directory
from pilothouse.node.files.directory_usage import DirectoryUsage
from pilothouse.node.files.path_names import component
from pilothouse.node.interfaces import PreparedVolume, VolumeNotReady
from pilothouse.node.volumes import container_mounts, host_paths, ownership
from pilothouse.node.volumes.atomic_directory import FileOwner, replace
from pilothouse.node.volumes.claim_volumes import ClaimVolumes, VolumeInUse
from pilothouse.node.volumes.memory_directories import MemoryDirectories
from pilothouse.node.volumes.pod_tokens import PodTokens
from pilothouse.node.volumes.pod_usage import PodUsage
from pilothouse.node.volumes.private_directories import PrivateDirectories
from pilothouse.node.volumes.projected_files import (
    KINDS,
    ProjectedFile,
    needed,
    payload,
    sources_of,
    tokens_needed,
)
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.storage_pools import StoragePools
from pilothouse.node.volumes.volume_usage import MeasuredUsage, VolumeMeter
from pilothouse.supervise.cgroup_settings import DeviceThrottle
from pilothouse.supervise.launch_spec import Mount

REFRESH: Final = 20.0
_REMOVERS: Final = 8
"""Pods whose files are removed concurrently."""
_FAILED: Final = "FailedMount"
Fetch = Callable[[str, Source], Awaitable[Object | None]]
"""The config map or secret of a namespace."""

log = logging.getLogger(__name__)


class VolumeSettings(msgspec.Struct, frozen=True, kw_only=True):
    pods: Path
    """A directory with one for each pod."""
    root: bool
    """Whether we may mount, and change owners."""
    allocatable: Mapping[str, str] = {}
    """The node's, for containers without limits."""
    refresh: float = REFRESH
    """Seconds between updates of files."""
    private: PrivateDirectories = PrivateDirectories(())
    """Directories that no ``hostPath`` may lead to."""


class PodVolumes:
    """Implements ``interfaces.VolumeManager``."""

    def __init__(
        self,
        api: Api,
        settings: VolumeSettings,
        memory: MemoryDirectories,
        claims: ClaimVolumes,
        tokens: PodTokens,
        clock: Clock,
        run_claims: Callable[[], Coroutine[Any, Any, None]],
        pools: StoragePools,
    ) -> None:
        """``run_claims`` provisions, expands and deletes the volumes of claims; it runs within ``run``."""
        self._api = api
        self._settings = settings
        self._memory = memory
        self._claims = claims
        self._tokens = tokens
        self._clock = clock
        self._run_claims = run_claims
        self.pools = pools
        self._pods: dict[str, Object] = {}
        self._usage = PodUsage(settings.pods)
        self._gauge = VolumeMeter(clock)
        self._removers = DaemonThreads("removing", _REMOVERS)
        self._exchanges = 0

    async def prepare(self, pod: Object) -> dict[str, PreparedVolume]:
        """All of a pod's volumes by name. Raises VolumeNotReady."""
        found: dict[str, PreparedVolume] = {}
        for volume in pod.spec.get("volumes") or ():
            try:
                found[volume["name"]] = await self._one(pod, volume)
            except OSError as problem:
                where = problem.filename or self._settings.pods
                why = f'volume "{volume["name"]}": {where}: {problem.strerror}'
                raise VolumeNotReady(_FAILED, why) from None
            except (StatusError, TransportError, AccessError) as problem:
                raise VolumeNotReady(_FAILED, f'volume "{volume["name"]}": {problem}') from None
        self._pods[pod.uid] = pod
        return found

    def mounts(
        self,
        pod: Object,
        container: Tree,
        prepared: Mapping[str, PreparedVolume],
        env: Mapping[str, str] = {},
    ) -> Sequence[Mount]:
        """The mounts of a container; ``env`` is for ``subPathExpr``. Raises VolumeNotReady."""
        subpaths = self._folder(pod.uid) / "subpaths" / component(container["name"])
        held = subpaths if self._settings.root else None
        return container_mounts.mounts(container, prepared, env, held, self._settings.private)

    async def release(self, pod_uid: str) -> None:
        """Release the volumes of a pod whose containers have ended. Raises OSError, to be retried."""
        self._pods.pop(pod_uid, None)
        self._usage.forget(pod_uid)
        self._tokens.forget(pod_uid)
        await self._removers.run(lambda: self._remove(pod_uid))
        await self._claims.release(pod_uid)

    def excess(self, pod_uid: str) -> str:
        return self._usage.excess(pod_uid)

    async def disk_usage(self, pod_uid: str) -> DirectoryUsage:
        return await self._usage.disk_usage(pod_uid)

    def throttles(self, pod_uid: str) -> tuple[DeviceThrottle, ...]:
        return tuple(used.throttle for used in self._claims.of_pod(pod_uid) if used.throttle is not None)

    async def usage(self) -> list[MeasuredUsage]:
        """The usage of all claims' volumes on this node."""
        return await self._gauge.measure(self._claims.in_use)

    def in_use(self) -> list[VolumeInUse]:
        """The claims' volumes that pods use."""
        return self._claims.in_use

    async def run(self) -> None:
        await together({"claims": self._run_claims(), "files": self._follow(), "sizes": self._follow_sizes()})

    def close(self) -> None:
        """Release the locks of volume owners. Pods keep their volumes."""
        self._claims.owners.close()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._settings.refresh)
            await self.refresh()

    async def _follow_sizes(self) -> None:
        """Apart from files and tokens, and each pod by itself: a pod controls how long measuring it takes."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._settings.refresh)
                for pod in tuple(self._pods.values()):
                    group.create_task(self._measure(pod))

    async def measure(self) -> None:
        """Measure all pods once."""
        await asyncio.gather(*(self._measure(pod) for pod in tuple(self._pods.values())))

    async def refresh(self) -> None:
        """Update all files once. What can't be read stays as it is."""
        seen: dict[tuple[str, str, str], Object | None] = {}

        async def fetched(namespace: str, source: Source) -> Object | None:
            key = (namespace, *source)
            if key not in seen:
                seen[key] = await self._fetched(namespace, source)
            return seen[key]

        await self._tokens.look()
        for uid, pod in tuple(self._pods.items()):
            volumes = pod.spec.get("volumes") or ()
            try:
                if any(kind == "downwardAPI" for volume in volumes for kind, _ in sources_of(volume)):
                    pod = await self._newest(pod)
                for volume in volumes:
                    if any(volume.get(kind) is not None for kind in KINDS):
                        files = await self._files(pod, volume, fetched)
                        # The pod may have been released meanwhile: nothing would remove what is written now.
                        if uid in self._pods:
                            self._write(pod, volume, files)
            except (StatusError, TransportError, AccessError, VolumeNotReady, OSError) as problem:
                log.warning("the volumes of pod %s/%s stay as they are: %s", pod.namespace, pod.name, problem)

    async def _newest(self, pod: Object) -> Object:
        found = await self._api.find(Pod, pod.name, pod.namespace)
        return found if found is not None and found.uid == pod.uid else pod

    async def _measure(self, pod: Object) -> None:
        if pod.uid not in self._pods:
            return
        limited = {
            volume["name"]: self._empty_dir(pod, volume)
            for volume in pod.spec.get("volumes") or ()
            if (volume.get("emptyDir") or {}).get("sizeLimit")
        }
        await self._usage.measure(pod, limited)

    async def _one(self, pod: Object, volume: Tree) -> PreparedVolume:
        group = ownership.group_of(pod) if self._settings.root else None
        if volume.get("emptyDir") is not None:
            path = self._empty_dir(pod, volume, make=True)
            if group is not None:
                await self._claims.group_threads.run(
                    lambda: ownership.set_group(path, group, only_on_mismatch=True)
                )
            return PreparedVolume(path)
        if volume.get("hostPath") is not None:
            path = host_paths.checked(volume["hostPath"], volume["name"], self._settings.private)
            return PreparedVolume(path, host=True)
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return await self._claims.prepare(pod, claim["claimName"], read_only=bool(claim.get("readOnly")))
        if any(volume.get(kind) is not None for kind in KINDS):
            return self._write(pod, volume, await self._files(pod, volume, self._fetched))
        kind = next((key for key in volume if key != "name"), "no source")
        why = f'volume "{volume["name"]}": volume type {kind} is not supported on this node'
        raise VolumeNotReady(_FAILED, why)

    def _empty_dir(self, pod: Object, volume: Tree, *, make: bool = False) -> Path:
        source, name = volume["emptyDir"], volume["name"]
        limit = parse_quantity(source["sizeLimit"]).to_int() if source.get("sizeLimit") else None
        if source.get("medium") == "Memory":
            path = self._memory.sized(component(pod.uid), component(name), limit)
        else:
            path = self._folder(pod.uid) / "volumes" / component(name)
        if make:
            path.mkdir(parents=True, exist_ok=True)
            with open_directory(path) as handle:
                mode = stat.S_IMODE(os.fstat(handle).st_mode)
                if mode & 0o777 != 0o777:
                    os.fchmod(handle, mode | 0o777)
        return path

    async def _files(self, pod: Object, volume: Tree, fetch: Fetch) -> dict[str, ProjectedFile]:
        sources = {source: await fetch(pod.namespace, source) for source in needed(volume)}
        tokens = await self._tokens.all(pod, tokens_needed(volume))
        return payload(pod, volume, sources, tokens, self._settings.allocatable)

    def _write(self, pod: Object, volume: Tree, files: Mapping[str, ProjectedFile]) -> PreparedVolume:
        secret = any(kind in ("secret", "serviceAccountToken") for kind, _ in sources_of(volume))
        if secret:
            self._memory.reserve(pod.uid, volume["name"], (len(file.content) for file in files.values()))
        above = self._memory.folder(component(pod.uid)) if secret else self._folder(pod.uid) / "volumes"
        folder = above / component(volume["name"])
        is_root = self._settings.root
        owner = FileOwner(ownership.user_of(pod), ownership.group_of(pod)) if is_root else FileOwner()
        self._exchanges += 1
        stamp = f"{self._clock.now():.6f}.{self._exchanges}"
        replace(folder, files, owner, stamp)
        return PreparedVolume(folder, read_only=True)

    async def _fetched(self, namespace: str, source: Source) -> Object | None:
        kind, name = source
        return await self._api.find(ConfigMap if kind == CONFIG_MAP else Secret, name, namespace)

    def _folder(self, pod_uid: str) -> Path:
        return self._settings.pods / component(pod_uid)

    def _remove(self, pod_uid: str) -> None:
        folder = self._folder(pod_uid)
        self._memory.release(pod_uid)
        remove(folder / "subpaths")
        remove(folder / "volumes")
