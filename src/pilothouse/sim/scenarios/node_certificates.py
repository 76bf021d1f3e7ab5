"""Certificate requests of nodes and of other users, and users who deny some."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Final

from pilothouse.api.kind_names import CertificateSigningRequest
from pilothouse.api.objects import Object, Tree
from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.server.messages import User
from pilothouse.client.api import Api
from pilothouse.controllers.invariants import PROMISES
from pilothouse.controllers.node_certificate_approval import node_requests
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.pki.certificate_request import new_request
from pilothouse.pki.signers import NODE, NODE_CLIENT, NODES
from pilothouse.sim.fleet import Scenario, UserAction
from pilothouse.sim.scenarios.user_actions import Do, create, delete

_ALL: Final = "system:authenticated"
_JOINING: Final = User("joining", groups=(MASTERS, "system:bootstrappers:bottle", _ALL))
_STRANGER: Final = User("eve", groups=(MASTERS, _ALL))
_VERDICT: Final = {"type": "Denied", "status": "True", "reason": "NotOurs", "message": "unknown node"}


def node_askers(rng: Random) -> Sequence[UserAction]:
    """Nodes join and renew, other users request the same, and users deny, delete and repeat requests."""
    doing = [_asks(15, "a", _JOINING), _asks(1, "b", _STRANGER)]
    for _ in range(rng.randint(4, 10)):
        after, node = rng.uniform(0, 20), rng.choice("abcd")
        match rng.choice(("join", "join", "renew", "stranger", "deny", "delete")):
            case "join":
                doing.append(_asks(after, node, _JOINING))
            case "renew":
                doing.append(_asks(after, node, User(f"{NODE}{node}", groups=(NODES, _ALL))))
            case "stranger":
                doing.append(_asks(after, node, _STRANGER))
            case "deny":
                doing.append(UserAction(after, f"deny {node}", _deny(f"csr-{node}")))
            case _:
                do = delete(CertificateSigningRequest, f"csr-{node}")
                doing.append(UserAction(after, f"delete {node}'s", do))
    return doing


async def requests_settled(api: Api) -> str:
    """Every permitted request that was not denied has a certificate; no other has one."""
    for one in (await api.list(CertificateSigningRequest)).objects:
        entitled = one.spec["username"] != _STRANGER.name and not one.is_true("Denied")
        if entitled != bool(one.status.get("certificate")):
            return f"{one.name} of {one.spec['username']} says {_verdicts(one) or 'nothing'}"
    return ""


def _asks(after: float, node: str, user: User) -> UserAction:
    tree: Tree = {
        "metadata": {"name": f"csr-{node}"},
        "spec": {
            "signerName": NODE_CLIENT,
            "usages": ["client auth", "digital signature"],
            "request": _request(node),
        },
    }
    do = create(CertificateSigningRequest, tree)
    return UserAction(after, f"{user.name} asks for {node}'s", do, user=user)


@lru_cache(maxsize=8)
def _request(node: str) -> str:
    """Generated once: no decision depends on its content."""
    return b64encode(new_request(f"{NODE}{node}", [NODES]).pem).decode()


def _deny(name: str) -> Do:
    async def do(api: Api) -> Object | None:
        found = await api.find(CertificateSigningRequest, name)
        if found is None:
            return None
        metadata = {"resourceVersion": found.resource_version}
        conditions = [*(found.status.get("conditions") or ()), _VERDICT]
        fields = {"metadata": metadata, "status": {"conditions": conditions}}
        return await api.patch(CertificateSigningRequest, name, "", fields, subresource="approval")

    return do


def _verdicts(one: Object) -> str:
    return ", ".join(each["type"] for each in one.status.get("conditions") or ())


JOINING = Scenario(
    "joining",
    (node_requests, service_accounts),
    node_askers,
    requests_settled,
    PROMISES["node-requests"],
    nodes=0,
)
