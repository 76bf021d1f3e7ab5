"""Where a container sees the volumes of its pod.

    mounts(container, prepared, env, held=folder, private=PrivateDirectories(("/var/lib/pilothouse",)))

Owners in a volume are shown as they are on disk, also to containers with ids of their own. In a path of the machine the node's own folders
are covered by empty ones, and no part of it leads into them.

A part of a volume (``subPath``) is opened without trusting what is in the volume, and then held fast: root binds what was opened to a folder of the
node's own, so that whoever exchanges the path afterwards exchanges nothing. An agent that may not mount passes on where in the volume it was
found, and what is mounted follows no link on that way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.api.objects import Tree
from pilothouse.node import interfaces
from pilothouse.node.containers.environment import expanded
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.mount_table import BIND, at, mount, unmount
from pilothouse.node.volumes.mount_table import mounts as mounted_now
from pilothouse.node.volumes.private_directories import PrivateDirectories
from pilothouse.node.volumes.subpaths import SubpathError, opened
from pilothouse.supervise.launch_spec import Mount

_FAILED: Final = "CreateContainerConfigError"


class MountableVolume(msgspec.Struct, frozen=True):
    """A volume that can be mounted: ``node.parts.Prepared``."""

    path: Path
    read_only: bool = False
    host: bool = False
    """A path of the machine that somebody has named, not a volume that the node made."""


def mounts(
    container: Tree,
    prepared: Mapping[str, interfaces.PreparedVolume],
    env: Mapping[str, str],
    held: Path | None,
    private: PrivateDirectories,
) -> list[Mount]:
    """The mounts of a container. ``held`` is the folder where parts of volumes are held fast, None if we may not. Raises VolumeNotReady."""
    found = []
    for index, each in enumerate(container.get("volumeMounts") or ()):
        volume = prepared.get(each["name"])
        if volume is None:
            raise VolumeNotReady(_FAILED, f'volumeMounts[{index}]: the pod has no volume "{each["name"]}"')
        source = real = volume.path
        part = ""
        if asked := _part(each, env, index):
            hold = held / str(index) if held is not None else None
            source, real = _within(volume.path, asked, hold, each)
            if hold is None:
                source = Path(os.path.realpath(volume.path))
                part = str(real.relative_to(source))
        found.append(
            Mount(
                source=str(source),
                target=each["mountPath"],
                part="" if part == "." else part,
                foreign=volume.host and not (held is not None and asked),
                read_only=volume.read_only or bool(each.get("readOnly")),
                is_file=not real.is_dir(),
                mapped=True,
            )
        )
        if volume.host:
            if private.hold(real):
                raise VolumeNotReady(_FAILED, f"volumeMounts[{index}]: {real} is the node's own")
            found += [
                Mount("private", os.path.join(each["mountPath"], below), kind="tmpfs", read_only=True)
                for below in private.below(real)
            ]
    return found


def _part(each: Tree, env: Mapping[str, str], index: int) -> str:
    """The part of the volume that is asked for; empty for all of it."""
    if not each.get("subPathExpr"):
        return each.get("subPath") or ""
    part = expanded(each["subPathExpr"], env)
    if "$(" in part:
        unknown = f"volumeMounts[{index}].subPathExpr: {each['subPathExpr']!r} names a variable that the container doesn't have"
        raise VolumeNotReady(_FAILED, unknown)
    return part


def _within(volume: Path, part: str, hold: Path | None, asked: Tree) -> tuple[Path, Path]:
    """What to mount, and where it really is."""
    try:
        with opened(volume, part) as handle:
            real = Path(os.readlink(f"/proc/self/fd/{handle}"))
            return (real if hold is None else _held(handle, hold)), real
    except SubpathError as problem:
        raise VolumeNotReady(_FAILED, _unexpanded(str(problem), part, asked)) from None
    except OSError as problem:
        message = f"subPath {part!r}: {problem.filename or volume}: {problem.strerror}"
        raise VolumeNotReady(_FAILED, _unexpanded(message, part, asked)) from None


def _unexpanded(message: str, part: str, asked: Tree) -> str:
    """The message with the path as the manifest has it: a variable in it may be a Secret's."""
    written = asked.get("subPathExpr")
    if not written:
        return message
    for known in sorted({part, *part.split("/")} - {"", ".", ".."}, key=len, reverse=True):
        message = message.replace(known, written)
    return message


def _held(handle: int, hold: Path) -> Path:
    """Bind what is open to a place of our own; what was held there for an earlier start of the container is let go."""
    source = f"/proc/self/fd/{handle}"
    while at(mounted_now(), hold) is not None:
        unmount(hold, lazily=True)
    hold.parent.mkdir(parents=True, exist_ok=True)
    if os.path.isdir(source):
        hold.mkdir(exist_ok=True)
    else:
        hold.touch()
    mount(source, hold, flags=BIND)
    return hold
