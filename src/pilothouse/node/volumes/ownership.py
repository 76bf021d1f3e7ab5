"""Whose the files of a volume are: ``fsGroup``, and the one user that a pod runs as.

As in kubelet, everything in a volume is given to the group, which may read and write it, and folders hand the group on to what is made in
them. ``OnRootMismatch`` leaves a volume alone whose topmost folder is right already. Only root can do this; where the agent is not, every
process of the pod is the agent's user, whose the volumes are anyway.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pilothouse.api.objects import Object

_FILE: Final = 0o660
_FOLDER: Final = 0o2770


def group_of(pod: Object) -> int | None:
    """The pod's ``fsGroup``."""
    value = (pod.spec.get("securityContext") or {}).get("fsGroup")
    return None if value is None else int(value)


def user_of(pod: Object) -> int | None:
    """The user that all of the pod's containers run as; None if they don't say, or are several."""
    context = pod.spec.get("securityContext") or {}
    everyone = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    users = {_user(each, context) for each in everyone}
    return users.pop() if len(users) == 1 else None


def _user(container: Mapping[str, Any], context: Mapping[str, Any]) -> int | None:
    own = (container.get("securityContext") or {}).get("runAsUser")
    value = context.get("runAsUser") if own is None else own
    return None if value is None else int(value)


def give(volume: Path, group: int, *, only_on_mismatch: bool = False) -> None:
    """Have a volume's files belong to a group. Raises OSError."""
    top = volume.lstat()
    if only_on_mismatch and top.st_gid == group and top.st_mode & _FOLDER == _FOLDER:
        return
    for folder, names, files in os.walk(volume, topdown=False):
        for name in (*names, *files):
            _give(os.path.join(folder, name), group)
    # Last, so that a volume on which this was cut short is not taken for one where it was done.
    _give(str(volume), group)


def _give(path: str, group: int) -> None:
    try:
        found = os.lstat(path)
        os.chown(path, -1, group, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            more = _FOLDER if stat.S_ISDIR(found.st_mode) else _FILE
            os.chmod(path, stat.S_IMODE(found.st_mode) | more)
    except FileNotFoundError:
        return  # Whoever else uses the volume has removed it meanwhile.
