"""What a node may claim: no range, address or name of another node.

    claims = NodeClaims(cache, ControlPlaneNetwork(IPv4Network("127.96.0.0/16"), frozenset({"10.0.0.5"})))
    claims.problem("n1", new, old, peer="10.0.0.7:41022", alone=True)   # "spec.podCIDRs: … overlaps …"
    claims.serving_problem(requested)           # why a serving certificate is not for this node's own names

Only changes are checked, so that existing values never block a node's reports; administrators are not
checked. A node owns an address that its request comes from. Requests from loopback come from the API server's
machine and own its addresses. Behind a proxy ``ControlPlaneNetwork.nodes`` lists the nodes' addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import ip_address
from typing import Final

import msgspec

from pilothouse.api.kubernetes.node_claims import (
    LOOPBACK_PODS,
    Address,
    Network,
    NetworkClaims,
    PodRangeError,
    address_texts,
    claims_of,
    contains,
    name_texts,
    overlapping,
    parse_pod_range,
    pod_address_texts,
    range_texts,
    why_no_node_address,
)
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.registry.service_ranges import CLUSTER_RANGE, NODE_MASK_SIZE
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.node_names import is_node_name
from pilothouse.meta.kind import Object
from pilothouse.pki.request_signing import RequestedCertificate
from pilothouse.pki.signers import NODE, serving_name

NODES_PATH = "nodes"
HOSTNAME = "kubernetes.io/hostname"


class ControlPlaneNetwork(msgspec.Struct, frozen=True):
    """The addresses and ranges of the control plane."""

    services: Network
    """Services have their addresses from here."""
    server_names: frozenset[str] = frozenset()
    """Names and addresses of the API server."""
    cluster: tuple[Network, ...] = (CLUSTER_RANGE,)
    """Where ranges of pods have to lie."""
    mask_size: int = NODE_MASK_SIZE
    """Bits that the prefix of a range has at least."""
    nodes: tuple[Network, ...] = ()
    """Where nodes may be, beside the address that each of them calls from."""

    @property
    def server_addresses(self) -> frozenset[Address]:
        return frozenset(map(ip_address, filter(_is_address, self.server_names)))


MOST_ADDRESSES: Final = 32
"""Addresses and names of a node together."""
MOST_OF_FAMILIES: Final = 2


class NewClaims(Exception):
    """A node makes new claims, which depend on those of others: retry with no other such write under way
    (``Request.claims_alone``)."""


class NodeClaims:
    def __init__(self, cache: WatchCache, territory: ControlPlaneNetwork) -> None:
        self._cache = cache
        self._territory = territory

    def problem(self, node: str, new: Object, old: Object | None, *, peer: str, alone: bool) -> str:
        """Why a node may not claim what it writes about itself, with the field; empty if it may.

        ``peer`` is the address of its request. Unless ``alone``, raises ``NewClaims`` if there are new
        claims, since other nodes may be claiming too.
        """
        before = old or {}
        if len((new.get("status") or {}).get("addresses") or ()) > MOST_ADDRESSES:
            return f"status.addresses: a node has at most {MOST_ADDRESSES}"
        if len((new.get("spec") or {}).get("podCIDRs") or ()) > MOST_OF_FAMILIES:
            return "spec.podCIDRs: there may be one range of IPv4 and one of IPv6"
        ranges = [each for each in range_texts(new) if each not in range_texts(before)]
        addresses = [each for each in address_texts(new) if each not in address_texts(before)]
        names = [each for each in name_texts(new) if each not in name_texts(before)]
        provider = _provider(new) if _provider(new) != _provider(before) else ""
        if _hostname(new) not in ("", node, _hostname(before)):
            return f"metadata.labels[{HOSTNAME}]: must be the node's own name, {node}"
        if not (ranges or addresses or names or provider):
            return ""
        if not alone:
            raise NewClaims
        others = dict(self._others(node))
        problems = (
            *(f"spec.podCIDRs: {each}" for each in self._range_problems(ranges, new, others)),
            *(f"status.addresses: {each}" for each in self._address_problems(addresses, new, others, peer)),
            *(f"status.addresses: {each}" for each in self._name_problems(node, names, others)),
            *(
                f"spec.providerID: {provider} is node {name}'s"
                for name, other in others.items()
                if provider and provider == other.provider_id
            ),
        )
        return next(iter(problems), "")

    def pod_problem(self, node: str, new: Object, old: Object) -> str:
        """Why a pod's status can't have these addresses, or empty. Services of all machines lead to them."""
        if len((new.get("status") or {}).get("podIPs") or ()) > MOST_OF_FAMILIES:
            return "status.podIPs: there may be one address of IPv4 and one of IPv6"
        known = pod_address_texts(old)
        claimed = [each for each in pod_address_texts(new) if each not in known]
        if not claimed:
            return ""
        own = self._own(node)
        for text in claimed:
            if not _is_address(text):
                return f"status.podIPs: {text[:80]!r} is not an IP address"
            address = ip_address(text)
            if address in own.addresses or any(address in each for each in (*own.ranges, LOOPBACK_PODS)):
                continue
            return f"status.podIPs: {text} is neither in the range of node {node} nor its address"
        return ""

    def control_node_problem(self, new: Object, old: Object | None, *, peer: str) -> str:
        """Why a ControlNode's status can't have these addresses, or empty. Managers send requests to them."""
        known = {each.get("address") for each in _addresses(old or {}) if each.get("type") == "InternalIP"}
        for each in _addresses(new):
            text = str(each.get("address") or "")
            if each.get("type") != "InternalIP" or text in known:
                continue
            if not _is_address(text):
                return f"status.addresses: {text[:80]!r} is not an IP address"
            if not self._is_confirmed(ip_address(text), _caller(peer)):
                return (
                    f"status.addresses: {text} is not the address that the machine calls from; start its "
                    "agent with that one (--node-ip)"
                )
        return ""

    def serving_problem(self, requested: RequestedCertificate) -> str:
        """Why a serving certificate has names or addresses that are not the node's own, or empty."""
        node = requested.common_name.removeprefix(NODE)
        own = self._own(node)
        others = dict(self._others(node))
        for name in requested.dns_names:
            if name == serving_name(node):
                continue
            if name not in own.names:
                return f"{name!r} is not among the names of node {node}"
            if problem := next(self._name_problems("", [name], others), ""):
                return problem
        for text in requested.addresses:
            address = ip_address(text)
            if address not in own.addresses:
                return f"{text} is not among the addresses of node {node}"
            if address in self._territory.server_addresses:
                return f"{text} is an address of the API server"
            if problem := next(self._held_addresses(address, others), ""):
                return problem
        return ""

    def _range_problems(
        self, texts: Collection[str], new: Object, others: dict[str, NetworkClaims]
    ) -> Iterator[str]:
        for text in texts:
            try:
                network = parse_pod_range(text)
            except PodRangeError as problem:
                yield str(problem)
                continue
            if overlapping(network, self._territory.services):
                yield f"{network} overlaps the range of services, {self._territory.services}"
            for address in self._territory.server_addresses:
                if address in network:
                    yield f"{network} holds {address}, an address of the API server"
            for address in claims_of(new).addresses:
                if address in network:
                    yield f"{network} holds {address}, the node's own address"
            for name, other in others.items():
                yield from (
                    f"{network} overlaps {each} of node {name}"
                    for each in other.ranges
                    if overlapping(network, each)
                )
                yield from (
                    f"{network} holds {each}, the address of node {name}"
                    for each in other.addresses
                    if each in network
                )
            cluster, least = self._territory.cluster, self._territory.mask_size
            if not any(contains(each, network) for each in cluster):
                yield (
                    f"{network} is not within the cluster's range, {', '.join(map(str, cluster))}; take one "
                    f"of that, or start the API server with another --cluster-cidr"
                )
            if network.version == 4 and network.prefixlen < least:
                yield (
                    f"{network} is larger than what one node may have, a /{least}; take a smaller one, or "
                    f"start the API server with another --node-cidr-mask-size"
                )
        families = [each.version for each in claims_of(new).ranges]
        if texts and len(families) != len(set(families)):
            yield "there may be one range of IPv4 and one of IPv6"

    def _address_problems(
        self, texts: Collection[str], new: Object, others: dict[str, NetworkClaims], peer: str
    ) -> Iterator[str]:
        for text in texts:
            if why := why_no_node_address(text):
                yield why
                continue
            address = ip_address(text)
            if address in self._territory.services:
                yield f"{text} is in the range of services, {self._territory.services}"
            yield from (
                f"{text} is in the node's own range of pods, {each}"
                for each in claims_of(new).ranges
                if address in each
            )
            yield from self._held_addresses(address, others)
            if not self._is_confirmed(address, caller := _caller(peer)):
                yield (
                    f"{text} is not the address that the node calls from, {caller or 'which is not known'}; "
                    "start it with that one "
                    "(--node-ip), or the API server with the range of its nodes' addresses "
                    "(--node-address-cidr)"
                )

    def _is_confirmed(self, address: Address, caller: Address | None) -> bool:
        """Whether the request comes from this address, or nodes may have it."""
        if address == caller:
            return True
        own = self._territory.server_addresses
        if caller is not None and caller.is_loopback and (address.is_loopback or address in own):
            return True
        return (
            not address.is_loopback
            and address not in own
            and any(address in each for each in self._territory.nodes)
        )

    def _held_addresses(self, address: Address, others: dict[str, NetworkClaims]) -> Iterator[str]:
        for name, other in others.items():
            if not address.is_loopback and address in other.addresses:
                yield (
                    f"{address} is the address of node {name}; if that machine is gone, delete its Node "
                    "(kubectl delete node "
                    f"{name}), and if both run on one machine, give each an address of its own (--node-ip)"
                )
            yield from (
                f"{address} is in {each}, the range of node {name}'s pods"
                for each in other.ranges
                if address in each
            )

    def _name_problems(
        self, node: str, names: Collection[str], others: dict[str, NetworkClaims]
    ) -> Iterator[str]:
        for name in names:
            if name == node:
                continue
            if not is_node_name(name):
                yield f"{name[:260]!r} is no host name"
            if name in self._territory.server_names:
                yield f"{name!r} is a name of the API server"
            yield from (f"{name!r} is node {each}'s" for each, other in others.items() if name in other.names)

    def _others(self, node: str) -> Iterator[tuple[str, NetworkClaims]]:
        for item in self._cache.collection(NODES_PATH).items.values():
            if item.name != node:
                yield item.name, claims_of(codec.decode(item.value))

    def _own(self, node: str) -> NetworkClaims:
        item = self._cache.get(NODES_PATH, f"{ROOT}{NODES_PATH}/{node}")
        return claims_of(codec.decode(item.value)) if item is not None else NetworkClaims()


def _provider(node: Object) -> str:
    return str((node.get("spec") or {}).get("providerID") or "")


def _addresses(obj: Object) -> list[Object]:
    return (obj.get("status") or {}).get("addresses") or []


def _hostname(node: Object) -> str:
    labels = (node.get("metadata") or {}).get("labels") or {}
    return str(labels.get(HOSTNAME) or "")


def _caller(peer: str) -> Address | None:
    """The address in ``HOST:PORT`` or ``[HOST]:PORT``."""
    host = peer.rpartition(":")[0].strip("[]")
    if not _is_address(host):
        return None
    address = ip_address(host)
    return getattr(address, "ipv4_mapped", None) or address


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
