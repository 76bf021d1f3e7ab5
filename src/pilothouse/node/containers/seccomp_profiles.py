"""Which system calls a container may make: the filter that its ``seccompProfile`` comes to.

    seccomp_filter(pod, container, ("CHOWN",), profiles=Path("/var/lib/pilothouse/node/seccomp"))

The container's own profile goes before the pod's. Without one it is ``RuntimeDefault``, as a kubelet's with ``--seccomp-default``. Privileged
containers are not confined. A ``Localhost`` profile is a JSON file below ``profiles``.
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
    """Whether filters are known for this machine's architecture."""
    return _MACHINE in TABLES


def seccomp_filter(
    pod: Object, container: Tree, capabilities: tuple[str, ...], profiles: Path, *, shared_user: bool = False
) -> bytes:
    """A program for ``Launch.seccomp``; empty for none. Raises ``NotReady`` for a profile that isn't there or is none.

    ``shared_user`` says whether all pods have the agent's own id.
    """
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
        raise NotReady(
            _ERROR,
            f'localhostProfile "{name}" is no path below the folder {profiles}; write it without / and ..',
        )
    try:
        return parsed((profiles / name).read_bytes())
    except OSError as problem:
        raise NotReady(
            _ERROR,
            f'cannot load seccomp profile "{profiles / name}": {problem.strerror}; put it on this node',
        ) from None


@lru_cache(maxsize=64)
def _compiled(profile: SeccompProfile, capabilities: tuple[str, ...]) -> bytes:
    return compiled(profile, _MACHINE, capabilities, kernel=_kernel())


def _kernel() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
