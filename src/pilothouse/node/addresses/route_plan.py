"""The routes to the pod ranges of other nodes, and why some are refused.

    plan = plan_routes(nodes, me="m1", address="10.0.0.1", own=IPv4Network("10.44.1.0/24"), cluster=[IPv4Network("10.44.0.0/16")])
    plan.routes        # {"10.44.2.0/24": "10.0.0.2", "10.44.3.0/24": "10.0.0.3"}
    plan.local         # {"10.44.1.0/24"}: all of it answers here
    plan.problem       # "" or what is wrong with this node's own range
    plan.warnings      # (NodeWarning("m4", "node m4 has the range 10.44.4.0/24 and no InternalIP to route it to"),)

A node says its range in ``spec.podCIDRs`` and where it is reached in ``status.addresses`` (InternalIP). A range is routed whether or not its
node is well: whether packets arrive is not for us to judge. Nodes at our own address share our machine, and need no route: each of them
has its own range answer there, and what a Node says of its address is not enough to have a range answer here.
A range that overlaps one that is routed already, or our own, is left out and told: of two nodes, the older one counts.

Other nodes are not trusted with the routes of this machine. A range that no node can have (``api.kubernetes.node_claims``), that lies outside of
the cluster's ranges, or that holds the address of a node, of a service or of the API server, is refused, whatever the API server took. That is a warning
about that Node, and no problem of this one: whatever a Node says, it must not keep all others from taking pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Final, NamedTuple

from pilothouse.api.kubernetes.node_claims import PodRangeError, parse_pod_range
from pilothouse.api.objects import Object

_MOST_NAMED: Final = 5


class NodeWarning(NamedTuple):
    """What is wrong with a node, which is no reason for this one to take no pods."""

    node: str
    message: str


@dataclass(frozen=True)
class RoutePlan:
    """What should be in the kernel's tables."""

    routes: Mapping[str, str] = field(default_factory=dict)
    """Ranges of other machines, and the address each is behind."""
    local: frozenset[str] = frozenset()
    """Ranges and addresses that answer here."""
    left: frozenset[str] = frozenset()
    """Ranges of nodes that say they share this machine: what answers here for them is theirs to make and to take away."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """Whose the routed ranges are."""
    problems: tuple[str, ...] = ()
    """What is wrong with this node, by its own account."""
    warnings: tuple[NodeWarning, ...] = ()
    """What others claim and can't have, or what follows from it."""

    @property
    def problem(self) -> str:
        return "; ".join(self.problems)


def plan_routes(
    nodes: Iterable[Object],
    *,
    me: str,
    address: str,
    own: IPv4Network | None,
    services: Iterable[str] = (),
    servers: Iterable[str] = (),
    cluster: Iterable[IPv4Network] = (),
) -> RoutePlan:
    """The plan of the node called ``me``. ``own`` is None on loopback. ``services`` and ``servers`` are addresses of services and
    of API servers. ``cluster`` are the ranges that those of nodes lie in; if there are none, they may be any."""
    nodes, services, cluster = list(nodes), list(services), list(cluster)
    places = {f"node {node.name}": internal_address(node) for node in nodes}
    protected = {
        "this node": address,
        **places,
        **{f"the service address {each}": each for each in services},
        **{f"the API server {each}": each for each in servers},
    }
    routes: dict[str, str] = {}
    problems: list[str] = []
    local = {f"{each}/32" for each in services if not IPv4Address(each).is_loopback}
    settled: list[tuple[IPv4Network, str]] = []
    if own is not None:
        local.add(str(own))
        settled.append((own, me))
    left: set[str] = set()
    owners: dict[str, str] = {}
    strangers: list[str] = []
    warnings: list[NodeWarning] = []
    for node in sorted(nodes, key=lambda one: (one.created, one.name)):
        if node.name == me:
            told = list(ranges_of(node))
            if own is not None and told and own not in told:
                problems.append(
                    f"this node was started with --pod-cidr {own}, and its Node has {told[0]}, which can't be changed: start it with that one, or delete the Node (kubectl delete node {me}), which is then created again"
                )
            continue
        where = internal_address(node)
        sound: list[IPv4Network] = []
        for network in ranges_of(node):
            why = _why_refused(network, protected, cluster)
            if why:
                warnings.append(
                    NodeWarning(node.name, f"the range {network} of node {node.name} is not routed: {why}")
                )
            else:
                sound.append(network)
        if where == address:
            left |= set(map(str, sound))
            continue
        if own is None and where and not IPv4Address(where).is_loopback:
            strangers.append(node.name)
        for network in sound:
            other = next((name for known, name in settled if known.overlaps(network)), None)
            wrong = f"node {node.name} has the range {network}"
            if other is not None:
                wrong += f", which overlaps that of node {other}; give each node a --pod-cidr of its own"
            elif not where:
                wrong += " and no InternalIP to route it to"
            elif IPv4Address(where).is_loopback:
                wrong += (
                    f" and says it is at {where}, where no other machine reaches it; start it with --node-ip"
                )
            else:
                settled.append((network, node.name))
                routes[str(network)] = where
                owners[str(network)] = node.name
                continue
            warnings.append(NodeWarning(node.name, wrong))
    if strangers:
        # A warning too: that there are other machines is what others say.
        unreached = (
            f"pods here have loopback addresses, which other machines ({', '.join(strangers[:_MOST_NAMED])}"
            f"{', …' if strangers[_MOST_NAMED:] else ''}) can't reach; start this node with --pod-cidr"
        )
        warnings.append(NodeWarning(me, unreached))
    return RoutePlan(
        routes,
        frozenset(local),
        left=frozenset(left - local),
        owners=owners,
        problems=tuple(problems),
        warnings=tuple(warnings),
    )


def _why_refused(network: IPv4Network, protected: Mapping[str, str], cluster: Sequence[IPv4Network]) -> str:
    """Why no route is made for a range of another node; empty if one may be."""
    try:
        parse_pod_range(str(network))
    except PodRangeError as problem:
        return str(problem)
    if cluster and not any(network.subnet_of(each) for each in cluster):
        return f"it is not within the cluster's range, {', '.join(map(str, cluster))} (the API server's --cluster-cidr)"
    for owner, address in protected.items():
        if address and ip_address(address) in network:
            return f"it holds the address of {owner}" + ("" if address in owner else f", {address}")
    return ""


def internal_address(node: Object) -> str:
    """Where other machines reach a node; empty if it does not say so, or says nothing of IPv4."""
    for each in node.status.get("addresses") or ():
        if each.get("type") == "InternalIP":
            try:
                return str(IPv4Address(each.get("address", "")))
            except ValueError:
                continue
    return ""


def ranges_of(node: Object) -> Iterator[IPv4Network]:
    """The ranges of a node's pods. What is no range of IPv4 is passed over: others may have IPv6 as well."""
    for text in node.spec.get("podCIDRs") or filter(None, [node.spec.get("podCIDR")]):
        try:
            yield IPv4Network(text)
        except ValueError:
            continue
