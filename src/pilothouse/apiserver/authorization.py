"""Who may do what.

    decision = authorizer.decide(user, attributes)
    if not decision.allowed:
        raise refusal(user, attributes, decision.reason)

``Authorizer`` is the seam: an implementation answers for a user and the attributes of a request, without I/O. This
one is closed by default: the administrators' group may do anything, everyone may see health and version, whoever is
authenticated may also discover what is served and ask about themselves; nothing else is allowed.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from pilothouse.apiserver.authentication import AUTHENTICATED
from pilothouse.apiserver.exchange import User
from pilothouse.apiserver.grammar import Place
from pilothouse.meta.errors import StatusError, forbidden

MASTERS = "system:masters"
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")
_ABOUT_ONESELF = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)


class Attributes(msgspec.Struct, frozen=True):
    """What a request is about: a resource, or (with ``resource`` empty) a path."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @classmethod
    def of_place(cls, verb: str, place: Place, path: str = "", *, name: str = "") -> Attributes:
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
        )


class Decision(msgspec.Struct, frozen=True):
    """Allowed or not, and why."""

    allowed: bool
    reason: str = ""


NO_OPINION = Decision(False)


class Authorizer(Protocol):
    """Decides. Must be cheap: it is asked once for each request."""

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """May this user do that?"""


class ClosedByDefault:
    """Only ``system:masters`` may do anything; see the module's description for what the others may."""

    def decide(self, user: User, attributes: Attributes) -> Decision:
        if MASTERS in user.groups:
            return _MASTER
        if attributes.resource:
            return self._resource(user, attributes)
        if attributes.verb not in ("get", "head"):
            return NO_OPINION
        if _below(attributes.path, _PUBLIC):
            return _PUBLIC_INFO
        if AUTHENTICATED in user.groups and _below(attributes.path, _DISCOVERY):
            return _DISCOVERS
        return NO_OPINION

    def _resource(self, user: User, attributes: Attributes) -> Decision:
        about = (attributes.group, attributes.resource)
        if attributes.verb == "create" and about in _ABOUT_ONESELF and AUTHENTICATED in user.groups:
            return _ASKS_ABOUT_ONESELF
        return NO_OPINION


_MASTER = Decision(True, f"member of {MASTERS}")
_PUBLIC_INFO = Decision(True, "health and version are public")
_DISCOVERS = Decision(True, "whoever is authenticated may discover what is served")
_ASKS_ABOUT_ONESELF = Decision(True, "whoever is authenticated may ask about themselves")


def _below(path: str, roots: tuple[str, ...]) -> bool:
    """``path`` is one of ``roots`` or below it."""
    return any(path == root or path.startswith(root + "/") for root in roots)


def refusal(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    """The 403, worded as Kubernetes words it."""
    because = f": {reason}" if reason else ""
    if not attributes.resource:
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
