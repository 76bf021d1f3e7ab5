"""Requests a certificate and waits until it is approved and signed.

    certificate = await obtain(api, CertificateRequest(NODE_CLIENT, "client auth", pem, "csr-"), patience=60)

Each attempt is a CertificateSigningRequest of its own.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from dataclasses import dataclass

from pilothouse.api.kind_names import CertificateSigningRequest
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.meta.errors import StatusError

_LOOK = (0.05, 2.0)
"""Seconds between two looks at a request, at first and at most."""
_UNSEEN = 6
"""Looks at which it may not be there yet."""


class CertificateDenied(Exception):
    """The request was denied or failed; the message says why, and what a person can do."""


@dataclass(frozen=True)
class CertificateRequest:
    signer: str
    purpose: str
    """``client auth`` or ``server auth``."""
    request: bytes
    """PEM."""
    prefix: str
    """What the request's name begins with."""
    seconds: int | None = None
    """How long it should last, if that is less than the signer gives."""


async def obtain(api: Api, wanted: CertificateRequest, *, patience: float) -> bytes:
    """The certificate, PEM. Raises ``CertificateDenied``; ``StatusError`` or ``TransportError`` if the
    request fails."""
    spec = {
        "request": b64encode(wanted.request).decode(),
        "signerName": wanted.signer,
        "usages": [wanted.purpose, "digital signature"],
        **({"expirationSeconds": wanted.seconds} if wanted.seconds else {}),
    }
    made = await api.create(
        CertificateSigningRequest,
        {
            "apiVersion": CertificateSigningRequest.api_version,
            "kind": CertificateSigningRequest.kind,
            "metadata": {"generateName": wanted.prefix},
            "spec": spec,
        },
    )
    try:
        async with asyncio.timeout(patience):
            return await _signed(api, made)
    except TimeoutError:
        raise CertificateDenied(
            f"the certificate request {made.name} was neither approved nor denied in {patience:g} s; is a "
            f"controller-manager running? `pilothouse why csr/{made.name}` says what it waits for"
        ) from None


async def _signed(api: Api, request: Object) -> bytes:
    pause, longest = _LOOK
    unseen = 0
    while True:
        for condition in request.status.get("conditions") or ():
            if condition.get("type") in ("Denied", "Failed"):
                why = condition.get("message") or condition.get("reason") or "no reason is given"
                raise CertificateDenied(
                    f"the certificate request {request.name} was {condition['type'].lower()}: {why}"
                )
        if encoded := request.status.get("certificate"):
            return b64decode(encoded)
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)
        try:
            request = await api.get(CertificateSigningRequest, request.name)
        except StatusError as refusal:
            # Another server of several, which has not seen yet that the request is ours.
            unseen += 1
            if refusal.code not in (403, 404) or unseen > _UNSEEN:
                raise
