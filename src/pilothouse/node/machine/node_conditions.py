"""How a node is: whether it can take pods, and what it runs short of.

    conditions(room, problems(survey, ""))        # Ready, MemoryPressure, DiskPressure, PIDPressure
    limits_condition(survey)                        # whether limits are enforced, and if not, why
    users_condition(survey, accepted=False)         # whether pods have user ids of their own

Thresholds are kubelet's: 100 MiB of memory, a tenth of the disk (but no more than 1 GiB), a twentieth of its inodes, a tenth of the process
ids. A node whose parts have failed, or on which containers can't have a view of their own, is not ready, and says why.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.node.machine.machine_info import AvailableResources
from pilothouse.supervise.machine_survey import MachineSurvey

LIMITS: Final = "pilothouse.io/LimitsEnforced"
USERS: Final = "pilothouse.io/UserNamespaces"
SECCOMP: Final = "pilothouse.io/SeccompEnforced"
LEAST_MEMORY: Final = 100 * 1024 * 1024
LEAST_DISK: Final = 0.10
ENOUGH_DISK: Final = 2**30
"""On a large disk a tenth is more than anybody needs."""
LEAST_FILES: Final = 0.05
LEAST_PROCESSES: Final = 0.10


class ResourcePressure(msgspec.Struct, frozen=True):
    """Something that there is too little of."""

    resource: str
    """In kubelet's words."""
    missing: int
    """Bytes, inodes or process ids, until there is enough."""
    message: str


def resource_pressures(room: AvailableResources) -> dict[str, ResourcePressure]:
    """What there is too little of, by the condition that says so."""
    found = {}
    if room.memory < LEAST_MEMORY:
        message = f"{_mib(room.memory)} of memory left; it should be {_mib(LEAST_MEMORY)} at least"
        found["MemoryPressure"] = ResourcePressure("memory", LEAST_MEMORY - room.memory, message)
    disk = min(int(room.disk_size * LEAST_DISK), ENOUGH_DISK)
    files = int(room.files_size * LEAST_FILES)
    if room.disk < disk:
        message = f"{_mib(room.disk)} left on the disk of pods; it should be {_mib(disk)} at least"
        found["DiskPressure"] = ResourcePressure("ephemeral-storage", disk - room.disk, message)
    elif room.files < files:
        message = f"{room.files} of {room.files_size} inodes left on the disk of pods"
        found["DiskPressure"] = ResourcePressure("inodes", files - room.files, message)
    processes = int(room.processes_size * LEAST_PROCESSES)
    if room.processes < processes:
        message = f"{room.processes} of {room.processes_size} process ids left"
        found["PIDPressure"] = ResourcePressure("pids", processes - room.processes, message)
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


def problems(survey: MachineSurvey, parts: str) -> str:
    """Why a node can't take pods; empty if it can. ``parts`` says which of its parts have failed."""
    view = "" if survey.view.allowed else f"containers can't have a view of their own here: {survey.view.why}"
    return "; ".join(each for each in (view, parts) if each)


def limits_condition(survey: MachineSurvey) -> dict[str, str]:
    """Whether limits of pods mean anything on this node."""
    missing = [f"{name}: {each.why}" for name, each in survey.limits.items() if not each.allowed]
    if missing:
        return _condition(LIMITS, False, "ControlGroupsUnavailable", "; ".join(missing))
    return _condition(LIMITS, True, "ControlGroups", "limits are enforced by control groups")


def users_condition(survey: MachineSurvey, accepted: bool) -> dict[str, str]:
    """Whether pods of an agent that is root have ids of their own; ``accepted`` says that they run even if not."""
    if survey.ids.allowed:
        return _condition(USERS, True, "UserNamespaces", "pods have user ids of their own")
    then = (
        "they run with the machine's own (--allow-host-users)"
        if accepted
        else "only pods with hostUsers: true run, unless it is started with --allow-host-users"
    )
    return _condition(
        USERS,
        False,
        "UserNamespacesUnavailable",
        f"pods can't have user ids of their own: {survey.ids.why}; {then}",
    )


def seccomp_condition(enforced: bool) -> dict[str, str]:
    """Whether system calls of containers are filtered."""
    if enforced:
        return _condition(SECCOMP, True, "Seccomp", "system calls of containers are filtered")
    return _condition(
        SECCOMP, False, "ArchitectureUnknown", "system call filters are known for x86_64 and aarch64 alone"
    )


def conditions(room: AvailableResources, problems: str) -> list[dict[str, str]]:
    """How a node is; ``problems`` says why it can't take pods, if it can't."""
    short = resource_pressures(room)
    told = []
    for kind, (reason, message) in _WELL.items():
        if kind in short:
            told.append(_condition(kind, True, _SHORT[kind], short[kind].message))
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
