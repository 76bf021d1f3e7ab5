"""Joins a machine to a control plane: a one-time token becomes a client certificate.

    await join(JoinToken.parse(text), "db-3", NodeCredentials(folder), clock)

1. Fetch the server's certificate authority and compare it with the token's hash, before the token is sent.
2. Make a key here, and request a certificate with the token; a controller approves, the server signs.
3. Write key, certificate and kubeconfig. From here on the machine is ``system:node:NAME``.

An interrupted join can be repeated; if the certificate was signed already, with another token.
"""

from __future__ import annotations

import random
from http import HTTPStatus

from pilothouse.base.clock import Clock
from pilothouse.client import server_authorities
from pilothouse.client.access import Access, AccessError
from pilothouse.client.api import Api
from pilothouse.client.certificate_requests import CertificateRequest, obtain
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.join_token import JoinToken
from pilothouse.meta.errors import StatusError
from pilothouse.node.machine.node_credentials import NodeCredentials
from pilothouse.pki.authority import KeyPair
from pilothouse.pki.certificate_request import new_request
from pilothouse.pki.signers import NODE, NODE_CLIENT, NODES

AGENT = "pilothouse-join"
PATIENCE = 60.0
"""Seconds to wait for the approval of the request."""


async def join(
    token: JoinToken, name: str, identity: NodeCredentials, clock: Clock, *, patience: float = PATIENCE
) -> None:
    """Make this machine the node ``name``. Raises ``AccessError``, ``RequestRefused``, ``StatusError`` or
    ``TransportError``; nothing is changed then."""
    known = await server_authorities.recognised(token.urls, token.pins, clock, agent=AGENT)
    access = Access(token.url, others=token.others, authority=known, token=token.bearer)
    async with HttpTransport.open(access, clock, agent=AGENT) as transport:
        api = Api(transport, random.Random(), manager=AGENT)
        try:
            # The server may trust several authorities while one replaces another.
            trusted = await server_authorities.published(api)
            credential = await request_client_certificate(api, name, patience=patience)
        except StatusError as refusal:
            if refusal.code != HTTPStatus.UNAUTHORIZED:
                raise
            raise AccessError(
                f"{token.url} rejects the token {token.identifier}: it has expired, was revoked, or is "
                "misspelled. `pilothouse token create` on that server creates another"
            ) from None
    identity.write_authorities(trusted or known)
    identity.write_credential(credential)
    identity.write_kubeconfig(token.urls, name)


async def request_client_certificate(api: Api, name: str, *, patience: float) -> KeyPair:
    """A client certificate of the node, on a key that never leaves this machine."""
    request = new_request(f"{NODE}{name}", [NODES])
    wanted = CertificateRequest(NODE_CLIENT, "client auth", request.pem, f"node-csr-{name}-")
    return KeyPair(await obtain(api, wanted, patience=patience), request.key)
