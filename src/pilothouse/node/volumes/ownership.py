"""The ownership of a volume's files: ``fsGroup``, and the user that a pod runs as.

As in kubelet, all files get the group, which may read and write them, and directories pass it on.
``OnRootMismatch`` skips a volume whose top directory is right. Only root can do this; under another agent all
processes of pods run as its user.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.node.files.directory_handles import (
    ANY,
    change_mode,
    change_owner,
    closing_handle,
    open_directory,
    walk,
)
from pilothouse.node.files.walk_limits import Meter, WalkLimit, WalkTooLong

_FILE: Final = 0o660
_FOLDER: Final = 0o2770
_LIMIT: Final = WalkLimit(depth=4096, entries=10_000_000)
"""Beyond this the pod moves its files to keep us busy."""


def group_of(pod: Object) -> int | None:
    value = (pod.spec.get("securityContext") or {}).get("fsGroup")
    return None if value is None else int(value)


def user_of(pod: Object) -> int | None:
    """The user that all of the pod's containers run as; None if unset or several."""
    context = pod.spec.get("securityContext") or {}
    containers = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    users = {_user(each, context) for each in containers}
    return users.pop() if len(users) == 1 else None


def _user(container: Mapping[str, Any], context: Mapping[str, Any]) -> int | None:
    own = (container.get("securityContext") or {}).get("runAsUser")
    value = context.get("runAsUser") if own is None else own
    return None if value is None else int(value)


def set_group(volume: Path, group: int, *, only_on_mismatch: bool = False) -> None:
    """Give a volume's files to a group. Raises OSError; ELOOP for an endless tree.

    The pod may write to the volume meanwhile: files are changed by their handles, and no link is followed.
    """
    try:
        _set_group_of_all(volume, group, only_on_mismatch=only_on_mismatch)
    except WalkTooLong as problem:
        raise OSError(errno.ELOOP, f"its files can't be given to fsGroup: {problem}", str(volume)) from None


def _set_group_of_all(volume: Path, group: int, *, only_on_mismatch: bool) -> None:
    with open_directory(volume, follow=True) as top:
        found = os.fstat(top)
        if only_on_mismatch and found.st_gid == group and found.st_mode & _FOLDER == _FOLDER:
            return
        for entry in walk(top, meter=Meter(_LIMIT)):
            try:
                handle = os.open(entry.name, ANY, dir_fd=entry.folder)
            except FileNotFoundError:
                continue  # Removed meanwhile.
            with closing_handle(handle):
                _set_group(handle, group)
        # Last, so that ``OnRootMismatch`` doesn't skip a volume where this was interrupted.
        _set_group(top, group)


def _set_group(handle: int, group: int) -> None:
    mode = os.fstat(handle).st_mode
    change_owner(handle, -1, group)
    if not stat.S_ISLNK(mode):
        change_mode(handle, stat.S_IMODE(mode) | (_FOLDER if stat.S_ISDIR(mode) else _FILE))
