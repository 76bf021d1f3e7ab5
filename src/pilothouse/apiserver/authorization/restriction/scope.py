"""What the rules for nodes and pilots share.

Discovery, health and self reviews are left to the roles that all users have; other paths, and all that no
rule names, are denied. A list or watch is in scope if its selectors confine it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pilothouse.apiserver.authorization.authorizer import NO_OPINION, Attributes, AuthorizationDecision
from pilothouse.meta.selectors import EQUALS, IN, FieldSelector, LabelSelector, SelectorError

READS: Final = frozenset({"get", "list", "watch"})
CHANGES: Final = frozenset({"update", "patch"})
_SELF_REVIEWS: Final = frozenset(
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
    }
)
_PUBLIC: Final = (
    "/api",
    "/apis",
    "/openapi",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/.well-known",
    "/openid",
    "/pilothouse/v1/authorities",
)
_PATH_DENIED: Final = AuthorizationDecision(
    False, "pilots and nodes may ask for discovery, health and version, and for no other path", denied=True
)


def denied(reason: str) -> AuthorizationDecision:
    """A denial that no later authorizer can change."""
    return AuthorizationDecision(False, reason, denied=True)


def aside(attrs: Attributes) -> AuthorizationDecision | None:
    """The decision about requests outside of scopes; None if a scope decides."""
    if attrs.is_path:
        public = any(attrs.path == each or attrs.path.startswith(f"{each}/") for each in _PUBLIC)
        return NO_OPINION if public and attrs.verb == "get" else _PATH_DENIED
    if attrs.verb == "create" and (attrs.group, attrs.resource) in _SELF_REVIEWS and not attrs.subresource:
        return NO_OPINION
    return None


def selects_label(attrs: Attributes, label: str, value: str) -> bool:
    """Whether the label selector matches only objects with this label."""
    return bool(attrs.label_selector) and any(
        requirement.key == label and requirement.operator in (EQUALS, IN) and requirement.values == (value,)
        for requirement in _labels(attrs.label_selector).requirements
    )


def selects_field(attrs: Attributes, field: str, value: str) -> bool:
    """Whether the field selector matches only objects with this value."""
    return bool(attrs.field_selector) and _fields(attrs.field_selector).exact(field) == value


# Clients repeat their selectors. A malformed one confines nothing: the list refuses it.
@lru_cache(maxsize=1024)
def _labels(text: str) -> LabelSelector:
    try:
        return LabelSelector.parse(text)
    except SelectorError:
        return LabelSelector()


@lru_cache(maxsize=1024)
def _fields(text: str) -> FieldSelector:
    try:
        return FieldSelector.parse(text)
    except SelectorError:
        return FieldSelector()
