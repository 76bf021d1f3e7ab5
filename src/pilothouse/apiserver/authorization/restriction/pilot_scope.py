"""What a pilot may ask for: what is of its own cluster, and of that it writes next to nothing.

A pilot is whoever bears a token bound to a pod that has a Pilot of its name, or that says it will have one
(the label ``has-pilot``). Its cluster is that Pilot's controlling owner. *Of the cluster* is what carries the
cluster's label, so that a list or watch with that label as its selector is of the cluster too; and a Pilot
that the cluster controls, with its lease.

| | reads | writes |
|---|---|---|
| its Pilot | get, list, watch | the status |
| the cluster's other Pilots, its config maps and secrets | get; list and watch by label or name | |
| the cluster itself; its own pod | get; list and watch by name | |
| the leases of the cluster's Pilots | get; list and watch by label or name | its own, and the leader's: create, update, patch |
| events | | create, update, patch, about its own |

While its Pilot is not there, a pilot may wait for it and do nothing else. Every other namespace is out of
scope.
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
    """Decides for pilots."""

    def __init__(self, pilots: PilotIndex, cache: WatchCache) -> None:
        self._pilots = pilots
        self._cache = cache

    def decide(
        self, bound: PodBoundUser, pilot: PilotRecord | None, asked: Attributes
    ) -> AuthorizationDecision:
        """What the bearer of a pilot's token may do; ``pilot`` is None while there is none."""
        decision = aside(asked)
        if decision is not None:
            return decision
        if asked.namespace != bound.namespace:
            return denied(f"pilot: may do nothing outside its namespace {bound.namespace}")
        own = asked.name == bound.pod
        reads = asked.verb in READS
        cluster = pilot.cluster if pilot is not None else None
        match asked.group, asked.resource, asked.subresource:
            case "navigator.jetstack.io", "pilots", "":
                if reads and (own or self._is_sister(bound, cluster, asked.name)):
                    return _YES
                return _confined(cluster, asked) if reads else _BEYOND
            case "navigator.jetstack.io", "pilots", "status":
                allowed = asked.verb == "get" or asked.verb in CHANGES
                return _YES if own and pilot is not None and allowed else _BEYOND
            case "", "pods", "":
                return _YES if own and reads else _BEYOND
        if pilot is None:
            return denied(
                f"pilot: there is no Pilot {bound.pod} yet; until there is, wait for it by its name"
            )
        match asked.group, asked.resource, asked.subresource:
            case "", "configmaps" | "secrets", "":
                if not reads:
                    return _BEYOND
                return self._labelled(asked.resource, cluster, asked)
            case "coordination.k8s.io", "leases", "":
                return self._lease(bound, cluster, asked)
            case "" | "events.k8s.io", "events", "":
                return _YES if asked.verb == "create" or asked.verb in CHANGES else _BEYOND
        if cluster is not None and (asked.group, asked.resource) == (cluster.noun.group, cluster.noun.plural):
            return _YES if reads and asked.name == cluster.name and not asked.subresource else _BEYOND
        return _BEYOND

    def _is_sister(self, bound: PodBoundUser, cluster: ClusterRecord | None, name: str) -> bool:
        """Whether a Pilot is controlled by the same cluster."""
        other = self._pilots.find(bound.namespace, name) if cluster is not None and name else None
        return other is not None and other.cluster == cluster

    def _lease(
        self, bound: PodBoundUser, cluster: ClusterRecord | None, asked: Attributes
    ) -> AuthorizationDecision:
        own = [own_lease(bound.pod), *([cluster.leader_lease] if cluster is not None else [])]
        if asked.verb == "create":
            return _YES if asked.name in ("", *own) else _foreign_lease(own)
        if asked.verb in CHANGES:
            return _YES if asked.name in own else _foreign_lease(own)
        if asked.verb not in READS:
            return _BEYOND
        if asked.name in own:
            return _YES
        if asked.name.startswith(_PREFIX) and self._is_sister(bound, cluster, asked.name[len(_PREFIX) :]):
            return _YES
        return self._labelled(LEASES, cluster, asked)

    def _labelled(self, path: str, cluster: ClusterRecord | None, asked: Attributes) -> AuthorizationDecision:
        """A read of objects that are known by the cluster's label."""
        if cluster is not None and asked.name:
            item = self._cache.get(path, f"{ROOT}{path}/{asked.namespace}/{asked.name}")
            if item is not None and item.labels.get(cluster.label) == cluster.name:
                return _YES
        return _confined(cluster, asked)


def _confined(cluster: ClusterRecord | None, asked: Attributes) -> AuthorizationDecision:
    """A list or watch that its label selector confines to the cluster; anything else is refused with a
    hint."""
    if cluster is None:
        return denied("pilot: its Pilot is not controlled by a cluster, so nothing else is of its cluster")
    if asked.verb != "get" and selects_label(asked, cluster.label, cluster.name):
        return _YES
    reason = f'pilot: may read what is of its own cluster only, {cluster.noun.kind} "{cluster.name}"'
    if asked.verb == "get" or asked.name:
        return denied(f"{reason}; this one does not have its label {cluster.selector}")
    return denied(
        f"{reason}: ask with labelSelector={cluster.selector}, or for one object with fieldSelector=metadata.name=NAME"
    )


def _foreign_lease(own: list[str]) -> AuthorizationDecision:
    return denied(f"pilot: may write the lease {' or '.join(own)} only")
