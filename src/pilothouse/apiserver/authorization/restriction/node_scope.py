"""Which requests a node may make: those about itself, its pods, and what these refer to.

As Kubernetes' node authorizer, except: what is not in scope is denied, so no role can add it; a node creates
no pods; it reads what kube-proxy reads, since our agent routes services; it creates the volumes of claims
scheduled to it; it reads the namespace ``kube-system``, whose uid identifies the control plane.

| | reads | writes |
|---|---|---|
| its Node | | create, update, patch, and of the status |
| its pods | get; list and watch by ``spec.nodeName`` | delete, evict, their status |
| their secrets and config maps | get; list and watch by name | |
| their accounts | get | their tokens |
| claims | all | the status of its pods', and of those whose volumes are wanted on it |
| its ControlNode | get; list and watch by name | update and patch, also of the status |
| the Plan ``autopilot`` | get | |
| volumes | all | create, and update, patch and delete of those that it keeps |
| classes of storage and of volume attributes | all | |
| its StoragePools | get; list and watch by ``pilothouse.io/node`` | all, and the status |
| the namespace ``kube-system`` | get | |
| nodes, services, endpoints and their slices | all | |
| its lease in ``kube-node-lease`` | get | create, update, patch, delete |
| its certificate requests | get; list and watch by name | create |
| events | | create, update, patch |
| token and access reviews | | create |
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from pilothouse.api.k0s import v1beta2
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kubernetes.node_claims import NETWORK_PAGE
from pilothouse.api.pilothouse import v1alpha1
from pilothouse.api.storage_pools import POOL_NODE
from pilothouse.apiserver.authorization.authorizer import NO_OPINION, Attributes, AuthorizationDecision
from pilothouse.apiserver.authorization.restriction.bound_pods import BoundPods
from pilothouse.apiserver.authorization.restriction.kept_volumes import KeptVolumes
from pilothouse.apiserver.authorization.restriction.scope import (
    CHANGES,
    READS,
    aside,
    denied,
    selects_field,
    selects_label,
)
from pilothouse.apiserver.authorization.restriction.storage_pool_nodes import StoragePoolNodes
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.storage.watch_cache import WatchCache

LEASE_NAMESPACE = "kube-node-lease"
IDENTITY_NAMESPACE = "kube-system"
REQUESTS = "certificates.k8s.io/certificatesigningrequests"
_YES = AuthorizationDecision(True, "node: within its scope")
_NAMELESS = denied(
    "the group system:nodes is for users named system:node:NAME; a member with another name may do nothing"
)
_BEYOND = denied("node: not among what a node may do")
_NO_PODS = denied(
    "node: nodes create no pods; there are no static or mirror pods here, so create pods as a user"
)
_NO_VERB = denied("node: may not do that to this resource")

_Rule = Callable[["NodeScope", str, Attributes], AuthorizationDecision]


class NodeScope:
    def __init__(self, pods: BoundPods, volumes: KeptVolumes, cache: WatchCache) -> None:
        self._pods = pods
        self._volumes = volumes
        self._cache = cache
        self._pools = StoragePoolNodes(cache)

    def decide(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        """What the node of that name may do; nothing without a name."""
        if not node:
            return _NAMELESS
        if attrs.is_path and attrs.path == NETWORK_PAGE and attrs.verb == "get":
            return _YES
        decision = aside(attrs)
        if decision is not None:
            return decision
        found = _RULES.get((attrs.group, attrs.resource, attrs.subresource))
        if found is None:
            return _BEYOND
        verbs, rule = found
        return rule(self, node, attrs) if attrs.verb in verbs else _NO_VERB

    def decide_joining(self, user: str, attrs: Attributes) -> AuthorizationDecision:
        """What a bootstrap token may not do, whatever its roles: read requests of others."""
        if (attrs.group, attrs.resource) != ("certificates.k8s.io", "certificatesigningrequests"):
            return NO_OPINION
        if attrs.verb not in READS or self._requested_by(attrs.name) == user:
            return NO_OPINION
        return denied("a bootstrap token reads the certificate requests that were made with it, by name")

    # The rules, for the verbs that the table below has for each.

    def _allowed(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        return _YES

    def _itself(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.name == node or (attrs.verb == "create" and not attrs.name):
            return _YES
        return denied(f"node: '{node}' may do this to itself only")

    def _node(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        # It reads the addresses and ranges of other nodes, to route to them.
        return _YES if attrs.verb in READS else self._itself(node, attrs)

    def _pod(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.verb == "create":
            return _NO_PODS
        if attrs.verb in ("list", "watch") and selects_field(attrs, "spec.nodeName", node):
            return _YES
        if attrs.name:
            return self._own_pod(node, attrs)
        return denied(f"node: may see its own pods only: ask with fieldSelector=spec.nodeName={node}")

    def _own_pod(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        return _YES if self._pods.runs(node, attrs.namespace, attrs.name) else _unrelated(node)

    def _needed(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        related = self._pods.needs(node, attrs.resource, attrs.namespace, attrs.name)
        return _YES if related else _unrelated(node)

    def _needed_by_name(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.name:
            return self._needed(node, attrs)
        return denied(
            "node: may read one such object at a time: ask for it by name, or with "
            "fieldSelector=metadata.name=NAME"
        )

    def _claim_status(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if self._volumes.awaited(node, attrs.namespace, attrs.name):
            return _YES
        return self._needed(node, attrs)

    def _volume(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.verb in READS or attrs.verb == "create":
            return _YES
        return _YES if attrs.name and self._volumes.keeper(attrs.name) == node else _unrelated(node)

    def _storage_pool(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.verb in ("list", "watch") and selects_label(attrs, POOL_NODE, node):
            return _YES
        if attrs.verb == "create" or (attrs.name and self._pools.owner(attrs.name) == node):
            return _YES
        return denied(f"node: '{node}' may see and change its own storage pools only")

    def _plan(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        """The one plan that is carried out, which says what a machine that was signalled downloads."""
        return _YES if attrs.name == RUNNING_PLAN else _NO_VERB

    def _lease(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.namespace != LEASE_NAMESPACE:
            return denied(f"node: has a lease in the namespace {LEASE_NAMESPACE}, and in no other")
        return self._itself(node, attrs) if attrs.verb in _LEASE_VERBS else _NO_VERB

    def _request(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        if attrs.verb == "create" or self._requested_by(attrs.name) == f"system:node:{node}":
            return _YES
        return denied("node: may see the certificate requests that it made itself, by name")

    def _requested_by(self, name: str) -> str:
        """The user of a certificate request; empty if it does not exist."""
        item = self._cache.get(REQUESTS, f"{ROOT}{REQUESTS}/{name}") if name else None
        return "" if item is None else _request.decode(item.value).spec.username

    def _identity(self, node: str, attrs: Attributes) -> AuthorizationDecision:
        """The namespace whose uid is the control plane's."""
        return _YES if attrs.name == IDENTITY_NAMESPACE else _NO_VERB


_GET, _CREATE = frozenset({"get"}), frozenset({"create"})
_LEASE_VERBS = _GET | _CREATE | CHANGES | {"delete"}
_RULES: dict[tuple[str, str, str], tuple[Container[str], _Rule]] = {
    ("", "nodes", ""): (READS | CHANGES | _CREATE, NodeScope._node),
    ("", "nodes", "status"): (CHANGES, NodeScope._itself),
    ("", "namespaces", ""): (_GET, NodeScope._identity),
    ("", "pods", ""): (READS | _CREATE | {"delete"}, NodeScope._pod),
    ("", "pods", "status"): (CHANGES, NodeScope._own_pod),
    ("", "pods", "eviction"): (_CREATE, NodeScope._own_pod),
    ("", "secrets", ""): (READS, NodeScope._needed_by_name),
    ("", "configmaps", ""): (READS, NodeScope._needed_by_name),
    ("", "persistentvolumeclaims", ""): (READS, NodeScope._allowed),
    ("", "persistentvolumeclaims", "status"): (CHANGES, NodeScope._claim_status),
    ("", "persistentvolumes", ""): (READS | CHANGES | _CREATE | {"delete"}, NodeScope._volume),
    # Accounts don't change for a pod, so there is nothing to watch.
    ("", "serviceaccounts", ""): (_GET, NodeScope._needed),
    ("", "serviceaccounts", "token"): (_CREATE, NodeScope._needed),
    ("", "services", ""): (READS, NodeScope._allowed),
    ("", "endpoints", ""): (READS, NodeScope._allowed),
    ("discovery.k8s.io", "endpointslices", ""): (READS, NodeScope._allowed),
    ("storage.k8s.io", "storageclasses", ""): (READS, NodeScope._allowed),
    ("storage.k8s.io", "volumeattributesclasses", ""): (READS, NodeScope._allowed),
    # Any verb: that the namespace is wrong is said first.
    ("coordination.k8s.io", "leases", ""): (READS | _LEASE_VERBS | {"deletecollection"}, NodeScope._lease),
    ("certificates.k8s.io", "certificatesigningrequests", ""): (READS | _CREATE, NodeScope._request),
    (v1alpha1.GROUP, "storagepools", ""): (READS | CHANGES | _CREATE | {"delete"}, NodeScope._storage_pool),
    (v1alpha1.GROUP, "storagepools", "status"): (CHANGES, NodeScope._storage_pool),
    (v1beta2.GROUP, "controlnodes", ""): (READS | CHANGES, NodeScope._itself),
    (v1beta2.GROUP, "controlnodes", "status"): (CHANGES, NodeScope._itself),
    (v1beta2.GROUP, "plans", ""): (_GET, NodeScope._plan),
    ("", "events", ""): (CHANGES | _CREATE, NodeScope._allowed),
    ("events.k8s.io", "events", ""): (CHANGES | _CREATE, NodeScope._allowed),
    ("authentication.k8s.io", "tokenreviews", ""): (_CREATE, NodeScope._allowed),
    ("authorization.k8s.io", "subjectaccessreviews", ""): (_CREATE, NodeScope._allowed),
    ("authorization.k8s.io", "localsubjectaccessreviews", ""): (_CREATE, NodeScope._allowed),
}


class _RequestSpec(msgspec.Struct):
    username: str = ""


class _Request(msgspec.Struct):
    spec: _RequestSpec = msgspec.field(default_factory=_RequestSpec)


_request = msgspec.json.Decoder(_Request)


def _unrelated(node: str) -> AuthorizationDecision:
    return denied(f"no relationship found between node '{node}' and this object")
