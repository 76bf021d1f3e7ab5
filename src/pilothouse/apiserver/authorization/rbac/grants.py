"""Roles and bindings joined: which rules a user has in a namespace.

    grants.put_role("", "view", rules)
    grants.put_binding(Binding.read(cluster_role_binding))
    for held in grants.of(alice, "t"): held.rules, held.source

Bindings are indexed by subject (user, group, service account), so a lookup costs what the user has, not what
the cluster has. Cluster-wide bindings have an empty namespace and always count.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pilothouse.apiserver.authorization.rbac.rules import PolicyRule
from pilothouse.apiserver.server.messages import User
from pilothouse.meta.kind import Object

GROUP = "rbac.authorization.k8s.io"
Key = tuple[str, str]
"""The lookup key of a subject: ``("User", name)`` or ``("Group", name)``."""


class Subject(msgspec.Struct, frozen=True):
    """A subject of a binding: its lookup key, and its name in messages."""

    key: Key
    title: str


class Binding(msgspec.Struct, frozen=True):
    """A role for some subjects; for all namespaces if ``namespace`` is empty."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]

    @classmethod
    def read(cls, binding: Object) -> Binding:
        metadata, role = binding["metadata"], binding.get("roleRef") or {}
        namespace = metadata.get("namespace", "")
        subjects = (_subject(each, namespace) for each in binding.get("subjects") or ())
        return cls(
            namespace,
            metadata["name"],
            role.get("kind", ""),
            role.get("name", ""),
            tuple(subject for subject in subjects if subject is not None),
        )

    @property
    def role(self) -> Key:
        return (self.namespace if self.role_kind == "Role" else "", self.role_name)

    def source(self, keys: frozenset[Key]) -> str:
        """How a permission is explained to a user who is one of these subjects."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        subject = next(subject.title for subject in self.subjects if subject.key in keys)
        return f'{kind} "{name}" of {self.role_kind} "{self.role_name}" to {subject}'


class HeldRules(msgspec.Struct, frozen=True):
    """The rules of one binding; None if its role does not exist."""

    binding: Binding
    keys: frozenset[Key]
    rules: tuple[PolicyRule, ...] | None

    @property
    def source(self) -> str:
        return self.binding.source(self.keys)

    @property
    def absence(self) -> str:
        return f'{self.binding.role_kind.lower()}.{GROUP} "{self.binding.role_name}" not found'


class Grants:
    def __init__(self) -> None:
        self._roles: dict[Key, tuple[PolicyRule, ...]] = {}
        self._bindings: dict[Key, Binding] = {}
        self._by_subject: dict[str, dict[Key, dict[str, Binding]]] = {}

    def role(self, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a Role, or with no namespace of a ClusterRole; None if there is no such role."""
        return self._roles.get((namespace, name))

    def put_role(self, namespace: str, name: str, rules: tuple[PolicyRule, ...]) -> None:
        self._roles[namespace, name] = rules

    def drop_role(self, namespace: str, name: str) -> None:
        self._roles.pop((namespace, name), None)

    def put_binding(self, binding: Binding) -> None:
        self.drop_binding(binding.namespace, binding.name)
        self._bindings[binding.namespace, binding.name] = binding
        scope = self._by_subject.setdefault(binding.namespace, {})
        for subject in binding.subjects:
            scope.setdefault(subject.key, {})[binding.name] = binding

    def drop_binding(self, namespace: str, name: str) -> None:
        binding = self._bindings.pop((namespace, name), None)
        if binding is None:
            return
        scope = self._by_subject[namespace]
        for key in {subject.key for subject in binding.subjects}:
            del scope[key][name]
            if not scope[key]:
                del scope[key]
        if not scope:
            del self._by_subject[namespace]

    def of(self, user: User, namespace: str) -> Iterator[HeldRules]:
        """What a user has in a namespace, or with none in the cluster; by name of the binding."""
        keys = frozenset({("User", user.name), *(("Group", group) for group in user.groups)})
        for scope in ("", namespace) if namespace else ("",):
            subjects = self._by_subject.get(scope)
            if not subjects:
                continue
            found: dict[str, Binding] = {}
            for key in keys & subjects.keys():
                found.update(subjects[key])
            for name in sorted(found):
                binding = found[name]
                yield HeldRules(binding, keys, self._roles.get(binding.role))


def _subject(subject: Object, namespace: str) -> Subject | None:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User" | "Group" as kind:
            return Subject((kind, name), f'{kind} "{name}"')
        case "ServiceAccount" if home := subject.get("namespace") or namespace:
            key = ("User", f"system:serviceaccount:{home}:{name}")
            return Subject(key, f'ServiceAccount "{name}/{home}"')
    return None
