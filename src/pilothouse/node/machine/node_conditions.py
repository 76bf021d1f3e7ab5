"""The conditions of a node: readiness, resource pressure, and which features the machine supports.

    conditions(room, problems(survey, ""))          # Ready, MemoryPressure, DiskPressure, PIDPressure
    limits_condition(survey)                        # whether resource limits are enforced, and if not, why
    users_condition(survey, accepted=False)         # whether pods run in user namespaces

Thresholds are kubelet's: 100 MiB of memory, a tenth of the disk (at most 1 GiB), a twentieth of its inodes, a
tenth of the process ids.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pilothouse.node.machine.machine_info import AvailableResources
from pilothouse.supervise.machine_survey import MachineSurvey

LIMITS: Final = "pilothouse.io/LimitsEnforced"
USERS: Final = "pilothouse.io/UserNamespaces"
SECCOMP: Final = "pilothouse.io/SeccompEnforced"
MEMORY_THRESHOLD: Final = 100 * 1024 * 1024
DISK_THRESHOLD: Final = 0.10
LARGEST_DISK_THRESHOLD: Final = 2**30
"""The threshold on a large disk, where a tenth is more than needed."""
INODES_THRESHOLD: Final = 0.05
PIDS_THRESHOLD: Final = 0.10


class ResourcePressure(msgspec.Struct, frozen=True):
    """A resource that is below its eviction threshold."""

    resource: str
    """Kubelet's name of it."""
    missing: int
    """Bytes, inodes or process ids below the threshold."""
    message: str


def resource_pressures(room: AvailableResources) -> dict[str, ResourcePressure]:
    """The resources below their thresholds, by condition type."""
    found = {}
    if room.memory < MEMORY_THRESHOLD:
        message = _threshold(_mib(MEMORY_THRESHOLD), _mib(room.memory))
        found["MemoryPressure"] = ResourcePressure("memory", MEMORY_THRESHOLD - room.memory, message)
    disk = min(int(room.disk_size * DISK_THRESHOLD), LARGEST_DISK_THRESHOLD)
    files = int(room.files_size * INODES_THRESHOLD)
    if room.disk < disk:
        message = _threshold(_mib(disk), _mib(room.disk))
        found["DiskPressure"] = ResourcePressure("ephemeral-storage", disk - room.disk, message)
    elif room.files < files:
        message = _threshold(str(files), str(room.files))
        found["DiskPressure"] = ResourcePressure("inodes", files - room.files, message)
    processes = int(room.processes_size * PIDS_THRESHOLD)
    if room.processes < processes:
        message = _threshold(str(processes), str(room.processes))
        found["PIDPressure"] = ResourcePressure("pids", processes - room.processes, message)
    return found


_NO_PRESSURE: Final = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_PRESSURE: Final = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}


def problems(survey: MachineSurvey, parts: str) -> str:
    """Why a node is not ready; empty if it is. ``parts`` says which of its parts have failed."""
    view = "" if survey.view.allowed else f"containers can't have namespaces of their own: {survey.view.why}"
    return "; ".join(each for each in (view, parts) if each)


def limits_condition(survey: MachineSurvey) -> dict[str, str]:
    """Whether this node enforces the resource limits of pods."""
    missing = [f"{name}: {each.why}" for name, each in survey.limits.items() if not each.allowed]
    if missing:
        return _condition(LIMITS, False, "ControlGroupsUnavailable", "; ".join(missing))
    return _condition(LIMITS, True, "ControlGroups", "limits are enforced by control groups")


def users_condition(survey: MachineSurvey, accepted: bool) -> dict[str, str]:
    """Whether pods of a root agent run in user namespaces; ``accepted``: they may run without."""
    if survey.ids.allowed:
        return _condition(USERS, True, "UserNamespaces", "pods run in user namespaces")
    if accepted:
        then = "pods run with the machine's user ids (--allow-host-users)"
    else:
        then = "only pods with hostUsers: true run, unless the node is started with --allow-host-users"
    why = f"pods can't run in user namespaces: {survey.ids.why}; {then}"
    return _condition(USERS, False, "UserNamespacesUnavailable", why)


def seccomp_condition(enforced: bool) -> dict[str, str]:
    if enforced:
        return _condition(SECCOMP, True, "Seccomp", "seccomp profiles of containers are enforced")
    why = "seccomp is supported on x86_64 and aarch64 only"
    return _condition(SECCOMP, False, "ArchitectureUnknown", why)


def conditions(room: AvailableResources, problems: str) -> list[dict[str, str]]:
    """The node's conditions; ``problems`` says why it is not ready, if it isn't."""
    short = resource_pressures(room)
    found = []
    for kind, (reason, message) in _NO_PRESSURE.items():
        if kind in short:
            reason, message = _PRESSURE[kind]
            found.append(_condition(kind, True, reason, f"{message}. {short[kind].message}"))
        else:
            found.append(_condition(kind, False, reason, message))
    if problems:
        found.append(_condition("Ready", False, "KubeletNotReady", problems))
    else:
        found.append(_condition("Ready", True, "KubeletReady", "kubelet is posting ready status"))
    return found


def _condition(kind: str, value: bool, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": "True" if value else "False", "reason": reason, "message": message}


def _threshold(threshold: str, available: str) -> str:
    return f"Threshold quantity: {threshold}, available: {available}"


def _mib(amount: int) -> str:
    return f"{amount // (1024 * 1024)}Mi"
