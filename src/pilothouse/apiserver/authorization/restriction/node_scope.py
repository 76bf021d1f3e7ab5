"""What a node may ask for: itself, the pods that are bound to it, and what those refer to.

The rules are those of Kubernetes' node authorizer, with five differences: what is not in scope is denied, so
that no role can add to it; a node makes no pods, as nothing here runs pods that the server does not know of
first; it reads what kube-proxy reads in Kubernetes (``system:node-proxier``), as our node agent forwards
services and routes to other nodes itself; it makes the volumes of claims whose pods are sent to it, which
elsewhere is a driver's work; and it reads the namespace ``kube-system``, by whose uid volumes know which
control plane they belong to.

| | reads | writes |
|---|---|---|
| its Node | | create, update, patch, and of the status |
| its pods | get; list and watch by ``spec.nodeName`` | delete, evict, their status |
| their secrets and config maps | get; list and watch by name | |
| their accounts | get | their tokens |
| claims | all | the status of its pods', and of those whose volumes are wanted on it |
| volumes | all | create, and update, patch and delete of those that it keeps |
| classes of storage and of volume attributes | all | |
| the namespace ``kube-system`` | get | |
| nodes, services, endpoints and their slices | all | |
| its lease in ``kube-node-lease`` | get | create, update, patch, delete |
| its certificate requests | get; list and watch by name | create |
| events | | create, update, patch |
| token and access reviews | | create |
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pilothouse.api.kubernetes.node_claims import NETWORK_PAGE
from pilothouse.apiserver.authorization.authorizer import NO_OPINION, Attributes, AuthorizationDecision
from pilothouse.apiserver.authorization.restriction.bound_pods import BoundPods
from pilothouse.apiserver.authorization.restriction.kept_volumes import KeptVolumes
from pilothouse.apiserver.authorization.restriction.scope import CHANGES, READS, aside, denied, selects_field
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
    """Decides for nodes."""

    def __init__(self, pods: BoundPods, volumes: KeptVolumes, cache: WatchCache) -> None:
        self._pods = pods
        self._volumes = volumes
        self._cache = cache

    def decide(self, node: str, asked: Attributes) -> AuthorizationDecision:
        """What the node of that name may do. Without a name: nothing."""
        if not node:
            return _NAMELESS
        if asked.is_path and asked.path == NETWORK_PAGE and asked.verb == "get":
            return _YES
        decision = aside(asked)
        if decision is not None:
            return decision
        rule = _RULES.get((asked.group, asked.resource, asked.subresource))
        return rule(self, node, asked) if rule is not None else _BEYOND

    def decide_joining(self, user: str, asked: Attributes) -> AuthorizationDecision:
        """What the bearer of a bootstrap token may not do, whatever its roles say: read requests of
        others."""
        if (asked.group, asked.resource) != ("certificates.k8s.io", "certificatesigningrequests"):
            return NO_OPINION
        if asked.verb not in READS or self._requested_by(asked.name) == user:
            return NO_OPINION
        return denied("a bootstrap token reads the certificate requests that were made with it, by name")

    def _node(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.verb == "create":
            return _YES if asked.name in ("", node) else _not_itself(node)
        if asked.verb in READS:
            # Where others are, and which range lies behind each: a node routes to them.
            return _YES
        if asked.verb not in CHANGES:
            return _NO_VERB
        return _YES if asked.name == node else _not_itself(node)

    def _node_status(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.verb not in CHANGES:
            return _NO_VERB
        return _YES if asked.name == node else _not_itself(node)

    def _pod(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.verb in ("list", "watch") and selects_field(asked, "spec.nodeName", node):
            return _YES
        if asked.verb in READS or asked.verb == "delete":
            if asked.name:
                return self._own_pod(node, asked)
            return denied(f"node: may see its own pods only: ask with fieldSelector=spec.nodeName={node}")
        return _NO_PODS if asked.verb == "create" else _NO_VERB

    def _pod_status(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return self._own_pod(node, asked) if asked.verb in CHANGES else _NO_VERB

    def _eviction(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return self._own_pod(node, asked) if asked.verb == "create" else _NO_VERB

    def _own_pod(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return _YES if self._pods.runs(node, asked.namespace, asked.name) else _unrelated(node)

    def _needed(self, node: str, asked: Attributes) -> AuthorizationDecision:
        """Secrets and config maps: one at a time, by name."""
        if asked.verb not in READS:
            return _NO_VERB
        if not asked.name:
            return denied(
                "node: may read one such object at a time: ask for it by name, or with fieldSelector=metadata.name=NAME"
            )
        return self._if_needed(node, asked)

    def _needed_as_it_is(self, node: str, asked: Attributes) -> AuthorizationDecision:
        """Accounts: those don't change under a pod, so that there is nothing to watch."""
        return self._if_needed(node, asked) if asked.verb == "get" else _NO_VERB

    def _claim_status(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.verb not in CHANGES:
            return _NO_VERB
        if self._volumes.awaited(node, asked.namespace, asked.name):
            return _YES
        return self._if_needed(node, asked)

    def _token(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return self._if_needed(node, asked) if asked.verb == "create" else _NO_VERB

    def _if_needed(self, node: str, asked: Attributes) -> AuthorizationDecision:
        related = self._pods.needs(node, asked.resource, asked.namespace, asked.name)
        return _YES if related else _unrelated(node)

    def _volume(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.verb in READS or asked.verb == "create":
            return _YES
        if asked.verb != "delete" and asked.verb not in CHANGES:
            return _NO_VERB
        return _YES if asked.name and self._volumes.keeper(asked.name) == node else _unrelated(node)

    def _lease(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.namespace != LEASE_NAMESPACE:
            return denied(f"node: has a lease in the namespace {LEASE_NAMESPACE}, and in no other")
        if asked.verb == "create":
            return _YES if asked.name in ("", node) else _not_itself(node)
        if asked.verb not in ("get", "delete") and asked.verb not in CHANGES:
            return _NO_VERB
        return _YES if asked.name == node else _not_itself(node)

    def _request(self, node: str, asked: Attributes) -> AuthorizationDecision:
        if asked.verb == "create":
            return _YES
        if asked.verb not in READS:
            return _NO_VERB
        if self._requested_by(asked.name) == f"system:node:{node}":
            return _YES
        return denied("node: may see the certificate requests that it made itself, by name")

    def _requested_by(self, name: str) -> str:
        """Who made a certificate request; empty if there is none of that name."""
        item = self._cache.get(REQUESTS, f"{ROOT}{REQUESTS}/{name}") if name else None
        return "" if item is None else _request.decode(item.value).spec.username

    def _identity(self, node: str, asked: Attributes) -> AuthorizationDecision:
        """The namespace whose uid is the control plane's."""
        return _YES if asked.verb == "get" and asked.name == IDENTITY_NAMESPACE else _NO_VERB

    def _readable(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return _YES if asked.verb in READS else _NO_VERB

    def _event(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return _YES if asked.verb == "create" or asked.verb in CHANGES else _NO_VERB

    def _review(self, node: str, asked: Attributes) -> AuthorizationDecision:
        return _YES if asked.verb == "create" else _NO_VERB


_RULES: dict[tuple[str, str, str], _Rule] = {
    ("", "nodes", ""): NodeScope._node,
    ("", "nodes", "status"): NodeScope._node_status,
    ("", "namespaces", ""): NodeScope._identity,
    ("", "pods", ""): NodeScope._pod,
    ("", "pods", "status"): NodeScope._pod_status,
    ("", "pods", "eviction"): NodeScope._eviction,
    ("", "secrets", ""): NodeScope._needed,
    ("", "configmaps", ""): NodeScope._needed,
    ("", "persistentvolumeclaims", ""): NodeScope._readable,
    ("", "persistentvolumeclaims", "status"): NodeScope._claim_status,
    ("", "persistentvolumes", ""): NodeScope._volume,
    ("", "serviceaccounts", ""): NodeScope._needed_as_it_is,
    ("", "serviceaccounts", "token"): NodeScope._token,
    ("", "services", ""): NodeScope._readable,
    ("", "endpoints", ""): NodeScope._readable,
    ("discovery.k8s.io", "endpointslices", ""): NodeScope._readable,
    ("storage.k8s.io", "storageclasses", ""): NodeScope._readable,
    ("storage.k8s.io", "volumeattributesclasses", ""): NodeScope._readable,
    ("coordination.k8s.io", "leases", ""): NodeScope._lease,
    ("certificates.k8s.io", "certificatesigningrequests", ""): NodeScope._request,
    ("", "events", ""): NodeScope._event,
    ("events.k8s.io", "events", ""): NodeScope._event,
    ("authentication.k8s.io", "tokenreviews", ""): NodeScope._review,
    ("authorization.k8s.io", "subjectaccessreviews", ""): NodeScope._review,
    ("authorization.k8s.io", "localsubjectaccessreviews", ""): NodeScope._review,
}


class _RequestSpec(msgspec.Struct):
    username: str = ""


class _Request(msgspec.Struct):
    spec: _RequestSpec = msgspec.field(default_factory=_RequestSpec)


_request = msgspec.json.Decoder(_Request)


def _not_itself(node: str) -> AuthorizationDecision:
    return denied(f"node: '{node}' may do this to itself only")


def _unrelated(node: str) -> AuthorizationDecision:
    return denied(f"no relationship found between node '{node}' and this object")
