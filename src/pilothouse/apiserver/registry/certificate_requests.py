"""CertificateSigningRequests: who requests, who may approve, who may sign.

    rules:
    - apiGroups: [certificates.k8s.io]
      resources: [signers]
      resourceNames: [example.com/*]
      verbs: [approve, sign]

The requesting user is recorded for good. ``…/approval`` needs ``approve`` on the signer, ``…/status`` needs
``sign``; the permission to write requests is not enough for either.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from pilothouse.aio.worker_thread import on_loop
from pilothouse.api.kubernetes.certificates_v1 import GROUP
from pilothouse.apiserver.authentication.bootstrap_tokens import GROUP as TOKEN_GROUP
from pilothouse.apiserver.authentication.bootstrap_tokens import USER as TOKEN_USER
from pilothouse.apiserver.authorization.authorizer import MASTERS, Attributes, Authorizer
from pilothouse.apiserver.endpoints import strict_decoding
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.server.messages import User
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object
from pilothouse.pki.request_signing import RequestedCertificate, RequestError, read_request
from pilothouse.pki.signers import CLIENT, JOINING_NODE, NODE, NODE_CLIENT, why_refused

_VERDICTS = ("Approved", "Denied")


class CertificateRequestStrategy(Strategy):
    status_subresources = ("status", "approval")

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def prepare_create(self, call: ResourceRequest, obj: Object) -> None:
        """Set the requesting user, whatever the request says."""
        spec = obj.get("spec")
        if not isinstance(spec, dict):
            return
        user = call.request.user
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {name: list(values) for name, values in user.extra.items()}

    def prepare_status(self, call: ResourceRequest, sent: Object, live: Object, now: float) -> Object:
        """``approval`` sets conditions only; ``status`` sets all but approval conditions."""
        if call.subresource == "approval":
            status = _with_conditions(live.get("status") or {}, _conditions(sent), live, now)
        else:
            given = {each["type"]: each for each in _conditions(live) if each.get("type") in _VERDICTS}
            kept = [given.get(each.get("type", ""), each) for each in _conditions(sent)]
            status = _with_conditions(sent.get("status") or {}, kept, live, now)
        return {**sent, "status": status}

    def authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        """403 if the user may not approve, sign or request that."""
        on_loop(self._authorize, call, new, old)

    def _authorize(self, call: ResourceRequest, new: Object, old: Object | None) -> None:
        if old is None:
            _check_subject(call, new)
        elif call.subresource == "approval":
            self._demand(call, "approve", old)
        elif call.subresource == "status" and new.get("status") != old.get("status"):
            self._demand(call, "sign", old)
            _check_outcome(call, new, old)

    def _demand(self, call: ResourceRequest, verb: str, request: Object) -> None:
        signer = request["spec"]["signerName"]
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            requested = Attributes(verb, group=GROUP, version="*", resource="signers", name=name)
            if self._authorizer.decide(call.request.user, requested).allowed:
                return
        detail = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise errors.forbidden(call.served.kind.plural, GROUP, call.name, detail)


def requested_in(request: Object) -> RequestedCertificate:
    """The requested certificate. Raises ``RequestError``."""
    try:
        return read_request(b64decode(request["spec"].get("request") or "", validate=True))
    except ValueError as problem:
        raise RequestError(f"not base64: {problem}") from None


def _check_subject(call: ResourceRequest, request: Object) -> None:
    """Refuse a request that is malformed, or asks for more than its user may have."""
    spec = request.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("request"), str):
        return  # The kind's own validation refuses it.
    try:
        requested = requested_in(request)
    except RequestError as problem:
        unreadable = FieldError.invalid("spec.request", spec["request"][:80], str(problem))
        raise strict_decoding.invalid(call.served.kind, request, [unreadable]) from None
    if spec.get("signerName") == CLIENT and MASTERS in requested.organizations:
        detail = f"use of {CLIENT} signer with {MASTERS} group is not allowed"
        raise errors.forbidden(call.served.kind.plural, GROUP, request["metadata"].get("name") or "", detail)
    if detail := _beyond_token(call.request.user, spec, requested):
        raise errors.forbidden(call.served.kind.plural, GROUP, request["metadata"].get("name") or "", detail)


def _beyond_token(user: User, spec: dict[str, Any], requested: RequestedCertificate) -> str:
    """Why a bootstrap token does not allow that; empty if it does, or there is none."""
    if not user.name.startswith(TOKEN_USER) or TOKEN_GROUP not in user.groups:
        return ""
    if spec.get("signerName") != NODE_CLIENT:
        return f"spec.signerName: a bootstrap token is for certificates of {NODE_CLIENT}"
    if problem := why_refused(NODE_CLIENT, requested, spec.get("usages") or ()):
        return f"spec.request: {problem}"
    meant = user.extra.get(JOINING_NODE) or ()
    if meant and requested.common_name != f"{NODE}{meant[0]}":
        return f"spec.request: the bootstrap token is for the node {meant[0]}; join with --name {meant[0]}"
    return ""


def _check_outcome(call: ResourceRequest, new: Object, old: Object) -> None:
    """Refuse conditions of approval in a write that signs."""
    before = {each.get("type") for each in _conditions(old)}
    added = [each.get("type") for each in _conditions(new) if each.get("type") in _VERDICTS]
    problems = [
        FieldError.forbidden("status.conditions", f'updates may not add a condition of type "{each}"')
        for each in added
        if each not in before
    ]
    if problems:
        raise strict_decoding.invalid(call.served.kind, new, problems)


def _conditions(request: Object) -> list[dict[str, Any]]:
    """The conditions of a request; none if they have the wrong shape, which validation refuses."""
    found = (request.get("status") or {}).get("conditions")
    return found if isinstance(found, list) else []


def _with_conditions(
    status: dict[str, Any], conditions: list[dict[str, Any]], live: Object, now: float
) -> dict[str, Any]:
    """A status with these conditions, each with its times."""
    without = {name: value for name, value in status.items() if name != "conditions"}
    if not conditions:
        return without
    since = {
        (each.get("type"), each.get("status")): each["lastTransitionTime"]
        for each in _conditions(live)
        if each.get("lastTransitionTime")
    }
    moment = format_time(now)
    dated = [
        {
            **each,
            "lastUpdateTime": each.get("lastUpdateTime") or moment,
            "lastTransitionTime": each.get("lastTransitionTime")
            or since.get((each.get("type"), each.get("status")), moment),
        }
        for each in conditions
    ]
    return {**without, "conditions": dated}
