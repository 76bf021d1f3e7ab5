"""Authorization: ``Authorizer`` decides about a user and the attributes of a request, without I/O.

    decision = authorizer.decide(user, attributes)
    if not decision.allowed:
        raise refusal(user, attributes, decision.reason)

It allows, denies, or has no opinion. A ``Chain`` takes the first opinion, else denies. Restricting
authorizers (nodes, pilots) precede granting ones, so that no role widens a restriction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from pilothouse.apiserver.endpoints.request_info import RequestInfo
from pilothouse.apiserver.server.messages import User
from pilothouse.meta.errors import StatusError, forbidden

MASTERS = "system:masters"


class Attributes(msgspec.Struct, frozen=True):
    """What a request is about: a resource, or a path that is no resource's (see ``of_path``)."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    is_path: bool = False
    label_selector: str = ""
    field_selector: str = ""
    """Of a list, watch or deletecollection, as the client wrote them."""

    @classmethod
    def of_path(cls, verb: str, path: str) -> Attributes:
        """A request for discovery, metrics and the like."""
        return cls(verb, path, is_path=True)

    @classmethod
    def of_place(
        cls,
        verb: str,
        place: RequestInfo,
        path: str = "",
        *,
        name: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Attributes:
        """``name`` stands in where the path has none (a list by ``metadata.name``)."""
        return cls(
            verb,
            path,
            place.group,
            place.version,
            place.plural,
            place.subresource,
            place.namespace,
            place.name or name,
            False,
            label_selector,
            field_selector,
        )


class AuthorizationDecision(msgspec.Struct, frozen=True):
    """Allowed, denied for good, or neither, and why."""

    allowed: bool
    reason: str = ""
    denied: bool = False


NO_OPINION = AuthorizationDecision(False)
_MASTER = AuthorizationDecision(True)


class Authorizer(Protocol):
    """Decides. Must be cheap, as it is called for each request."""

    def decide(self, user: User, attributes: Attributes) -> AuthorizationDecision: ...


class Masters:
    """Members of ``system:masters`` may do anything, whatever the state of the store."""

    def decide(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        return _MASTER if MASTERS in user.groups else NO_OPINION


class Chain:
    """Several authorizers as one: the first opinion counts."""

    def __init__(self, authorizers: Iterable[Authorizer]) -> None:
        self._authorizers = tuple(authorizers)

    def decide(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.decide(user, attributes)
            if decision.allowed or decision.denied:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return AuthorizationDecision(False, "\n".join(reasons)) if reasons else NO_OPINION


def demand(authorizer: Authorizer, user: User, attributes: Attributes) -> None:
    decision = authorizer.decide(user, attributes)
    if not decision.allowed:
        raise refusal(user, attributes, decision.reason)


def refusal(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    """The 403, in Kubernetes' words."""
    because = f": {reason}" if reason else ""
    if attributes.is_path:
        detail = f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"{because}'
        return forbidden("", "", "", detail)
    what = attributes.resource
    if attributes.subresource:
        what = f"{what}/{attributes.subresource}"
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    detail = (
        f'User "{user.name}" cannot {attributes.verb} resource "{what}" '
        f'in API group "{attributes.group}" {where}{because}'
    )
    return forbidden(attributes.resource, attributes.group, attributes.name, detail)
