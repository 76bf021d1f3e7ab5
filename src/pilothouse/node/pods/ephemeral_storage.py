"""What a pod keeps on the machine's disk beside its claims, and how much it may.

    kept = measure_storage(folder)           # StorageUsage({"web": 40_960}, DirectoryUsage(size=1_052_672, files=12))
    limit_violation(pod, kept)               # 'Container web exceeded its local ephemeral storage limit "32Ki".', or ""
    request(pod)                             # bytes of ephemeral-storage that it asks for

What counts is what goes with the pod: its emptyDir volumes that are not in memory, and the logs and records of its containers, with what
they write to their own `/tmp`, `/var` and the like.
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
    """Bytes on the disk."""

    containers: Mapping[str, int]
    """Of each container: logs, records, and what it writes outside of volumes."""
    total: DirectoryUsage
    """Of all of them, and of the volumes."""


def measure_storage(folder: Path, limit: WalkLimit = MEASURED) -> StorageUsage:
    """Of the pod that has this folder. Looks at every file. Raises OSError."""
    meter, above = Meter(limit), folder / "containers"
    containers = (
        {each.name: measure_disk_usage(each, meter) for each in above.iterdir()} if above.is_dir() else {}
    )
    total = sum(containers.values(), measure_disk_usage(folder / "volumes", meter))
    return StorageUsage({name: each.size for name, each in containers.items()}, total)


def is_limited(pod: Object) -> bool:
    """Whether there is a reason to measure."""
    return any(_amount(each, "limits") is not None for each in _containers(pod))


def limit_violation(pod: Object, kept: StorageUsage) -> str:
    """Why it has to go, in kubelet's words; empty if it keeps to its limits."""
    # Who limits some of its containers limits all of them together: their volumes are shared.
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
    """What its containers ask for together."""
    return _together(pod, "requests")


def _together(pod: Object, side: str) -> int:
    """Containers run side by side; init containers before them, one at a time."""
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
