"""The restriction of nodes and pilots, as an authorizer ahead of RBAC and as a check of writes.

    restriction = Restriction(cache, NodeClaims(cache, territory))
    Chain([Masters(), restriction, rbac])
    restriction.decide(user, attributes)      # allowed, denied, or no opinion about other users
    restriction.check(call, new, old)         # 403 for content beyond the writer's scope

What is in scope is allowed without a role, so the service account of pilots has no permissions itself.
``restricts`` is a cheap test: if False, there is no opinion about the user, whatever the objects.
"""

from __future__ import annotations

from typing import Any

from pilothouse.apiserver.authorization.authorizer import (
    MASTERS,
    NO_OPINION,
    Attributes,
    AuthorizationDecision,
)
from pilothouse.apiserver.authorization.restriction.bound_pods import BoundPods
from pilothouse.apiserver.authorization.restriction.identity import (
    POD_UID,
    JoiningMachine,
    NodeUser,
    PodBoundUser,
    identify,
)
from pilothouse.apiserver.authorization.restriction.kept_volumes import KeptVolumes
from pilothouse.apiserver.authorization.restriction.node_claims import NodeClaims
from pilothouse.apiserver.authorization.restriction.node_scope import NodeScope
from pilothouse.apiserver.authorization.restriction.node_writes import NodeWrites
from pilothouse.apiserver.authorization.restriction.pilot_index import PilotIndex
from pilothouse.apiserver.authorization.restriction.pilot_scope import PilotScope
from pilothouse.apiserver.authorization.restriction.pilot_writes import PilotWrites
from pilothouse.apiserver.authorization.restriction.storage_pool_nodes import StoragePoolNodes
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.server.messages import User
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta.kind import Object


class Restriction:
    def __init__(self, cache: WatchCache, claims: NodeClaims) -> None:
        self._pods = BoundPods(cache)
        self._pilots = PilotIndex(cache)
        volumes = KeptVolumes(cache)
        self._node_scope = NodeScope(self._pods, volumes, cache)
        self._pilot_scope = PilotScope(self._pilots, cache)
        self._node_writes = NodeWrites(self._pods, volumes, claims, StoragePoolNodes(cache))
        self._pilot_writes = PilotWrites(self._pilots)
        for index in (self._pods, self._pilots):
            cache.listen(index)

    def restricts(self, user: User) -> bool:
        """Whether there can be an opinion about this user."""
        return identify(user) is not None

    def confines(self, user: User) -> bool:
        """Whether a user is restricted now."""
        identity = identify(user)
        if identity is None or MASTERS in user.groups:
            return False
        return isinstance(identity, NodeUser) or (
            isinstance(identity, PodBoundUser) and self._is_pilot(identity)
        )

    def remains(self, user: User) -> bool:
        """Whether the pod of a user's token still exists; True without such a token."""
        identity = identify(user)
        if not isinstance(identity, PodBoundUser):
            return True
        pod = self._pods.find(identity.namespace, identity.pod)
        return pod is not None and user.extra.get(POD_UID, (pod.uid,))[0] == pod.uid

    def decide(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        identity = identify(user)
        if identity is None:
            return NO_OPINION
        if isinstance(identity, NodeUser):
            return self._node_scope.decide(identity.name, attributes)
        if isinstance(identity, JoiningMachine):
            return self._node_scope.decide_joining(identity.user, attributes)
        if not self._is_pilot(identity):
            return NO_OPINION
        pilot = self._pilots.find(identity.namespace, identity.pod)
        return self._pilot_scope.decide(identity, pilot, attributes)

    def check(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        identity = identify(call.request.user)
        if identity is None or MASTERS in call.request.user.groups:
            return
        if isinstance(identity, NodeUser):
            self._node_writes.check(identity.name, call, new, old)
        elif isinstance(identity, PodBoundUser) and self._is_pilot(identity):
            self._pilot_writes.check(identity, call, new, old)

    def check_token_request(self, call: ResourceRequest, request: Any) -> None:
        """403 for a token that a node may not have. ``request`` is the decoded body."""
        identity = identify(call.request.user)
        if isinstance(identity, NodeUser) and MASTERS not in call.request.user.groups:
            self._node_writes.check_token_request(identity.name, call, request)

    def _is_pilot(self, identity: PodBoundUser) -> bool:
        """Whether the pod has a Pilot, or waits for one."""
        if self._pilots.find(identity.namespace, identity.pod) is not None:
            return True
        pod = self._pods.find(identity.namespace, identity.pod)
        return pod is not None and pod.piloted
