"""What a test waits for, seen with kubectl or in the kernel's account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.supervise import container_records


async def pod_once(
    plane: UpPlane, what: str = "Running", name: str = "web-0", restarts: int = 0
) -> dict[str, Any]:
    """The pod, once it is ready, in that phase, and its container has been started again so often."""

    async def there() -> dict[str, Any] | None:
        found = await plane.kubectl("get", "pod", name, "-o", "json")
        if found.code != 0:
            return None
        pod: dict[str, Any] = json.loads(found.out)
        status = pod.get("status") or {}
        [container] = status.get("containerStatuses") or [{}]
        enough = container.get("restartCount") == restarts and container.get("ready")
        return pod if status.get("phase") == what and enough else None

    return await eventually(there, seconds=60)


async def node_is_ready(plane: UpPlane) -> None:
    """Waits until it is."""

    async def ready() -> bool:
        rows = await plane.kubectl("get", "nodes", "--no-headers")
        return rows.code == 0 and "  Ready" in rows.out

    await eventually(ready, seconds=60)


def program_of(plane: UpPlane, pod: dict[str, Any], attempt: int = 0) -> int:
    """The process of a pod's container."""
    uid = pod["metadata"]["uid"]
    folder = plane.data / "node" / "pods" / uid / "containers" / "sh" / str(attempt)
    state = container_records.read_state(folder)
    assert state is not None, folder
    return state.program.pid


def groups_of(plane: UpPlane, pod: dict[str, Any]) -> list[Path]:
    """The control groups of a pod and its container; none where the machine grants none."""
    folder = plane.data / "node" / "pods" / pod["metadata"]["uid"] / "containers" / "sh" / "0"
    inner = [Path(each) for each in container_records.read_launch(folder).cgroups]
    return [*inner, *(each.parent for each in inner)]


def lives(pid: int) -> bool:
    """Whether there is such a process, other than as a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def is_mounted_below(folder: Path) -> bool:
    """Whether anything is."""
    return str(folder) in Path("/proc/self/mountinfo").read_text()


def in_memory(pod: dict[str, Any]) -> list[Path]:
    """What an ordinary user's node keeps of a pod in the machine's shared memory: its token, at least."""
    return list(Path("/dev/shm").glob(f"pilothouse-*/{pod['metadata']['uid']}"))
