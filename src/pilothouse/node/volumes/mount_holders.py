"""Finds processes in other mount namespaces that have a directory mounted: containers, of any agent, that use
a volume.

    for pid in mount_users(Path("/mnt/fast/pvc-1234")): ...
    pods_folder_of(pid)                 # "/var/lib/pilothouse/node/pods": of the agent that has started it

Pods keep running without their agent, so its lock doesn't say whether a volume is in use. One process is read
for each mount namespace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.node.volumes.mount_table import mount_lines, plain_path

_PROC: Final = Path("/proc")
_MOST_PARENTS: Final = 64
_SHIM: Final = b"pilothouse.supervise.shim.shim_main"


class _Place(msgspec.Struct, frozen=True):
    """A path in a filesystem: the device, as ``major:minor``, and the path from its root."""

    device: str
    root: str

    def holds(self, other: _Place) -> bool:
        within = other.root == self.root or other.root.startswith(self.root.rstrip("/") + "/")
        return other.device == self.device and within


class _Mount(msgspec.Struct, frozen=True):
    place: _Place
    target: str


def mount_users(folder: Path) -> Iterator[int]:
    """A process of each other mount namespace that has something in the directory mounted."""
    here = _mounts("self")
    places = _places(folder, here)
    known = set(here)
    seen = {_namespace("self")}
    for entry in os.listdir(_PROC):
        if not entry.isdigit() or (namespace := _namespace(entry)) in seen or not namespace:
            continue
        seen.add(namespace)
        mounted = [each.place for each in _mounts(entry) if each not in known]
        if any(place.holds(each) for place in places for each in mounted):
            yield int(entry)


def pods_folder_of(pid: int) -> str:
    """The pods directory of the agent whose container a process is in; empty if it is in none of ours."""
    folder = pod_folder_of(pid)
    return str(folder.parent) if folder is not None else ""


def pod_folder_of(pid: int) -> Path | None:
    """The directory of the pod whose container a process is in; None if it is in none of ours."""
    for _ in range(_MOST_PARENTS):
        try:
            arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
            parent = _parent(pid)
        except OSError:
            return None
        # A container's program may have any arguments, but is not in our own mount namespace.
        if any(_SHIM in each for each in arguments) and _namespace(str(pid)) == _namespace("self"):
            return _pod_folder(arguments)
        if parent <= 1:
            return None
        pid = parent
    return None


def _pod_folder(arguments: list[bytes]) -> Path | None:
    """From a shim's arguments, of which the last is ``PODS/<uid>/containers/<name>/<attempt>``."""
    folder = Path(os.fsdecode(next(filter(None, reversed(arguments)))))
    return folder.parents[2] if len(folder.parents) > 3 else None


def _places(folder: Path, here: list[_Mount]) -> list[_Place]:
    """Where the directory is, and the filesystems that are mounted in it."""
    path = os.path.realpath(folder)
    above = [each for each in here if path == each.target or path.startswith(each.target.rstrip("/") + "/")]
    within = [each for each in here if each.target.startswith(path + "/")]
    places = [each.place for each in within]
    if above:
        # The last mount hides those before it.
        holder = max(enumerate(above), key=lambda each: (len(each[1].target), each[0]))[1]
        rest = os.path.relpath(path, holder.target)
        places.append(_Place(holder.place.device, os.path.normpath(os.path.join(holder.place.root, rest))))
    return places


def _mounts(process: str) -> list[_Mount]:
    try:
        lines = mount_lines(_PROC / process / "mountinfo")
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split(" ")
        found.append(_Mount(_Place(fields[2], plain_path(fields[3])), plain_path(fields[4])))
    return found


def _namespace(process: str) -> str:
    """The mount namespace of a process; empty if it has ended, or is another user's."""
    try:
        return os.readlink(_PROC / process / "ns" / "mnt")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    content = (_PROC / str(pid) / "stat").read_bytes()
    # The name, in parentheses, may contain parentheses and spaces.
    return int(content[content.rindex(b")") + 2 :].split()[1])
