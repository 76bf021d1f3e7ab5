"""RBAC as an authorizer over the watch cache.

    rbac = RBACAuthorizer(cache)
    cache.listen(rbac)
    rbac.decide(alice, Attributes("get", resource="pods", namespace="t", name="a"))

Decisions are cached by user, groups, verb, resource and namespace; an entry has the answer for any object
name and the few names that are allowed besides. Any change to a role or binding clears the cache.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.apiserver.authorization.authorizer import NO_OPINION, Attributes, AuthorizationDecision
from pilothouse.apiserver.authorization.rbac.grants import GROUP, Binding, Grants
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule, read_rules
from pilothouse.apiserver.server.messages import User
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.watch_cache import WatchCache

ROLES, CLUSTER_ROLES = f"{GROUP}/roles", f"{GROUP}/clusterroles"
BINDINGS, CLUSTER_BINDINGS = f"{GROUP}/rolebindings", f"{GROUP}/clusterrolebindings"
_ROLES = frozenset({ROLES, CLUSTER_ROLES})
_BINDINGS = frozenset({BINDINGS, CLUSTER_BINDINGS})
_MOST = 20_000
_LONGEST = 1024
"""Longer attributes are not cached: self reviews could fill the memory with them."""


class CachedDecision(msgspec.Struct, frozen=True):
    """The decision for any object name, and for names that rules allow besides."""

    general: AuthorizationDecision
    named: Mapping[str, AuthorizationDecision] = {}


class RBACAuthorizer:
    """Decides by the roles and bindings in the cache, as a listener of it."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._grants = Grants()
        self._verdicts: dict[tuple[object, ...], CachedDecision] = {}

    def decide(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        question: tuple[object, ...]
        if attributes.is_path:
            question = (user.name, user.groups, attributes.verb, attributes.path)
        else:
            question = (
                user.name,
                user.groups,
                attributes.verb,
                attributes.group,
                attributes.resource,
                attributes.subresource,
                attributes.namespace,
            )
        verdict = self._verdicts.get(question)
        if verdict is None:
            verdict = self._judge(user, attributes)
            self._remember(question, verdict)
        return verdict.named.get(attributes.name, verdict.general)

    def rules_of(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[str]]:
        """All rules of a user in a namespace, and the missing roles."""
        rules: list[PolicyRule] = []
        absences: list[str] = []
        for held in self._grants.of(user, namespace):
            if held.rules is None:
                absences.append(held.absence)
            else:
                rules += held.rules
        return rules, list(dict.fromkeys(absences))

    def role(self, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a Role, or with no namespace of a ClusterRole; None if there is no such role."""
        return self._grants.role(namespace, name)

    @property
    def remembered(self) -> int:
        return len(self._verdicts)

    # How a verdict is reached

    def _judge(self, user: User, attributes: Attributes) -> CachedDecision:
        named: dict[str, AuthorizationDecision] = {}
        absences: dict[str, None] = {}
        for held in self._grants.of(user, "" if attributes.is_path else attributes.namespace):
            if held.rules is None:
                absences[held.absence] = None
                continue
            for rule in held.rules:
                if not _about(rule, attributes):
                    continue
                allowed = AuthorizationDecision(True, f"RBAC: allowed by {held.source}")
                if attributes.is_path or not rule.names:
                    return CachedDecision(allowed)
                for name in rule.names:
                    named.setdefault(name, allowed)
        return CachedDecision(_not_allowed(list(absences)), named)

    def _remember(self, question: tuple[object, ...], verdict: CachedDecision) -> None:
        if len(str(question)) > _LONGEST:
            return
        if len(self._verdicts) >= _MOST:
            self._verdicts.clear()
        self._verdicts[question] = verdict

    # How roles and bindings are followed

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path in _ROLES or collection.path in _BINDINGS:
            self._verdicts.clear()
            self._follow(collection.path, event.key, event.after.value if event.after is not None else None)

    def advanced(self) -> None: ...

    def broken(self) -> None:
        self._grants = Grants()
        self._verdicts.clear()
        for path in _ROLES | _BINDINGS:
            for item in self._cache.collection(path).items.values():
                self._follow(path, item.key, item.value)

    def _follow(self, path: str, key: str, value: bytes | None) -> None:
        _, _, place = key.partition(f"/{path}/")
        namespace, _, name = place.rpartition("/")
        # First away with the old: whatever is wrong with the new, what it replaces must not go on counting.
        if path in _ROLES:
            self._grants.drop_role(namespace, name)
            if value is not None:
                self._grants.put_role(namespace, name, read_rules(codec.decode(value)))
        else:
            self._grants.drop_binding(namespace, name)
            if value is not None:
                self._grants.put_binding(Binding.read(codec.decode(value)))


def _about(rule: PolicyRule, attributes: Attributes) -> bool:
    if attributes.is_path:
        return rule.covers_path(attributes.verb, attributes.path)
    return rule.covers_resource(
        attributes.verb, attributes.group, attributes.resource, attributes.subresource
    )


def _not_allowed(absences: list[str]) -> AuthorizationDecision:
    if not absences:
        return NO_OPINION
    listed = ", ".join(absences)
    return AuthorizationDecision(False, f"RBAC: {listed}" if len(absences) == 1 else f"RBAC: [{listed}]")
