"""Which users are restricted: nodes, joining machines, and bearers of a token bound to a pod.

    identify(User("system:node:n1", groups=("system:nodes",)))                  # NodeUser("n1")
    identify(User("system:serviceaccount:t:db", extra={POD_NAME: ("db-0",)}))   # PodBoundUser(…)
    identify(User("system:bootstrap:abcdef", groups=("system:bootstrappers",))) # JoiningMachine(…)
    identify(User("alice"))                                                     # None

A node has the name *and* the group. The group with no valid node name is a node without a name, which may do
nothing. None depends on the user alone, not on objects, so it can be cached.
"""

from __future__ import annotations

import msgspec

from pilothouse.apiserver.server.messages import User
from pilothouse.base.node_names import is_node_name

NODES = "system:nodes"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
BOOTSTRAPPERS = "system:bootstrappers"
_NODE = "system:node:"
_BOOTSTRAP = "system:bootstrap:"
_ACCOUNT = "system:serviceaccount:"


class NodeUser(msgspec.Struct, frozen=True):
    """A machine. Without a name it may do nothing."""

    name: str


class JoiningMachine(msgspec.Struct, frozen=True):
    """A machine with a bootstrap token."""

    user: str


class PodBoundUser(msgspec.Struct, frozen=True):
    """A service account whose token is bound to a pod."""

    namespace: str
    account: str
    pod: str


Identity = NodeUser | JoiningMachine | PodBoundUser


def identify(user: User) -> Identity | None:
    """The identity by which a user may be restricted; None for all others."""
    if NODES in user.groups:
        name = user.name[len(_NODE) :] if user.name.startswith(_NODE) else ""
        return NodeUser(name if is_node_name(name) else "")
    if user.name.startswith(_BOOTSTRAP) and BOOTSTRAPPERS in user.groups:
        return JoiningMachine(user.name)
    if user.extra and (pods := user.extra.get(POD_NAME)) and user.name.startswith(_ACCOUNT):
        namespace, _, account = user.name[len(_ACCOUNT) :].partition(":")
        return PodBoundUser(namespace, account, pods[0])
    return None
