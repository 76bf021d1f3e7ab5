"""Checks names from the API that become file names.

    bad_names(pod)                  # ["spec.volumes[0].name: …"], or [] for a valid pod
    component("web")                # "web"; ValueError for "../etc"

The API server admits only valid names, but an attacker who controls it must not name files outside the pods'
directories: the agent may be root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pilothouse.api.objects import Object
from pilothouse.meta.names import label

_IS_UID: Final = re.compile("[0-9A-Za-z][-0-9A-Za-z]{0,63}").fullmatch
_LISTS: Final = ("volumes", "initContainers", "containers", "ephemeralContainers")
_SHOWN: Final = 80


def is_uid(uid: object) -> bool:
    """Whether a uid is safe as a directory name: letters, digits and dashes."""
    return isinstance(uid, str) and _IS_UID(uid) is not None


def bad_names(pod: Object) -> list[str]:
    """The errors in a pod's uid and in the names of its containers and volumes."""
    return list(_bad_names(pod))


def _bad_names(pod: Object) -> Iterator[str]:
    if not is_uid(pod.uid):
        yield f"metadata.uid: {_shown(pod.uid)} must be at most 64 letters, digits and '-'"
    for field in _LISTS:
        for number, each in enumerate(pod.spec.get(field) or ()):
            name = each.get("name")
            if problem := label(name) if isinstance(name, str) else "must be a text":
                yield f"spec.{field}[{number}].name: {_shown(name)}: {problem}"


def component(name: str) -> str:
    """The name, if it is a single path component. Raises ValueError."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{_shown(name)} is not a valid file name")
    return name


def _shown(name: Any) -> str:
    return repr(name)[:_SHOWN]
