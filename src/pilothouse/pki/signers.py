"""The signers of our API server.

    problem = why_refused("kubernetes.io/kube-apiserver-client", requested, ("client auth",))  # "" if allowed

They are Kubernetes' own, with its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from ipaddress import ip_address

from pilothouse.base.node_names import is_node_name, why_no_node_name
from pilothouse.pki.request_signing import RequestedCertificate

CLIENT = "kubernetes.io/kube-apiserver-client"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
NODES = "system:nodes"
NODE = "system:node:"
NODE_DOMAIN = "node.pilothouse.internal"
JOINING_NODE = "pilothouse.io/node-name"
"""In the ``extra`` of a bootstrap token's user: the only node that the token is for, if any."""
_ENCIPHER = "key encipherment"
_SERVER_NAMES = frozenset({"localhost", "kubernetes", "kubernetes.default"})
"""What the API server is called, and services: the same authority stands behind its certificate."""
_SERVER_DOMAINS = (".localhost", ".svc", ".cluster.local")


def serving_name(node: str) -> str:
    """The host name of a node's server, unique whatever the node is called."""
    return f"{node}.{NODE_DOMAIN}"


def _check_client(requested: RequestedCertificate, usages: frozenset[str]) -> Iterator[str]:
    allowed = {"client auth", "digital signature", _ENCIPHER}
    if "client auth" not in usages:
        yield 'the usages must have "client auth"'
    if extra := usages - allowed:
        yield f"the usages may only be {_listed(allowed)}, not {_listed(extra)}"


def _check_node_client(requested: RequestedCertificate, usages: frozenset[str]) -> Iterator[str]:
    yield from _check_node(requested, usages, "client auth")
    if requested.dns_names or requested.addresses:
        yield "there may be no subject alternative names"


def _check_node_serving(requested: RequestedCertificate, usages: frozenset[str]) -> Iterator[str]:
    yield from _check_node(requested, usages, "server auth")
    if not requested.dns_names and not requested.addresses:
        yield "there must be a DNS name or an IP address among the subject alternative names"
    own = serving_name(requested.common_name.removeprefix(NODE))
    for name in requested.dns_names:
        if not is_node_name(name):
            yield f"{name!r} is no DNS name that one node can have"
        elif name in _SERVER_NAMES or name.endswith(_SERVER_DOMAINS):
            yield f"{name!r} is a name of the API server, or of a service"
        elif name != own and (name == NODE_DOMAIN or name.endswith(f".{NODE_DOMAIN}")):
            yield f"{name!r} is another node's name; this node's is {own!r}"
    for address in map(ip_address, requested.addresses):
        if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local:
            yield f"{address} is no address that one node alone can have"


def _check_node(requested: RequestedCertificate, usages: frozenset[str], purpose: str) -> Iterator[str]:
    if requested.organizations != (NODES,):
        yield f'the subject\'s organization must be "{NODES}" alone'
    if not requested.common_name.startswith(NODE):
        yield f'the subject\'s common name must begin with "{NODE}"'
    elif why := why_no_node_name(requested.common_name.removeprefix(NODE)):
        yield f"the subject's common name: {why}"
    if requested.other_attributes:
        named = ", ".join(requested.other_attributes)
        yield f"the subject may have nothing but its organization and common name, not the attributes {named}"
    if requested.emails or requested.uris or requested.other_names:
        yield "there may be nothing but DNS names and IP addresses among the subject alternative names"
    if usages - {_ENCIPHER} != {purpose, "digital signature"}:
        yield f'the usages must be "{purpose}", "digital signature" and, if you like, "{_ENCIPHER}"'


_RULES: dict[str, Callable[[RequestedCertificate, frozenset[str]], Iterator[str]]] = {
    CLIENT: _check_client,
    NODE_CLIENT: _check_node_client,
    NODE_SERVING: _check_node_serving,
}
SIGNERS = frozenset(_RULES)


def why_refused(signer: str, requested: RequestedCertificate, usages: Collection[str]) -> str:
    """Why not to sign, or empty."""
    return "; ".join(_RULES[signer](requested, frozenset(usages)))


def _listed(usages: Collection[str]) -> str:
    return ", ".join(f'"{each}"' for each in sorted(usages))
