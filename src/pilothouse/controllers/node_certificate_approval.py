"""A node that joins, or whose certificate runs out, gets its certificates without anybody's hand.

A request for a client certificate is approved if it asks for exactly what that signer gives (subject, usages, no other names),
and comes from

* who has a bootstrap token (a group ``system:bootstrappers`` or ``system:bootstrappers:…``), for a node that is not there
  yet: one that joins. If the token is for a node by name, for that one alone; if not, for none that has got a certificate
  within the last hour, and may be about to register; or
* the very node that the certificate is for: one that renews it.

A request for the certificate of a node's own server is approved if it comes from that node and is for the one name which
only that node's server has. Other names and addresses are somebody else's perhaps: the same authority stands behind the
API server.

Everything else is for people: ``kubectl certificate approve``. Nothing is ever denied here. The API server signs what is approved.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import CertificateSigningRequest, Node
from pilothouse.api.objects import Object, Tree
from pilothouse.pki.request_signing import RequestedCertificate, RequestError, read_request
from pilothouse.pki.signers import (
    JOINING_NODE,
    NODE,
    NODE_CLIENT,
    NODE_SERVING,
    NODES,
    serving_name,
    why_refused,
)
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Intent, PatchObject, Wait
from pilothouse.runtime.snapshot import Snapshot

_BOOTSTRAPPERS: Final = "system:bootstrappers"
_PURPOSES: Final = {NODE_CLIENT: "client", NODE_SERVING: "serving"}
_VERDICTS: Final = frozenset({"Approved", "Denied"})
_REGISTERS_WITHIN: Final = 3600.0
"""Seconds that a machine with a certificate is expected to make its Node in."""


@controller(CertificateSigningRequest, reads=Node, standalone=True)
def node_requests(request: Object, world: Snapshot) -> Iterator[Intent]:
    """A node's request for one of its certificates is approved."""
    given = request.status.get("conditions") or []
    if request.spec.get("signerName") not in _PURPOSES or request.deleting:
        return
    if any(one.get("type") in _VERDICTS for one in given) or request.status.get("certificate"):
        return
    if problem := _doubt(request, world):
        yield Wait(
            "NeedsApproval",
            because=f"it is not approved by itself: {problem}",
            remedy=f"look at it, and if it is right: kubectl certificate approve {request.name}",
        )
        return
    purpose = _PURPOSES[request.spec["signerName"]]
    why = f"{request.spec.get('username')} may have a {purpose} certificate for this node"
    verdict = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": why}
    fields: Tree = {"status": {"conditions": [*given, verdict]}}
    yield PatchObject(request, fields, subresource="approval", exact=True, because=why)


def _doubt(request: Object, world: Snapshot) -> str:
    """What keeps us from approving a request; empty if nothing does."""
    try:
        asked = read_request(b64decode(str(request.spec.get("request") or ""), validate=True))
    except (RequestError, ValueError) as problem:
        return f"it can't be read: {problem}"
    signer = request.spec["signerName"]
    if refusal := why_refused(signer, asked, request.spec.get("usages") or ()):
        return refusal
    return _other_names(request, asked) if signer == NODE_SERVING else _stranger(request, asked, world)


def _other_names(request: Object, asked: RequestedCertificate) -> str:
    """Why a node may not serve under these names; empty if it may."""
    if request.spec.get("username") != asked.common_name or NODES not in (request.spec.get("groups") or ()):
        return f"{request.spec.get('username')} is not the node {asked.common_name}"
    own = serving_name(asked.common_name.removeprefix(NODE))
    if asked.dns_names != (own,) or asked.addresses:
        return f"the only name that a node gets by itself is {own}"
    return ""


def _stranger(request: Object, asked: RequestedCertificate, world: Snapshot) -> str:
    """Why whoever made it may not ask for this node; empty if they may."""
    groups = request.spec.get("groups") or ()
    user = request.spec.get("username")
    if any(group == _BOOTSTRAPPERS or group.startswith(f"{_BOOTSTRAPPERS}:") for group in groups):
        # A token must not be enough to take the place of a machine that runs.
        name = asked.common_name.removeprefix(NODE)
        if world.find(Node, "", name) is not None:
            return f"there is a node {name} already, and whoever joins takes another name"
        meant = (request.spec.get("extra") or {}).get(JOINING_NODE) or ()
        if meant:
            return "" if tuple(meant) == (name,) else f"the token is for the node {', '.join(meant)}"
        return _about_to_register(request, asked, world)
    if NODES in groups and user == asked.common_name:
        return ""
    return f"{user} is neither the node {asked.common_name} nor has a bootstrap token"


def _about_to_register(request: Object, asked: RequestedCertificate, world: Snapshot) -> str:
    """Whether another machine got a certificate for the node just before; empty if none did."""
    for other in world.all(CertificateSigningRequest):
        if other.name == request.name or other.spec.get("username") == request.spec.get("username"):
            continue
        if other.spec.get("signerName") != NODE_CLIENT or not other.status.get("certificate"):
            continue
        if world.now - other.created > _REGISTERS_WITHIN:
            continue
        try:
            name = read_request(b64decode(str(other.spec.get("request") or ""))).common_name
        except (RequestError, ValueError):
            continue
        if name == asked.common_name:
            return (
                f"the request {other.name} got a certificate for {name} already; if its machine is to be replaced, make a token "
                f"for this node by name (pilothouse token create --node {name.removeprefix(NODE)})"
            )
    return ""
