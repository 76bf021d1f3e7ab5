"""How a node is: whether it can take pods, and what it runs short of.

    conditions(room, problems(survey, ""))        # Ready, MemoryPressure, DiskPressure, PIDPressure
    limits_condition(survey)                        # whether limits are enforced, and if not, why

Thresholds are kubelet's: 100 MiB of memory, a tenth of the disk (but no more than 1 GiB), a twentieth of its inodes, a tenth of the process
ids. A node whose parts have failed, or on which containers can't have a view of their own, is not ready, and says why.
"""

from __future__ import annotations

from typing import Final

from pilothouse.node.machine import Room
from pilothouse.supervise.surveying import Survey

LIMITS: Final = "pilothouse.io/LimitsEnforced"
LEAST_MEMORY: Final = 100 * 1024 * 1024
LEAST_DISK: Final = 0.10
ENOUGH_DISK: Final = 2**30
"""On a large disk a tenth is more than anybody needs."""
LEAST_FILES: Final = 0.05
LEAST_PROCESSES: Final = 0.10


def shortages(room: Room) -> dict[str, str]:
    """What there is too little of, in words, by the condition that says so."""
    found = {}
    if room.memory < LEAST_MEMORY:
        found["MemoryPressure"] = (
            f"{_mib(room.memory)} of memory left; below {_mib(LEAST_MEMORY)} pods are evicted"
        )
    least = min(int(room.disk_size * LEAST_DISK), ENOUGH_DISK)
    if room.disk < least:
        found["DiskPressure"] = (
            f"{_mib(room.disk)} left on the disk of pods; it should be {_mib(least)} at least"
        )
    elif room.files_size and room.files < room.files_size * LEAST_FILES:
        found["DiskPressure"] = f"{room.files} of {room.files_size} inodes left on the disk of pods"
    if room.processes < room.processes_size * LEAST_PROCESSES:
        found["PIDPressure"] = f"{room.processes} of {room.processes_size} process ids left"
    return found


_WELL: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_SHORT: Final = {
    "MemoryPressure": "KubeletHasInsufficientMemory",
    "DiskPressure": "KubeletHasDiskPressure",
    "PIDPressure": "KubeletHasInsufficientPID",
}


def problems(survey: Survey, parts: str) -> str:
    """Why a node can't take pods; empty if it can. ``parts`` says which of its parts have failed."""
    view = "" if survey.view.allowed else f"containers can't have a view of their own here: {survey.view.why}"
    return "; ".join(each for each in (view, parts) if each)


def limits_condition(survey: Survey) -> dict[str, str]:
    """Whether limits of pods mean anything on this node."""
    missing = [f"{name}: {each.why}" for name, each in survey.limits.items() if not each.allowed]
    if missing:
        return _condition(LIMITS, False, "ControlGroupsUnavailable", "; ".join(missing))
    return _condition(LIMITS, True, "ControlGroups", "limits are enforced by control groups")


def conditions(room: Room, problems: str) -> list[dict[str, str]]:
    """How a node is; ``problems`` says why it can't take pods, if it can't."""
    short = shortages(room)
    told = []
    for kind, (reason, message) in _WELL.items():
        if kind in short:
            told.append(_condition(kind, True, _SHORT[kind], short[kind]))
        else:
            told.append(_condition(kind, False, reason, message))
    if problems:
        told.append(_condition("Ready", False, "KubeletNotReady", problems))
    else:
        told.append(_condition("Ready", True, "KubeletReady", "kubelet is posting ready status"))
    return told


def _condition(kind: str, value: bool, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": "True" if value else "False", "reason": reason, "message": message}


def _mib(amount: int) -> str:
    return f"{amount // (1024 * 1024)} MiB"
