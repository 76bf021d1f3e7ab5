"""What this machine is and has, for its Node.

machine = read_machine_info(settings)
machine.capacity["memory"], machine.info["kernelVersion"]
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

import pilothouse
from pilothouse.base.architectures import go_architecture
from pilothouse.base.quantity import parse_quantity
from pilothouse.node.settings import NodeSettings
from pilothouse.supervise.process_identity import boot_id

VERSION: Final = "v1.32.0"
"""The kubelet version whose behaviour the node has, for schedulers and kubectl."""


class MachineInfo(msgspec.Struct, frozen=True):
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    info: Mapping[str, str]


class AvailableResources(msgspec.Struct, frozen=True):
    memory: int
    disk: int
    disk_size: int
    files: int
    files_size: int
    processes: int
    processes_size: int


def read_machine_info(settings: NodeSettings) -> MachineInfo:
    arch = go_architecture(platform.machine())
    labels = {
        "kubernetes.io/hostname": settings.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": arch,
        **settings.labels,
    }
    disk = os.statvfs(_existing(settings.data))
    capacity = {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": f"{_meminfo()['MemTotal'] // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "pods": str(settings.max_pods),
        **settings.capacity,
    }
    info = {
        "machineID": _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id"),
        "systemUUID": _text("/sys/class/dmi/id/product_uuid") or _text("/etc/machine-id"),
        "bootID": boot_id(),
        "kernelVersion": platform.release(),
        "osImage": _os_image(),
        "operatingSystem": "linux",
        "architecture": arch,
        "containerRuntimeVersion": f"pilothouse://{pilothouse.__version__}",
        "kubeletVersion": f"{VERSION}+pilothouse{pilothouse.__version__}",
        "kubeProxyVersion": "",
    }
    return MachineInfo(labels, capacity, allocatable(capacity, settings.reserved), info)


def read_available_resources(folder: Path) -> AvailableResources:
    """The available resources, on the disk of a directory and of the machine."""
    disk = os.statvfs(_existing(folder))
    used = len([each for each in os.listdir("/proc") if each.isdigit()])
    most = int(_text("/proc/sys/kernel/pid_max") or 32768)
    return AvailableResources(
        memory=_meminfo()["MemAvailable"],
        disk=disk.f_bavail * disk.f_frsize,
        disk_size=disk.f_blocks * disk.f_frsize,
        files=disk.f_favail,
        files_size=disk.f_files,
        processes=most - used,
        processes_size=most,
    )


def allocatable(capacity: Mapping[str, str], reserved: Mapping[str, str]) -> dict[str, str]:
    """The capacity without what is reserved."""
    left = dict(capacity)
    for name, amount in reserved.items():
        if name in left:
            rest = parse_quantity(left[name]) - parse_quantity(amount)
            left[name] = str(max(rest, parse_quantity("0")))
    return left


def _meminfo() -> dict[str, int]:
    """In bytes."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()
        if number:
            found[name] = int(number[0]) * 1024
    return found


def _os_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')
    return "Linux"


def _text(path: str) -> str:
    """The content of a file; empty if it is missing or unreadable."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
