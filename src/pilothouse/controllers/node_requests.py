"""A node that joins, or whose certificate runs out, gets a client certificate without anybody's hand.

A request is approved if it is for the signer of nodes' client certificates, asks for exactly what that signer gives (subject,
usages, no other names), and comes from

* who has a bootstrap token (a group ``system:bootstrappers`` or ``system:bootstrappers:…``), for a node that is not there
  yet: one that joins; or
* the very node that the certificate is for: one that renews it.

Everything else is for people: ``kubectl certificate approve``. Nothing is ever denied here. The API server signs what is approved.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from pilothouse.api.nouns import CertificateSigningRequest, Node
from pilothouse.api.objects import Object, Tree
from pilothouse.pki.signers import NODE, NODE_CLIENT, NODES, why_refused
from pilothouse.pki.signing import Asked, RequestError, read_request
from pilothouse.runtime.declaring import controller
from pilothouse.runtime.intents import Intent, Patch, Wait
from pilothouse.runtime.world import World

_BOOTSTRAPPERS: Final = "system:bootstrappers"
_VERDICTS: Final = frozenset({"Approved", "Denied"})


@controller(CertificateSigningRequest, reads=Node, standalone=True)
def node_requests(request: Object, world: World) -> Iterator[Intent]:
    """A node's request for its client certificate is approved."""
    given = request.status.get("conditions") or []
    if request.spec.get("signerName") != NODE_CLIENT or request.deleting:
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
    why = f"{request.spec.get('username')} may have a client certificate for this node"
    verdict = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": why}
    fields: Tree = {"status": {"conditions": [*given, verdict]}}
    yield Patch(request, fields, subresource="approval", exact=True, because=why)


def _doubt(request: Object, world: World) -> str:
    """What keeps us from approving a request; empty if nothing does."""
    try:
        asked = read_request(b64decode(str(request.spec.get("request") or ""), validate=True))
    except (RequestError, ValueError) as problem:
        return f"it can't be read: {problem}"
    refusal = why_refused(NODE_CLIENT, asked, request.spec.get("usages") or ())
    return refusal or _stranger(request, asked, world)


def _stranger(request: Object, asked: Asked, world: World) -> str:
    """Why whoever made it may not ask for this node; empty if they may."""
    groups = request.spec.get("groups") or ()
    user = request.spec.get("username")
    if any(group == _BOOTSTRAPPERS or group.startswith(f"{_BOOTSTRAPPERS}:") for group in groups):
        # A token must not be enough to take the place of a machine that runs.
        name = asked.common_name.removeprefix(NODE)
        there = world.find(Node, "", name) is not None
        return f"there is a node {name} already, and whoever joins takes another name" if there else ""
    if NODES in groups and user == asked.common_name:
        return ""
    return f"{user} is neither the node {asked.common_name} nor has a bootstrap token"
