"""Whose the files of a volume are: ``fsGroup``, and the one user that a pod runs as.

As in kubelet, everything in a volume is given to the group, which may read and write it, and folders hand the group on to what is made in
them. ``OnRootMismatch`` leaves a volume alone whose topmost folder is right already. Only root can do this; where the agent is not, every
process of the pod is the agent's user, whose the volumes are anyway.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.node.files.directory_handles import ANY, change_mode, change_owner, open_directory, walk
from pilothouse.node.files.walk_limits import Meter, WalkLimit, WalkTooLong

_FILE: Final = 0o660
_FOLDER: Final = 0o2770
_GIVEN: Final = WalkLimit(depth=4096, entries=10_000_000)
"""Beyond this the files are moved about so as to keep us busy."""


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
    """Have a volume's files belong to a group. Raises OSError; for a tree without an end too (ELOOP).

    The volume is its pod's to write, also while this runs: files are changed by their handles, and no link is followed.
    """
    try:
        _give_all(volume, group, only_on_mismatch=only_on_mismatch)
    except WalkTooLong as problem:
        raise OSError(errno.ELOOP, f"its files can't be given to fsGroup: {problem}", str(volume)) from None


def _give_all(volume: Path, group: int, *, only_on_mismatch: bool) -> None:
    with open_directory(volume, follow=True) as top:
        found = os.fstat(top)
        if only_on_mismatch and found.st_gid == group and found.st_mode & _FOLDER == _FOLDER:
            return
        for entry in walk(top, meter=Meter(_GIVEN)):
            try:
                handle = os.open(entry.name, ANY, dir_fd=entry.folder)
            except FileNotFoundError:
                continue  # Another user of the volume has removed it meanwhile.
            try:
                _give(handle, group)
            finally:
                os.close(handle)
        # Last, so that a volume on which this was cut short is not taken for one where it was done.
        _give(top, group)


def _give(handle: int, group: int) -> None:
    mode = os.fstat(handle).st_mode
    change_owner(handle, -1, group)
    if not stat.S_ISLNK(mode):
        change_mode(handle, stat.S_IMODE(mode) | (_FOLDER if stat.S_ISDIR(mode) else _FILE))
