"""Who a container runs as, and with which rights.

    user(pod, container, "999:999", Agent(uid=0, gid=0))       # User(uid=999, gid=999, groups=(2000,))
    capabilities(container)                                      # None: all that the agent has

The container's own word goes before the pod's, and that before the image's. Only root can become somebody else: on an agent
that is not root, a pod that asks for another user waits and says so.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.node.parts import NotYet
from pilothouse.supervise.launching import User

_ERROR: Final = "CreateContainerConfigError"
DEFAULT_CAPABILITIES: Final = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
)
"""What containers have elsewhere, unless they ask for more or less."""


class Self(msgspec.Struct, frozen=True):
    """Who the agent is."""

    uid: int
    gid: int

    @property
    def is_root(self) -> bool:
        return self.uid == 0


def user(pod: Object, container: Tree, image_user: str, agent: Self) -> User | None:
    """None for the agent itself. Raises ``NotYet``."""
    of_pod: Mapping[str, Any] = pod.spec.get("securityContext") or {}
    own: Mapping[str, Any] = container.get("securityContext") or {}
    image_uid, image_gid = _of_image(image_user)
    uid = _first(own.get("runAsUser"), of_pod.get("runAsUser"), image_uid)
    gid = _first(own.get("runAsGroup"), of_pod.get("runAsGroup"), image_gid)
    groups = set(of_pod.get("supplementalGroups") or ())
    if of_pod.get("fsGroup") is not None:
        groups.add(of_pod["fsGroup"])
    effective = agent.uid if uid is None else uid
    if _first(own.get("runAsNonRoot"), of_pod.get("runAsNonRoot")) and effective == 0:
        raise NotYet(
            _ERROR,
            f'container "{container["name"]}" has runAsNonRoot and would run as root; '
            "set runAsUser to a user other than 0",
        )
    if gid is None and uid is not None:
        gid = _group_of(uid)
    if not agent.is_root:
        _check_same(container, agent, uid, gid)
        return None
    if uid is None and gid is None and not groups:
        return None
    return User(effective, agent.gid if gid is None else gid, tuple(sorted(groups)))


def capabilities(container: Tree, agent: Self) -> tuple[str, ...] | None:
    """Those that a container may have; None for all of the agent's."""
    own = container.get("securityContext") or {}
    if own.get("privileged") or not agent.is_root:
        return None
    asked = own.get("capabilities") or {}
    added = {_short(name) for name in asked.get("add") or ()}
    dropped = {_short(name) for name in asked.get("drop") or ()}
    if "ALL" in added:
        return None if not dropped else tuple(sorted(set(DEFAULT_CAPABILITIES) - dropped))
    kept = set() if "ALL" in dropped else set(DEFAULT_CAPABILITIES) - dropped
    return tuple(sorted(kept | added))


def no_new_privileges(container: Tree) -> bool:
    return (container.get("securityContext") or {}).get("allowPrivilegeEscalation") is False


def _check_same(container: Tree, agent: Self, uid: int | None, gid: int | None) -> None:
    for field, asked, has in (("runAsUser", uid, agent.uid), ("runAsGroup", gid, agent.gid)):
        if asked is not None and asked != has:
            raise NotYet(
                _ERROR,
                f'container "{container["name"]}" is to run with {field} {asked}, but this node\'s agent is '
                f"not root and can only run it as {has}; run the agent as root, or leave {field} out",
            )


def _of_image(text: str) -> tuple[int | None, int | None]:
    if not text:
        return None, None
    who, _, group = text.partition(":")
    uid, gid = _uid(who), _gid(group) if group else None
    return uid, gid


def _uid(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise NotYet(_ERROR, f'the image runs as user "{text}", whom this machine does not know') from None


def _gid(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise NotYet(_ERROR, f'the image runs as group "{text}", which this machine does not know') from None


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _short(name: str) -> str:
    return name.upper().removeprefix("CAP_")
