"""The signers that our API server is, and what may be asked of each.

    problem = why_refused("kubernetes.io/kube-apiserver-client", asked, ("client auth",))     # "" if it may be signed

They are Kubernetes' own, with its rules. Requests for other signers are for others to sign.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from pilothouse.pki.signing import Asked

CLIENT = "kubernetes.io/kube-apiserver-client"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
NODES = "system:nodes"
NODE = "system:node:"
NODE_DOMAIN = "node.pilothouse.internal"
_ENCIPHER = "key encipherment"


def serving_name(node: str) -> str:
    """The host name by which a node's own server is known: one that can be nobody else's, whatever a node is called."""
    return f"{node}.{NODE_DOMAIN}"


def _check_client(asked: Asked, usages: frozenset[str]) -> Iterator[str]:
    allowed = {"client auth", "digital signature", _ENCIPHER}
    if "client auth" not in usages:
        yield 'the usages must have "client auth"'
    if extra := usages - allowed:
        yield f"the usages may only be {_listed(allowed)}, not {_listed(extra)}"


def _check_node_client(asked: Asked, usages: frozenset[str]) -> Iterator[str]:
    yield from _check_node(asked, usages, "client auth")
    if asked.dns_names or asked.addresses:
        yield "there may be no subject alternative names"


def _check_node_serving(asked: Asked, usages: frozenset[str]) -> Iterator[str]:
    yield from _check_node(asked, usages, "server auth")
    if not asked.dns_names and not asked.addresses:
        yield "there must be a DNS name or an IP address among the subject alternative names"


def _check_node(asked: Asked, usages: frozenset[str], purpose: str) -> Iterator[str]:
    if asked.organizations != (NODES,):
        yield f'the subject\'s organization must be "{NODES}" alone'
    if not asked.common_name.startswith(NODE):
        yield f'the subject\'s common name must begin with "{NODE}"'
    if asked.emails or asked.uris:
        yield "there may be no e-mail addresses or URIs among the subject alternative names"
    if usages - {_ENCIPHER} != {purpose, "digital signature"}:
        yield f'the usages must be "{purpose}", "digital signature" and, if you like, "{_ENCIPHER}"'


_RULES: dict[str, Callable[[Asked, frozenset[str]], Iterator[str]]] = {
    CLIENT: _check_client,
    NODE_CLIENT: _check_node_client,
    NODE_SERVING: _check_node_serving,
}
SIGNERS = frozenset(_RULES)


def why_refused(signer: str, asked: Asked, usages: Collection[str]) -> str:
    """What speaks against signing; empty if nothing does."""
    return "; ".join(_RULES[signer](asked, frozenset(usages)))


def _listed(usages: Collection[str]) -> str:
    return ", ".join(f'"{each}"' for each in sorted(usages))
