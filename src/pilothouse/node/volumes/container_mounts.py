"""The volume mounts of a container.

    mounts(container, prepared, env, held=folder, private=PrivateDirectories(("/var/lib/pilothouse",)))

File owners in a volume appear as they are on disk, also in user namespaces. In a path of the machine the
node's own directories are covered by empty ones.

A ``subPath`` is resolved without trusting the volume's content. Root bind-mounts what was opened to a
directory of the node's own, so that replacing the path has no effect. An agent that can't mount passes on the
resolved path, and mounting follows no link on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Tree
from pilothouse.node.containers.environment import expanded
from pilothouse.node.interfaces import PreparedVolume, VolumeNotReady
from pilothouse.node.volumes.mount_table import BIND, at, mount, unmount
from pilothouse.node.volumes.mount_table import mounts as mounted_now
from pilothouse.node.volumes.private_directories import PrivateDirectories
from pilothouse.node.volumes.subpaths import SubpathError, opened
from pilothouse.supervise.launch_spec import Mount

_FAILED: Final = "CreateContainerConfigError"


def mounts(
    container: Tree,
    prepared: Mapping[str, PreparedVolume],
    env: Mapping[str, str],
    held: Path | None,
    private: PrivateDirectories,
) -> list[Mount]:
    """``held``: the directory for bind mounts of subpaths; None without root. Raises VolumeNotReady."""
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
                why = f"volumeMounts[{index}]: {real} belongs to the node itself and can't be mounted"
                raise VolumeNotReady(_FAILED, why)
            found += [
                Mount("private", os.path.join(each["mountPath"], below), kind="tmpfs", read_only=True)
                for below in private.below(real)
            ]
    return found


def _part(each: Tree, env: Mapping[str, str], index: int) -> str:
    """The ``subPath`` of a mount; empty for the whole volume."""
    if not each.get("subPathExpr"):
        return each.get("subPath") or ""
    part = expanded(each["subPathExpr"], env)
    if "$(" in part:
        where, text = f"volumeMounts[{index}].subPathExpr", each["subPathExpr"]
        raise VolumeNotReady(_FAILED, f"{where}: {text!r} names a variable that the container doesn't have")
    return part


def _within(volume: Path, part: str, hold: Path | None, asked: Tree) -> tuple[Path, Path]:
    """The path to mount, and where it really is."""
    try:
        with opened(volume, part) as handle:
            real = Path(os.readlink(f"/proc/self/fd/{handle}"))
            return (real if hold is None else _bind(handle, hold)), real
    except SubpathError as problem:
        raise VolumeNotReady(_FAILED, _unexpanded(str(problem), part, asked)) from None
    except OSError as problem:
        message = f"subPath {part!r}: {problem.filename or volume}: {problem.strerror}"
        raise VolumeNotReady(_FAILED, _unexpanded(message, part, asked)) from None


def _unexpanded(message: str, part: str, asked: Tree) -> str:
    """The message with the path as the manifest writes it: a variable in it may hold a Secret's value."""
    written = asked.get("subPathExpr")
    if not written:
        return message
    for known in sorted({part, *part.split("/")} - {"", ".", ".."}, key=len, reverse=True):
        message = message.replace(known, written)
    return message


def _bind(handle: int, hold: Path) -> Path:
    """Bind-mount what is open, in place of what an earlier start of the container had there."""
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
