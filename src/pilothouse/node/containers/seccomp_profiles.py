"""The seccomp filter of a container, from its ``seccompProfile``.

    seccomp_filter(pod, container, ("CHOWN",), profiles=Path("/var/lib/pilothouse/node/seccomp"))

The container's profile overrides the pod's; the default is ``RuntimeDefault``, as with kubelet's
``--seccomp-default``. A privileged container has none. A ``Localhost`` profile is a JSON file below
``profiles``.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Object, Tree
from pilothouse.node.interfaces import NotReady
from pilothouse.supervise.seccomp import ProfileError, SeccompProfile, compiled, parsed
from pilothouse.supervise.seccomp_default import RUNTIME_DEFAULT, SHARED_USER_DEFAULT
from pilothouse.supervise.syscalls import TABLES

_ERROR: Final = "CreateContainerError"
_MACHINE: Final = os.uname().machine


def is_enforced() -> bool:
    """Whether this machine's architecture is supported."""
    return _MACHINE in TABLES


def seccomp_filter(
    pod: Object, container: Tree, capabilities: tuple[str, ...], profiles: Path, *, shared_user: bool = False
) -> bytes:
    """The program for ``LaunchSpec.seccomp``; empty for none. ``shared_user``: all pods run with the agent's
    user id. Raises ``NotReady`` for a missing or invalid profile."""
    own = container.get("securityContext") or {}
    asked = own.get("seccompProfile") or (pod.spec.get("securityContext") or {}).get("seccompProfile") or {}
    kind = asked.get("type") or "RuntimeDefault"
    if own.get("privileged") or kind == "Unconfined":
        return b""
    if kind == "RuntimeDefault":
        return _compiled(SHARED_USER_DEFAULT if shared_user else RUNTIME_DEFAULT, capabilities)
    name = asked.get("localhostProfile") or ""
    try:
        return _compiled(_read(profiles, name), capabilities)
    except ProfileError as problem:
        raise NotReady(_ERROR, f'seccomp profile "{name}" {problem}') from None


def _read(profiles: Path, name: str) -> SeccompProfile:
    if not name or name.startswith("/") or ".." in name.split("/"):
        message = f'localhostProfile "{name}" must be a relative path below {profiles}, without ".."'
        raise NotReady(_ERROR, message)
    try:
        return parsed((profiles / name).read_bytes())
    except OSError as problem:
        message = f'cannot load seccomp profile "{profiles / name}": {problem.strerror}; put it on this node'
        raise NotReady(_ERROR, message) from None


@lru_cache(maxsize=64)
def _compiled(profile: SeccompProfile, capabilities: tuple[str, ...]) -> bytes:
    return compiled(profile, _MACHINE, capabilities, kernel=_kernel())


def _kernel() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
