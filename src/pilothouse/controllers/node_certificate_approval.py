"""Approves the certificate signing requests of nodes that join or renew.

A client certificate with exactly the subject and usages of that signer, and no other names, is approved for

* a client with a bootstrap token (a group ``system:bootstrappers`` or ``system:bootstrappers:…``), for a node
  that does not exist yet: it joins. If the token names a node, only for that one; if not, for none that got a
  certificate within the last hour, and may be about to register. A ControlNode exists before the agent of its
  machine joins: a token that names it is enough until an agent has reported its status; or
* the node that the certificate is for: it renews.

A serving certificate is approved for the node itself and the one name that only its server has: the same
authority signs for the API server, so any other name may belong to it. Everything else is left to people
(``kubectl certificate approve``); nothing is denied.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import CertificateSigningRequest, ControlNode, Node
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
"""Seconds within which a machine with a certificate should register its Node."""


@controller(CertificateSigningRequest, reads=(Node, ControlNode), standalone=True)
def node_requests(request: Object, world: Snapshot) -> Iterator[Intent]:
    """Approve a node's request for one of its certificates."""
    given = request.status.get("conditions") or []
    if request.spec.get("signerName") not in _PURPOSES or request.deleting:
        return
    if any(one.get("type") in _VERDICTS for one in given) or request.status.get("certificate"):
        return
    if problem := _why_not_approved(request, world):
        yield Wait(
            "NeedsApproval",
            because=f"not approved automatically: {problem}",
            remedy=f"check it, then: kubectl certificate approve {request.name}",
        )
        return
    purpose = _PURPOSES[request.spec["signerName"]]
    why = f"{request.spec.get('username')} may have a {purpose} certificate for this node"
    verdict = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": why}
    fields: Tree = {"status": {"conditions": [*given, verdict]}}
    yield PatchObject(request, fields, subresource="approval", exact=True, because=why)


def _why_not_approved(request: Object, world: Snapshot) -> str:
    """Why a request is not approved; empty if it is."""
    try:
        asked = read_request(b64decode(str(request.spec.get("request") or ""), validate=True))
    except (RequestError, ValueError) as problem:
        return f"it can't be read: {problem}"
    signer = request.spec["signerName"]
    if refusal := why_refused(signer, asked, request.spec.get("usages") or ()):
        return refusal
    return (
        _why_no_serving_certificate(request, asked)
        if signer == NODE_SERVING
        else _why_no_client_certificate(request, asked, world)
    )


def _why_no_serving_certificate(request: Object, asked: RequestedCertificate) -> str:
    """Why a node may not serve under these names; empty if it may."""
    if request.spec.get("username") != asked.common_name or NODES not in (request.spec.get("groups") or ()):
        return f"{request.spec.get('username')} is not the node {asked.common_name}"
    own = serving_name(asked.common_name.removeprefix(NODE))
    if asked.dns_names != (own,) or asked.addresses:
        return f"the only name that is approved automatically for a node is {own}"
    return ""


def _why_no_client_certificate(request: Object, asked: RequestedCertificate, world: Snapshot) -> str:
    """Why the requester may not have a certificate for this node; empty if it may."""
    groups = request.spec.get("groups") or ()
    user = request.spec.get("username")
    if any(group == _BOOTSTRAPPERS or group.startswith(f"{_BOOTSTRAPPERS}:") for group in groups):
        # A token must not be enough to impersonate an existing node.
        name = asked.common_name.removeprefix(NODE)
        meant = tuple((request.spec.get("extra") or {}).get(JOINING_NODE) or ())
        controller = world.find(ControlNode, "", name)
        if world.find(Node, "", name) is not None or (
            controller is not None and (meant != (name,) or _is_reported(controller))
        ):
            return f"node {name} exists already; a machine that joins needs another name"
        if meant:
            return "" if meant == (name,) else f"the token is for the node {', '.join(meant)}"
        return _about_to_register(request, asked, world)
    if NODES in groups and user == asked.common_name:
        return ""
    return f"{user} is not the node {asked.common_name} and has no bootstrap token"


def _is_reported(control_node: Object) -> bool:
    """Whether the agent of the machine has written its status; the conditions are the leading manager's."""
    return any(name != "conditions" for name in control_node.status)


def _about_to_register(request: Object, asked: RequestedCertificate, world: Snapshot) -> str:
    """Which other request got a certificate for the node just before, as a message; empty if none did."""
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
                f"the request {other.name} got a certificate for {name} already; to replace its machine, "
                f"create a token for this node (pilothouse token create --node {name.removeprefix(NODE)})"
            )
    return ""
