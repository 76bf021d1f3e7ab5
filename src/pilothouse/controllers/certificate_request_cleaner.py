"""Deletes certificate signing requests that are no longer needed, as kube-controller-manager does.

An hour after its certificate was issued, it was denied, or could not be signed; a day after its creation if
it is still pending; and when its certificate has expired. An approved one that waits for its signer stays.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from pilothouse.api.kind_names import CertificateSigningRequest
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import parse_time
from pilothouse.pki.authority import UnusableError
from pilothouse.pki.certificate_info import certificates_in
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Delete, Intent, RequeueAfter
from pilothouse.runtime.snapshot import Snapshot

SETTLED_SECONDS: Final = 3600.0
PENDING_SECONDS: Final = 24 * 3600.0


@controller(CertificateSigningRequest, standalone=True)
def certificate_request_cleaner(request: Object, world: Snapshot) -> Iterator[Intent]:
    """Delete a request some time after it was decided, or when it stays pending."""
    if request.deleting:
        return
    ends = list(_ends(request))
    if not ends:
        return
    moment, plan, because = min(ends)
    if moment > world.now:
        yield RequeueAfter(moment - world.now, because=f"deleted {plan}")
    else:
        yield Delete(request, exact=True, because=because)


def _ends(request: Object) -> Iterator[tuple[float, str, str]]:
    """When it may be deleted: the moment, what is said before it, and what is said then."""
    conditions = request.status.get("conditions") or []
    issued = str(request.status.get("certificate") or "")
    if not conditions:
        plan = "a day after it was created, if it is still neither approved nor denied"
        yield request.created + PENDING_SECONDS, plan, "it was neither approved nor denied for a day"
    for condition in conditions:
        match condition.get("type"):
            case "Approved" if issued:
                event = "its certificate was issued"
            case "Denied":
                event = "it was denied"
            case "Failed":
                event = "it could not be signed"
            case _:
                continue
        moment = _written_at(condition, request) + SETTLED_SECONDS
        yield moment, f"an hour after {event}", f"{event} an hour ago or longer"
    if issued and (until := _valid_until(issued)) is not None:
        yield until, "when its certificate expires", "its certificate has expired"


def _written_at(condition: dict[str, str], request: Object) -> float:
    """When a condition was last written; without a date, when the request was created."""
    given = condition.get("lastUpdateTime") or condition.get("lastTransitionTime")
    try:
        return parse_time(given) if given else request.created
    except ValueError:
        return request.created


def _valid_until(certificate: str) -> float | None:
    """The expiry of an issued certificate; None if it is not a certificate."""
    try:
        found = certificates_in(b64decode(certificate, validate=True))
    except (binascii.Error, UnusableError):
        return None
    return found[0].expires.timestamp() if found else None
