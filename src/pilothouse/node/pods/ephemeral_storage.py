"""The ephemeral storage of a pod: its usage, requests and limits.

    usage = measure_storage(folder)  # StorageUsage({"web": 40_960}, DirectoryUsage(size=1_052_672, files=12))
    limit_violation(pod, usage)      # 'Container web exceeded its local ephemeral storage limit "32Ki".'
    request(pod)                     # its storage request in bytes

It counts emptyDir volumes on disk, logs and records of containers, and what they write to their own `/tmp`,
`/var` etc.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.node.files.directory_usage import MEASURED, DirectoryUsage, measure_disk_usage
from pilothouse.node.files.walk_limits import Meter, WalkLimit

_STORAGE: Final = "ephemeral-storage"


class StorageUsage(msgspec.Struct, frozen=True):
    """The disk usage of a pod, in bytes."""

    containers: Mapping[str, int]
    """For each container its logs, records, and what it writes outside of volumes."""
    total: DirectoryUsage
    """The usage of all containers and of the volumes."""


def measure_storage(folder: Path, limit: WalkLimit = MEASURED) -> StorageUsage:
    """Measure a pod's directory, file by file. Raises OSError."""
    meter, above = Meter(limit), folder / "containers"
    folders = above.iterdir() if above.is_dir() else ()
    containers = {each.name: measure_disk_usage(each, meter) for each in folders}
    total = sum(containers.values(), measure_disk_usage(folder / "volumes", meter))
    return StorageUsage({name: each.size for name, each in containers.items()}, total)


def is_limited(pod: Object) -> bool:
    """Whether a container of the pod has a storage limit."""
    return any(_amount(each, "limits") is not None for each in _containers(pod))


def limit_violation(pod: Object, kept: StorageUsage) -> str:
    """Why the pod is evicted, in kubelet's words; empty if it keeps its limits."""
    # A limit of one container counts for the sum: the volumes are shared.
    limit = _together(pod, "limits")
    if is_limited(pod) and kept.total.unmeasured:
        return (
            f"Pod ephemeral local storage usage can't be measured ({kept.total.unmeasured}), "
            f"which counts as more than the total limit of containers {_shown(limit)}."
        )
    if is_limited(pod) and kept.total.size > limit:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {_shown(limit)}."
    for container in pod.spec.get("containers") or ():
        most = _amount(container, "limits")
        if most is not None and kept.containers.get(container["name"], 0) > most:
            text = container["resources"]["limits"][_STORAGE]
            return f'Container {container["name"]} exceeded its local ephemeral storage limit "{text}".'
    return ""


def request(pod: Object) -> int:
    """The pod's storage request in bytes."""
    return _together(pod, "requests")


def _together(pod: Object, side: str) -> int:
    """The sum of the containers, which run concurrently; init containers run before them, one at a time."""
    beside = sum(_amount(each, side) or 0 for each in pod.spec.get("containers") or ())
    before = (_amount(each, side) or 0 for each in pod.spec.get("initContainers") or ())
    return max(beside, *before, 0)


def _containers(pod: Object) -> Iterable[Tree]:
    return [*(pod.spec.get("containers") or ()), *(pod.spec.get("initContainers") or ())]


def _amount(container: Tree, side: str) -> int | None:
    resources: Mapping[str, Any] = container.get("resources") or {}
    found = (resources.get(side) or {}).get(_STORAGE)
    if found is None and side == "requests":
        found = (resources.get("limits") or {}).get(_STORAGE)
    return None if found is None else parse_quantity(found).to_int()


def _shown(amount: int) -> str:
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)
