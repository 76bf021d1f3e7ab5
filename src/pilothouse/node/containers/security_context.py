"""The security context of a container: its user, groups and capabilities.

    user(pod, container, "999:999", AgentIdentity(uid=0, gid=0))  # ProcessUser(uid=999, gid=999, groups=())
    capabilities(container)                                       # ("AUDIT_WRITE", "CHOWN", …)

The container's setting overrides the pod's, and that the image's. Only a root agent can change the user;
under any other, the container sees the agent's own id under the number it asks for.
"""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Mapping
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
"""The default capabilities of containerd and Docker."""


class AgentIdentity(msgspec.Struct, frozen=True):
    uid: int
    gid: int

    @property
    def is_root(self) -> bool:
        return self.uid == 0


def user(pod: Object, container: Tree, image_user: str, agent: AgentIdentity) -> ProcessUser | None:
    """The user of a container; None for the user of an agent that isn't root. Raises ``NotReady``."""
    of_pod: Mapping[str, Any] = pod.spec.get("securityContext") or {}
    own: Mapping[str, Any] = container.get("securityContext") or {}
    image_uid, image_gid = _of_image(image_user)
    uid = _first(own.get("runAsUser"), of_pod.get("runAsUser"), image_uid)
    gid = _first(own.get("runAsGroup"), of_pod.get("runAsGroup"), image_gid)
    effective = agent.uid if uid is None else uid
    if _first(own.get("runAsNonRoot"), of_pod.get("runAsNonRoot")) and effective == 0:
        message = f'container "{container["name"]}" has runAsNonRoot and image will run as root; '
        raise NotReady(_ERROR, f"{message}set runAsUser to a user other than 0")
    if gid is None and uid is not None:
        gid = _group_of(uid)
    if not agent.is_root:
        # An unprivileged user namespace maps one id; supplementary groups would need further ones.
        if uid is None and gid is None:
            return None
        return ProcessUser(effective, agent.gid if gid is None else gid)
    groups = set(of_pod.get("supplementalGroups") or ())
    if of_pod.get("fsGroup") is not None:
        groups.add(of_pod["fsGroup"])
    return ProcessUser(effective, agent.gid if gid is None else gid, tuple(sorted(groups)))


def capabilities(container: Tree) -> tuple[str, ...]:
    """The capabilities of a container, inside its user namespace if it has one."""
    own = container.get("securityContext") or {}
    if own.get("privileged"):
        return tuple(sorted(CAPABILITIES))
    added, dropped = _listed(own, "add"), _listed(own, "drop")
    kept = set(CAPABILITIES if "ALL" in added else DEFAULT_CAPABILITIES)
    if "ALL" in dropped:
        kept = set()
    return tuple(sorted((kept | added - {"ALL"}) - dropped))


def no_new_privileges(container: Tree) -> bool:
    """False if ``allowPrivilegeEscalation`` is true or implied."""
    own = container.get("securityContext") or {}
    escalates = (
        own.get("privileged") or own.get("allowPrivilegeEscalation") or "SYS_ADMIN" in _listed(own, "add")
    )
    return not escalates


def is_masked(container: Tree) -> bool:
    """Whether sensitive paths of /proc and /sys are masked."""
    own = container.get("securityContext") or {}
    return not own.get("privileged") and own.get("procMount") != "Unmasked"


def has_host_users(pod: Object) -> bool:
    """Whether the pod uses the machine's user namespace. Unset means no."""
    return pod.spec.get("hostUsers") is True


def _of_image(text: str) -> tuple[int | None, int | None]:
    if not text:
        return None, None
    user, _, group = text.partition(":")
    uid = _image_id(user, "user", lambda name: pwd.getpwnam(name).pw_uid)
    return uid, _image_id(group, "group", lambda name: grp.getgrnam(name).gr_gid) if group else None


def _image_id(text: str, kind: str, look_up: Callable[[str], int]) -> int:
    try:
        return int(text) if text.isdigit() else look_up(text)
    except KeyError:
        raise NotReady(_ERROR, f'unable to find {kind} "{text}" of the image on this machine') from None


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return 0


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _listed(context: Mapping[str, Any], change: str) -> set[str]:
    names = (context.get("capabilities") or {}).get(change) or ()
    return {name.upper().removeprefix("CAP_") for name in names}
