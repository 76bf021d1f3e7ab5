"""Measures the ephemeral storage of pods, in the background.

    usage = PodUsage(pods)
    await usage.measure(pod, {"cache": path})       # its emptyDirs that have a limit
    usage.excess(pod.uid)                           # why it must be evicted; empty if it keeps its limits
    await usage.disk_usage(pod.uid)                 # DirectoryUsage: what eviction ranks by

A pod controls how long measuring takes, so each is measured by itself, up to a limit, in threads of their
own. A tree beyond the limit counts as more than any limit; one for which only time ran out does so after
``ATTEMPTS`` times in a row, since the disk may just be busy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.aio.daemon_threads import DaemonThreads
from pilothouse.api.objects import Object
from pilothouse.base.quantity import parse_quantity
from pilothouse.node.files.directory_usage import MEASURED, DirectoryUsage, measure_disk_usage
from pilothouse.node.files.path_names import component
from pilothouse.node.files.walk_limits import Meter, WalkLimit
from pilothouse.node.pods.ephemeral_storage import StorageUsage, is_limited, limit_violation, measure_storage

ATTEMPTS: Final = 3
_THREADS: Final = 2

log = logging.getLogger(__name__)


class PodUsage:
    def __init__(self, pods: Path, limit: WalkLimit = MEASURED) -> None:
        """``pods`` has a directory for each pod."""
        self._pods = pods
        self._limit = limit
        self._threads = DaemonThreads("measuring", _THREADS)
        self._excesses: dict[str, str] = {}
        self._timeouts: dict[str, int] = {}
        self._under_way: set[str] = set()

    def excess(self, pod_uid: str) -> str:
        """Why a pod must be evicted: an emptyDir, or all of its storage, exceeds a limit. Empty if not."""
        return self._excesses.get(pod_uid, "")

    def forget(self, pod_uid: str) -> None:
        self._excesses.pop(pod_uid, None)
        self._timeouts.pop(pod_uid, None)
        self._under_way.discard(pod_uid)

    async def disk_usage(self, pod_uid: str) -> DirectoryUsage:
        """A pod's volumes, logs, and what its containers write outside of volumes. Raises OSError."""
        folder = self._pods / component(pod_uid)
        return (await self._threads.run(lambda: measure_storage(folder, self._limit))).total

    async def measure(self, pod: Object, empty_dirs: Mapping[str, Path]) -> None:
        """Measure a pod that has limits, unless it is being measured. ``empty_dirs``: those with a limit."""
        uid = pod.uid
        if uid in self._under_way or not (empty_dirs or is_limited(pod)):
            return
        self._under_way.add(uid)
        try:
            text = await self._overrun(pod, empty_dirs)
        except OSError as problem:
            log.warning("pod %s/%s: failed to measure its storage: %s", *pod.key, problem)
            return
        finally:
            # Absent, if the pod was released meanwhile.
            is_kept = uid in self._under_way
            self._under_way.discard(uid)
        if text and is_kept:
            self._excesses[uid] = text

    async def _overrun(self, pod: Object, empty_dirs: Mapping[str, Path]) -> str:
        limits = {
            volume["name"]: str(volume["emptyDir"]["sizeLimit"])
            for volume in pod.spec.get("volumes") or ()
            if volume["name"] in empty_dirs
        }
        found, kept = await self._threads.run(lambda: self._measure(pod, empty_dirs))
        if not self._counts(pod.uid, [*found.values(), kept.total]):
            found = {name: _without_timeout(each) for name, each in found.items()}
            kept = msgspec.structs.replace(kept, total=_without_timeout(kept.total))
        for name, each in found.items():
            if each.unmeasured:
                return (
                    f'Usage of EmptyDir volume "{name}" can\'t be measured ({each.unmeasured}), '
                    f'which counts as more than the limit "{limits[name]}".'
                )
            if each.size > parse_quantity(limits[name]).to_int():
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limits[name]}".'
        return limit_violation(pod, kept)

    def _measure(
        self, pod: Object, empty_dirs: Mapping[str, Path]
    ) -> tuple[dict[str, DirectoryUsage], StorageUsage]:
        """Runs in a thread. The limit is for all directories of a pod together."""
        meter = Meter(self._limit)
        found = {name: measure_disk_usage(path, meter) for name, path in empty_dirs.items()}
        kept = StorageUsage({}, DirectoryUsage(0, 0))
        if is_limited(pod):
            kept = measure_storage(self._pods / component(pod.uid), self._limit)
        return found, kept

    def _counts(self, uid: str, found: list[DirectoryUsage]) -> bool:
        """Whether what is unmeasured counts: not for the first timeouts."""
        if not any(each.timed_out for each in found):
            self._timeouts.pop(uid, None)
            return True
        self._timeouts[uid] = self._timeouts.get(uid, 0) + 1
        return self._timeouts[uid] >= ATTEMPTS


def _without_timeout(found: DirectoryUsage) -> DirectoryUsage:
    return msgspec.structs.replace(found, unmeasured="") if found.timed_out else found
