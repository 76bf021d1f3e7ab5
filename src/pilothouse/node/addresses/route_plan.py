"""The routes to the pod ranges of other nodes, and why some are refused.

    plan = plan_routes(nodes, me="m1", address="10.0.0.1", own=IPv4Network("10.44.1.0/24"))
    plan.routes        # {"10.44.2.0/24": "10.0.0.2", "10.44.3.0/24": "10.0.0.3"}
    plan.local         # {"10.44.1.0/24"}: all of it answers here
    plan.warnings      # (NodeWarning("m4", "node m4 has the range 10.44.4.0/24 and no InternalIP to …"),)

A node's range is in ``spec.podCIDRs``, its address in ``status.addresses`` (InternalIP). Ranges of unhealthy
nodes are routed too. Nodes at our own address share our machine and need no route; each makes its own range
answer. Of two overlapping ranges, the older node's is routed.

Other nodes are not trusted with this machine's routes. A range that no node can have
(``api.kubernetes.node_claims``), outside of the cluster's ranges, or containing the address of a node, a
service or the API server is refused. That is a warning about that Node and no problem of this one, so that a
Node can't keep all others from taking pods.
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
    """A problem of another node, which doesn't stop this one from taking pods."""

    node: str
    message: str


@dataclass(frozen=True)
class RoutePlan:
    """The intended content of the kernel's tables."""

    routes: Mapping[str, str] = field(default_factory=dict)
    """Ranges of other machines, and the gateway of each."""
    local: frozenset[str] = frozenset()
    """Ranges and addresses that answer here."""
    left: frozenset[str] = frozenset()
    """Ranges of nodes that share this machine, which add and delete their own entries."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """The node of each routed range."""
    problems: tuple[str, ...] = ()
    """Problems of this node."""
    warnings: tuple[NodeWarning, ...] = ()
    """Refused claims of other nodes, and their consequences."""


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
    """The plan of the node called ``me``. ``own`` is None on loopback. ``services`` and ``servers`` are
    addresses of services and API servers. Ranges of nodes must lie in ``cluster``, unless that is empty."""
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
            recorded = list(ranges_of(node))
            if own is not None and recorded and own not in recorded:
                problems.append(
                    f"this node was started with --pod-cidr {own}, and its Node has {recorded[0]}, which "
                    "can't be changed: start it with that one, or delete the Node (kubectl delete node "
                    f"{me}), which is then created again"
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
        # A warning too: only the other nodes claim that they are other machines.
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
    """Why a range of another node gets no route; empty if it gets one."""
    try:
        parse_pod_range(str(network))
    except PodRangeError as problem:
        return str(problem)
    if cluster and not any(network.subnet_of(each) for each in cluster):
        within = ", ".join(map(str, cluster))
        return f"it is not within the cluster's range, {within} (the API server's --cluster-cidr)"
    for owner, address in protected.items():
        if address and ip_address(address) in network:
            return f"it holds the address of {owner}" + ("" if address in owner else f", {address}")
    return ""


def internal_address(node: Object) -> str:
    """The InternalIP of a node; empty if it has none, or none of IPv4."""
    for each in node.status.get("addresses") or ():
        if each.get("type") == "InternalIP":
            try:
                return str(IPv4Address(each.get("address", "")))
            except ValueError:
                continue
    return ""


def ranges_of(node: Object) -> Iterator[IPv4Network]:
    """The IPv4 ranges of a node's pods; others are skipped."""
    for text in node.spec.get("podCIDRs") or filter(None, [node.spec.get("podCIDR")]):
        try:
            yield IPv4Network(text)
        except ValueError:
            continue
