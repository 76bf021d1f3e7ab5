"""What pods keep on the machine's disk beside their claims, measured beside everything else.

    usage = PodUsage(pods)
    await usage.measure(pod, {"cache": path})       # its emptyDirs that have a limit
    usage.excess(pod.uid)                           # why it has to go; empty if it keeps to its limits
    await usage.disk_usage(pod.uid)                 # DirectoryUsage: what eviction ranks by

A pod's files are the pod's to arrange. So each pod is measured by itself, up to a limit, in threads that do nothing else: a tree that takes
long, or that is moved about so as to take forever, delays neither other pods' files and tokens nor, for long, their measuring. A tree beyond the
limit counts as more than any limit; one for which only time ran out does so when that happens ``ATTEMPTS`` times in a row, since a busy disk
may be the reason the first time.
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
    """Of the pods of a node, by uid."""

    def __init__(self, pods: Path, limit: WalkLimit = MEASURED) -> None:
        """``pods`` is the folder with a folder for each pod."""
        self._pods = pods
        self._limit = limit
        self._threads = DaemonThreads("measuring", _THREADS)
        self._excesses: dict[str, str] = {}
        self._timeouts: dict[str, int] = {}
        self._under_way: set[str] = set()

    def excess(self, pod_uid: str) -> str:
        """Why a pod has to go: an emptyDir holds more than it may, or all of it together does. Empty if neither is so."""
        return self._excesses.get(pod_uid, "")

    def forget(self, pod_uid: str) -> None:
        """The pod is let go of."""
        self._excesses.pop(pod_uid, None)
        self._timeouts.pop(pod_uid, None)
        self._under_way.discard(pod_uid)

    async def disk_usage(self, pod_uid: str) -> DirectoryUsage:
        """All that a pod has on the disk: volumes, logs, and what its containers write outside of volumes. Raises OSError."""
        folder = self._pods / component(pod_uid)
        return (await self._threads.run(lambda: measure_storage(folder, self._limit))).total

    async def measure(self, pod: Object, empty_dirs: Mapping[str, Path]) -> None:
        """Look at every file of a pod that has limits; does nothing while that is being done. ``empty_dirs``: those with a limit."""
        uid = pod.uid
        if uid in self._under_way or not (empty_dirs or is_limited(pod)):
            return
        self._under_way.add(uid)
        try:
            text = await self._overrun(pod, empty_dirs)
        except OSError as problem:
            log.warning("how much pod %s/%s keeps on the disk can't be seen: %s", *pod.key, problem)
            return
        finally:
            # Gone, if the pod was let go of meanwhile.
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
        found, kept = await self._threads.run(lambda: self._looked(pod, empty_dirs))
        if not self._counts(pod.uid, [*found.values(), kept.total]):
            found = {name: _as_far_as_seen(each) for name, each in found.items()}
            kept = msgspec.structs.replace(kept, total=_as_far_as_seen(kept.total))
        for name, each in found.items():
            if each.unmeasured:
                return (
                    f'Usage of EmptyDir volume "{name}" can\'t be measured ({each.unmeasured}), '
                    f'which counts as more than the limit "{limits[name]}".'
                )
            if each.size > parse_quantity(limits[name]).to_int():
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limits[name]}".'
        return limit_violation(pod, kept)

    def _looked(
        self, pod: Object, empty_dirs: Mapping[str, Path]
    ) -> tuple[dict[str, DirectoryUsage], StorageUsage]:
        """In a thread. However many folders a pod has, they have the limit together."""
        meter = Meter(self._limit)
        found = {name: measure_disk_usage(path, meter) for name, path in empty_dirs.items()}
        kept = StorageUsage({}, DirectoryUsage(0, 0))
        if is_limited(pod):
            kept = measure_storage(self._pods / component(pod.uid), self._limit)
        return found, kept

    def _counts(self, uid: str, found: list[DirectoryUsage]) -> bool:
        """Whether what is unmeasured counts: not if time ran out for the first time."""
        if not any(each.timed_out for each in found):
            self._timeouts.pop(uid, None)
            return True
        self._timeouts[uid] = self._timeouts.get(uid, 0) + 1
        return self._timeouts[uid] >= ATTEMPTS


def _as_far_as_seen(found: DirectoryUsage) -> DirectoryUsage:
    return msgspec.structs.replace(found, unmeasured="") if found.timed_out else found
