"""Names from the API that become names of files: checked where they enter the agent.

    bad_names(pod)                  # ["spec.volumes[0].name: …"], or [] for a pod that can be kept
    component("web")                # "web"; ValueError for "../etc"

An API server admits only such names. But the agent may be root, and an API server need not be: whoever has taken one over
must not name files outside of the folders that the agent keeps for pods.
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
    """Whether a uid can be the name of a folder: letters, digits and dashes, as every server makes them."""
    return isinstance(uid, str) and _IS_UID(uid) is not None


def bad_names(pod: Object) -> list[str]:
    """What is wrong with the uid of a pod and with the names of its containers and volumes."""
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
    """A name that is one part of a path, and leads nowhere else. Raises ValueError."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{_shown(name)} is no name of a file")
    return name


def _shown(name: Any) -> str:
    return repr(name)[:_SHOWN]
