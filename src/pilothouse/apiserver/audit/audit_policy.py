"""How much is recorded of which request: an ordered list of rules; the first match decides.

    policy = AuditPolicy(rules=(AuditRule(level=AuditLevel.METADATA, verbs=frozenset({"watch"})),))
    policy.treatment(user, "watch", locate(path), path).level      # AuditLevel.METADATA

As in ``audit.k8s.io/v1``, an empty list in a rule matches everything, and a request without a match is not
recorded. Rules match the authenticated user, not the impersonated one.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from pilothouse.apiserver.endpoints.request_info import RequestInfo
from pilothouse.apiserver.server.messages import User

RECEIVED, STARTED, COMPLETE, PANIC = "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"
STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)
_LABELS = ("None", "Metadata", "Request", "RequestResponse")


class AuditLevel(IntEnum):
    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3

    @property
    def label(self) -> str:
        return _LABELS[self]

    @classmethod
    def parse(cls, label: str) -> AuditLevel:
        """Raises ``ValueError`` for an unknown level."""
        return cls(_LABELS.index(label))


LEVELS = _LABELS


class ResourceMatch(msgspec.Struct, frozen=True):
    """Resources of a group: ``pods``, ``pods/log``, ``pods/*``, ``*/scale``, ``*``; none means all."""

    group: str = ""
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def match(self, place: RequestInfo) -> bool:
        if place.group != self.group:
            return False
        if not self.resources:
            return True
        if self.names and place.name not in self.names:
            return False
        resource, subresource = place.plural, place.subresource
        whole = f"{resource}/{subresource}" if subresource else resource
        if "*" in self.resources or whole in self.resources or f"{resource}/*" in self.resources:
            return True
        return bool(subresource) and f"*/{subresource}" in self.resources


class AuditRule(msgspec.Struct, frozen=True, kw_only=True):
    level: AuditLevel
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[ResourceMatch, ...] = ()
    namespaces: frozenset[str] = frozenset()
    """``""`` is what has no namespace."""
    paths: tuple[str, ...] = ()
    """Exact, or with ``*`` at the end."""
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool | None = None

    def match(self, user: User, verb: str, place: RequestInfo, path: str) -> bool:
        if self.users and user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(user.groups):
            return False
        if self.verbs and verb not in self.verbs:
            return False
        if self.resources or self.namespaces:
            return place.is_resource and self._match_resource(place)
        if self.paths:
            return not place.is_resource and any(_covers(each, path) for each in self.paths)
        return True

    def _match_resource(self, place: RequestInfo) -> bool:
        if self.namespaces and place.namespace not in self.namespaces:
            return False
        return not self.resources or any(each.match(place) for each in self.resources)


class Treatment(msgspec.Struct, frozen=True):
    level: AuditLevel
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


NOTHING = Treatment(AuditLevel.NONE)


class AuditPolicy:
    def __init__(
        self,
        rules: tuple[AuditRule, ...],
        *,
        omit_stages: frozenset[str] = frozenset(),
        omit_managed_fields: bool = False,
    ) -> None:
        self.rules = rules
        self._treatments = [
            Treatment(
                rule.level,
                omit_stages | rule.omit_stages,
                omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields,
            )
            for rule in rules
        ]

    @property
    def wants_answers(self) -> bool:
        """Whether any rule records response bodies."""
        return any(rule.level is AuditLevel.REQUEST_RESPONSE for rule in self.rules)

    def treatment(self, user: User, verb: str, place: RequestInfo, path: str) -> Treatment:
        for rule, treatment in zip(self.rules, self._treatments, strict=True):
            if rule.match(user, verb, place, path):
                return treatment
        return NOTHING


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


DEFAULT = AuditPolicy(
    (
        AuditRule(level=AuditLevel.NONE, paths=("/healthz*", "/livez*", "/readyz*", "/version", "/version/")),
        AuditRule(
            level=AuditLevel.NONE,
            verbs=frozenset({"get", "update", "patch"}),
            resources=(ResourceMatch("coordination.k8s.io", frozenset({"leases"})),),
        ),
        AuditRule(level=AuditLevel.METADATA),
    )
)
"""The default policy: metadata of everything but health, version and lease renewals, which would be most of
the lines."""
