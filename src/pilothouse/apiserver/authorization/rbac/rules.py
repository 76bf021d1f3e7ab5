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
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def read(cls, rule: Object) -> PolicyRule:
        return cls(**{field: tuple(rule.get(name) or ()) for field, name in _FIELDS.items()})

    def write(self) -> dict[str, Any]:
        return {name: list(given) for field, name in _FIELDS.items() if (given := getattr(self, field))}

    def covers_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether the rule covers this, apart from names."""
        return (
            (verb in self.verbs or ANY in self.verbs)
            and (group in self.groups or ANY in self.groups)
            and self._has_resource(resource, subresource)
        )

    def covers_path(self, verb: str, path: str) -> bool:
        """Whether the rule covers this non-resource path."""
        return (verb in self.verbs or ANY in self.verbs) and any(url_covers(url, path) for url in self.urls)

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if ANY in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def read_rules(role: Object) -> tuple[PolicyRule, ...]:
    return tuple(PolicyRule.read(rule) for rule in role.get("rules") or ())


def write_rules(rules: Iterable[PolicyRule]) -> list[dict[str, Any]]:
    return [rule.write() for rule in rules]


def url_covers(pattern: str, path: str) -> bool:
    """Whether ``pattern`` is the path, or a prefix of it that ends in a star."""
    return pattern == path or (pattern.endswith(ANY) and path.startswith(pattern.rstrip(ANY)))
