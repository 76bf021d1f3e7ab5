"""Authorizes requests.

    permits = PermissionCheck(authorizer)
    permits.demand(request, Attributes.of_path("get", "/version"))       # raises a 403 that says why
    permits.demand_place(request, "list", locate(request.path), params)
    permits.fence(request)                                               # the leadership of a write

The decision is left in the request for its audit record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.apiserver.authorization.authorizer import Attributes, Authorizer, demand, refusal
from pilothouse.apiserver.endpoints.request_info import RequestInfo
from pilothouse.apiserver.registry.node_proxy import asks_for_figures, asks_for_session
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.storage.leadership_fence import WriteFence, fence_of
from pilothouse.meta.selectors import FieldSelector, SelectorError

_SELECTING_VERBS: Final = frozenset({"list", "watch", "deletecollection"})
_POD_SESSIONS: Final = frozenset({"exec", "attach", "portforward"})
_SESSION_NEEDS_CREATE: Final = (
    "a session in a container needs the verb create, whatever the HTTP method; get is not enough"
)


class PermissionCheck:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def demand(self, request: Request, attributes: Attributes) -> None:
        """Raises a 403 unless the user is allowed."""
        request.verdict = decision = self._authorizer.decide(request.user, attributes)
        if not decision.allowed:
            raise refusal(request.user, attributes, decision.reason)

    def demand_place(
        self, request: Request, verb: str, place: RequestInfo, params: Mapping[str, str]
    ) -> None:
        """The same for a resource; for lists and watches what they select counts."""
        if _opens_session(request, place):
            self._demand_session(request, place)
            return
        if self._may_read_figures(request, verb, place):
            return
        self.demand(request, attributes_of(request, verb, place, params))

    def _demand_session(self, request: Request, place: RequestInfo) -> None:
        """Running a program is a change of the pod, even where a WebSocket begins with a GET."""
        attributes = Attributes.of_place("create", place, request.path)
        request.verdict = decision = self._authorizer.decide(request.user, attributes)
        if not decision.allowed:
            reason = "; ".join(filter(None, [decision.reason, _SESSION_NEEDS_CREATE]))
            raise refusal(request.user, attributes, reason)

    def fence(self, request: Request) -> WriteFence | None:
        """The leadership that a write is made under. Its outcome reveals the Lease, so the client must be
        allowed to read that, whomever it impersonates: the leadership is its own."""
        fence = fence_of(request.headers)
        if fence is not None:
            attributes = Attributes(
                "get",
                group="coordination.k8s.io",
                version="v1",
                resource="leases",
                namespace=fence.namespace,
                name=fence.lease,
            )
            demand(self._authorizer, request.impersonator or request.user, attributes)
        return fence

    def _may_read_figures(self, request: Request, verb: str, place: RequestInfo) -> bool:
        """A user with ``nodes/metrics`` may read metrics here without ``nodes/proxy``."""
        if place.subresource != "proxy" or not asks_for_figures(request.path):
            return False
        attributes = Attributes.of_place(
            verb, msgspec.structs.replace(place, subresource="metrics"), request.path
        )
        decision = self._authorizer.decide(request.user, attributes)
        if decision.allowed:
            request.verdict = decision
        return decision.allowed


def attributes_of(request: Request, verb: str, place: RequestInfo, params: Mapping[str, str]) -> Attributes:
    if not params or verb not in _SELECTING_VERBS:
        return Attributes.of_place(verb, place, request.path)
    fields = params.get("fieldSelector", "")
    return Attributes.of_place(
        verb,
        place,
        request.path,
        name=_pinned_name(fields) if fields else "",
        label_selector=params.get("labelSelector", ""),
        field_selector=fields,
    )


def _opens_session(request: Request, place: RequestInfo) -> bool:
    """Whether a request is for a session in a container, at the pod or through its node."""
    if place.group or not place.name:
        return False
    if place.plural == "pods":
        return place.subresource in _POD_SESSIONS
    return place.plural == "nodes" and place.subresource == "proxy" and asks_for_session(request.path)


def _pinned_name(selector: str) -> str:
    """The name in a field selector, or empty. The list itself refuses a malformed one."""
    try:
        return FieldSelector.parse(selector).exact("metadata.name") or ""
    except SelectorError:
        return ""
