"""One rule of a role: verbs on resources, or verbs on paths.

    rule = PolicyRule.read({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]})
    rule.covers_resource("get", "", "pods", "")          # True; and for nodes/status too
    rule.covers_resource("get", "", "pods", "log")       # False: subresources are not included

A rule with ``names`` never matches a request without a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.meta.kind import Object

ANY = "*"
_FIELDS = {
    "verbs": "verbs",
    "groups": "apiGroups",
    "resources": "resources",
    "names": "resourceNames",
    "urls": "nonResourceURLs",
}


class PolicyRule(msgspec.Struct, frozen=True):
    """What may be done, as the role says it."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def read(cls, rule: Object) -> PolicyRule:
        """A rule out of a role's list."""
        return cls(**{field: tuple(rule.get(name) or ()) for field, name in _FIELDS.items()})

    def write(self) -> dict[str, Any]:
        """The rule as a role has it; what is empty is left out."""
        return {name: list(given) for field, name in _FIELDS.items() if (given := getattr(self, field))}

    def covers_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule is about this, names left aside."""
        return (
            (verb in self.verbs or ANY in self.verbs)
            and (group in self.groups or ANY in self.groups)
            and self._has_resource(resource, subresource)
        )

    def covers_path(self, verb: str, path: str) -> bool:
        """Whether the rule is about this path, which no resource has."""
        return (verb in self.verbs or ANY in self.verbs) and any(url_covers(url, path) for url in self.urls)

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if ANY in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def read_rules(role: Object) -> tuple[PolicyRule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(PolicyRule.read(rule) for rule in role.get("rules") or ())


def write_rules(rules: Iterable[PolicyRule]) -> list[dict[str, Any]]:
    """Rules as a role has them."""
    return [rule.write() for rule in rules]


def url_covers(pattern: str, path: str) -> bool:
    """``pattern`` is the path itself, or a beginning of it that ends in a star."""
    return pattern == path or (pattern.endswith(ANY) and path.startswith(pattern.rstrip(ANY)))
