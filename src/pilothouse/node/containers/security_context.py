"""Who a container runs as, and with which rights.

    user(pod, container, "999:999", AgentIdentity(uid=0, gid=0))        # ProcessUser(uid=999, gid=999, groups=(2000,))
    capabilities(container)                                      # ("AUDIT_WRITE", "CHOWN", …)

The container's own word goes before the pod's, and that before the image's. Only root can become somebody else: under an agent that
is not root, a container that asks for another user is shown that number for the agent's own.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.node.interfaces import NotReady
from pilothouse.supervise.launch_spec import ProcessUser
from pilothouse.supervise.shim.process_setup import CAPABILITIES

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


class AgentIdentity(msgspec.Struct, frozen=True):
    """Who the agent is."""

    uid: int
    gid: int

    @property
    def is_root(self) -> bool:
        return self.uid == 0


def user(pod: Object, container: Tree, image_user: str, agent: AgentIdentity) -> ProcessUser | None:
    """None for the agent itself, where it isn't root. Raises ``NotReady``."""
    of_pod: Mapping[str, Any] = pod.spec.get("securityContext") or {}
    own: Mapping[str, Any] = container.get("securityContext") or {}
    image_uid, image_gid = _of_image(image_user)
    uid = _first(own.get("runAsUser"), of_pod.get("runAsUser"), image_uid)
    gid = _first(own.get("runAsGroup"), of_pod.get("runAsGroup"), image_gid)
    effective = agent.uid if uid is None else uid
    if _first(own.get("runAsNonRoot"), of_pod.get("runAsNonRoot")) and effective == 0:
        raise NotReady(
            _ERROR,
            f'container "{container["name"]}" has runAsNonRoot and would run as root; '
            "set runAsUser to a user other than 0",
        )
    if gid is None and uid is not None:
        gid = _group_of(uid)
    if not agent.is_root:
        # The one id that it has is shown with any number; a second one, as further groups would be, it can't have.
        if uid is None and gid is None:
            return None
        return ProcessUser(effective, agent.gid if gid is None else gid)
    groups = set(of_pod.get("supplementalGroups") or ())
    if of_pod.get("fsGroup") is not None:
        groups.add(of_pod["fsGroup"])
    return ProcessUser(effective, agent.gid if gid is None else gid, tuple(sorted(groups)))


def capabilities(container: Tree) -> tuple[str, ...]:
    """Those that a container may have, inside its user namespace where it has one."""
    own = container.get("securityContext") or {}
    if own.get("privileged"):
        return tuple(sorted(CAPABILITIES))
    asked = own.get("capabilities") or {}
    added = {_short(name) for name in asked.get("add") or ()}
    dropped = {_short(name) for name in asked.get("drop") or ()}
    kept = set(CAPABILITIES if "ALL" in added else DEFAULT_CAPABILITIES)
    if "ALL" in dropped:
        kept = set()
    return tuple(sorted((kept | added - {"ALL"}) - dropped))


def no_new_privileges(container: Tree) -> bool:
    """Whether a program that it starts never has more rights than itself: unless more is asked for in so many words."""
    own = container.get("securityContext") or {}
    if own.get("privileged") or own.get("allowPrivilegeEscalation"):
        return False
    added = {_short(name) for name in (own.get("capabilities") or {}).get("add") or ()}
    return "SYS_ADMIN" not in added


def is_masked(container: Tree) -> bool:
    """Whether the parts of /proc and /sys that speak of the whole machine are covered."""
    own = container.get("securityContext") or {}
    return not own.get("privileged") and own.get("procMount") != "Unmasked"


def has_host_users(pod: Object) -> bool:
    """Whether the pod has the machine's own ids. Unset means no."""
    return pod.spec.get("hostUsers") is True


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
        raise NotReady(_ERROR, f'the image runs as user "{text}", whom this machine does not know') from None


def _gid(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise NotReady(
            _ERROR, f'the image runs as group "{text}", which this machine does not know'
        ) from None


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _short(name: str) -> str:
    return name.upper().removeprefix("CAP_")
