"""Which requests a pilot may make: those about its own cluster; of that it writes next to nothing.

A pilot bears a token bound to a pod that has a Pilot of its name, or the label ``has-pilot``. Its cluster is
that Pilot's controlling owner. Objects with the cluster's label are of the cluster, and so are lists and
watches that select it, and the Pilots that the cluster controls, with their leases.

| | reads | writes |
|---|---|---|
| its Pilot | get, list, watch | the status |
| the cluster's other Pilots, its config maps and secrets | get; list and watch by label or name | |
| the cluster itself; its own pod | get; list and watch by name | |
| leases of the cluster's Pilots | get; list and watch by label or name | its own and the leader's |
| events | | create, update, patch, about its own |

Until its Pilot exists, a pilot may only wait for it.
"""

from __future__ import annotations

from pilothouse.apiserver.authorization.authorizer import Attributes, AuthorizationDecision
from pilothouse.apiserver.authorization.restriction.identity import PodBoundUser
from pilothouse.apiserver.authorization.restriction.pilot_index import (
    ClusterRecord,
    PilotIndex,
    PilotRecord,
    own_lease,
)
from pilothouse.apiserver.authorization.restriction.scope import CHANGES, READS, aside, denied, selects_label
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.storage.watch_cache import WatchCache

LEASES = "coordination.k8s.io/leases"
_YES = AuthorizationDecision(True, "pilot: within its scope")
_BEYOND = denied("pilot: not among what a pilot may do")
_PREFIX = own_lease("")


class PilotScope:
    def __init__(self, pilots: PilotIndex, cache: WatchCache) -> None:
        self._pilots = pilots
        self._cache = cache

    def decide(
        self, bound: PodBoundUser, pilot: PilotRecord | None, attrs: Attributes
    ) -> AuthorizationDecision:
        """What the bearer of a pilot's token may do; ``pilot`` is None if it does not exist."""
        decision = aside(attrs)
        if decision is not None:
            return decision
        if attrs.namespace != bound.namespace:
            return denied(f"pilot: may do nothing outside its namespace {bound.namespace}")
        own = attrs.name == bound.pod
        reads = attrs.verb in READS
        cluster = pilot.cluster if pilot is not None else None
        match attrs.group, attrs.resource, attrs.subresource:
            case "navigator.jetstack.io", "pilots", "":
                if reads and (own or self._is_sister(bound, cluster, attrs.name)):
                    return _YES
                return _confined(cluster, attrs) if reads else _BEYOND
            case "navigator.jetstack.io", "pilots", "status":
                allowed = attrs.verb == "get" or attrs.verb in CHANGES
                return _YES if own and pilot is not None and allowed else _BEYOND
            case "", "pods", "":
                return _YES if own and reads else _BEYOND
        if pilot is None:
            return denied(
                f"pilot: there is no Pilot {bound.pod} yet; until there is, wait for it by its name"
            )
        match attrs.group, attrs.resource, attrs.subresource:
            case "", "configmaps" | "secrets", "":
                if not reads:
                    return _BEYOND
                return self._labelled(attrs.resource, cluster, attrs)
            case "coordination.k8s.io", "leases", "":
                return self._lease(bound, cluster, attrs)
            case "" | "events.k8s.io", "events", "":
                return _YES if attrs.verb == "create" or attrs.verb in CHANGES else _BEYOND
        if cluster is not None and (attrs.group, attrs.resource) == (cluster.noun.group, cluster.noun.plural):
            return _YES if reads and attrs.name == cluster.name and not attrs.subresource else _BEYOND
        return _BEYOND

    def _is_sister(self, bound: PodBoundUser, cluster: ClusterRecord | None, name: str) -> bool:
        """Whether a Pilot is controlled by the same cluster."""
        other = self._pilots.find(bound.namespace, name) if cluster is not None and name else None
        return other is not None and other.cluster == cluster

    def _lease(
        self, bound: PodBoundUser, cluster: ClusterRecord | None, attrs: Attributes
    ) -> AuthorizationDecision:
        own = [own_lease(bound.pod), *([cluster.leader_lease] if cluster is not None else [])]
        if attrs.verb == "create":
            return _YES if attrs.name in ("", *own) else _foreign_lease(own)
        if attrs.verb in CHANGES:
            return _YES if attrs.name in own else _foreign_lease(own)
        if attrs.verb not in READS:
            return _BEYOND
        if attrs.name in own:
            return _YES
        if attrs.name.startswith(_PREFIX) and self._is_sister(bound, cluster, attrs.name[len(_PREFIX) :]):
            return _YES
        return self._labelled(LEASES, cluster, attrs)

    def _labelled(self, path: str, cluster: ClusterRecord | None, attrs: Attributes) -> AuthorizationDecision:
        """A read of objects with the cluster's label."""
        if cluster is not None and attrs.name:
            item = self._cache.get(path, f"{ROOT}{path}/{attrs.namespace}/{attrs.name}")
            if item is not None and item.labels.get(cluster.label) == cluster.name:
                return _YES
        return _confined(cluster, attrs)


def _confined(cluster: ClusterRecord | None, attrs: Attributes) -> AuthorizationDecision:
    """A list or watch that its label selector confines to the cluster; anything else is refused with a
    hint."""
    if cluster is None:
        return denied("pilot: its Pilot is not controlled by a cluster, so nothing else is of its cluster")
    if attrs.verb != "get" and selects_label(attrs, cluster.label, cluster.name):
        return _YES
    reason = f'pilot: may read what is of its own cluster only, {cluster.noun.kind} "{cluster.name}"'
    if attrs.verb == "get" or attrs.name:
        return denied(f"{reason}; this one does not have its label {cluster.selector}")
    return denied(
        f"{reason}: ask with labelSelector={cluster.selector}, or for one object with "
        "fieldSelector=metadata.name=NAME"
    )


def _foreign_lease(own: list[str]) -> AuthorizationDecision:
    return denied(f"pilot: may write the lease {' or '.join(own)} only")
