"""Random roles, bindings and questions out of a world so small that they often meet.

world = World(random.Random(1), namespaces=["t", "u"], tag="x")
world.roles(), world.bindings(), world.question()
"""

from __future__ import annotations

import random
from typing import Any, TypeVar

from tests.kit.rbac_objects import bind, cluster_role, role

from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.server.messages import User

T = TypeVar("T")
VERBS = ("get", "list", "watch", "create", "update", "delete", "impersonate", "*", "sing")
GROUPS = ("", "apps", "nav.example.io", "*")
RESOURCES = (
    "pods",
    "pods/status",
    "pods/log",
    "statefulsets",
    "statefulsets/scale",
    "databases",
    "databases/status",
    "*/status",
    "*/scale",
    "*/*",
    "*",
)
NAMES = ("a", "b", "c")
URLS = ("/metrics", "/metrics/*", "/health*", "/apis/x/*", "/x/", "/x/**", "*")
PATHS = (
    "/metrics",
    "/metrics/",
    "/metrics/slis",
    "/healthz",
    "/health",
    "/apis/x",
    "/apis/x/y/z",
    "/x/",
    "/x/y",
    "/",
)


class World:
    """A seeded source. `tag` keeps names of several worlds apart on one server."""

    def __init__(self, source: random.Random, namespaces: list[str], tag: str = "") -> None:
        self._random = source
        self._namespaces = namespaces
        self._tag = tag
        self._users = [f"{tag}alice", f"{tag}bob", f"{tag}carol"]
        self._groups = [f"{tag}dev", f"{tag}ops"]

    def objects(self, *, roles: int, bindings: int) -> list[dict[str, Any]]:
        made = [self._role(number) for number in range(roles)]
        return [*made, *(self._binding(number, self._one(made)) for number in range(bindings))]

    def question(self) -> tuple[User, Attributes]:
        return self.user(), self._path() if self._chance(0.15) else self._resource()

    def user(self) -> User:
        groups = tuple(group for group in self._groups if self._chance(0.4))
        if self._chance(0.25):
            name = f"system:serviceaccount:{self._one(self._namespaces)}:{self._tag}robot"
        else:
            name = self._one(self._users)
        return User(name, groups=groups)

    def rules(self, *, paths: bool) -> list[dict[str, Any]]:
        return [self._rule(paths) for _ in range(self._random.randint(0, 4))]

    def _resource(self) -> Attributes:
        resource, _, subresource = self._one((*RESOURCES[:7], "nodes", "nodes/status", "")).partition("/")
        return Attributes(
            self._one((*VERBS[:7], "sing", "dance")),
            group=self._one((*GROUPS[:3], "other")),
            version=self._one(("", "v1")),
            resource=resource,
            subresource=subresource,
            namespace=self._one([*self._namespaces, *self._namespaces, ""]),
            name=self._one((*NAMES, "", "")),
        )

    def _path(self) -> Attributes:
        return Attributes.of_path(self._one(("get", "post", "list")), self._one(PATHS))

    def _rule(self, paths: bool) -> dict[str, Any]:
        verbs = self._some(VERBS)
        if paths and self._chance(0.25):
            return {"verbs": [*verbs, "get"], "nonResourceURLs": self._some(URLS)}
        rule = {"verbs": verbs, "apiGroups": self._some(GROUPS), "resources": self._some(RESOURCES)}
        if self._chance(0.3):
            rule["resourceNames"] = self._some(NAMES)
        return rule

    def _role(self, number: int) -> dict[str, Any]:
        name = f"{self._tag}role-{number}"
        if self._chance(0.5):
            return cluster_role(name, *self.rules(paths=True))
        return role(self._one(self._namespaces), name, *self.rules(paths=False))

    def _binding(self, number: int, bound: dict[str, Any]) -> dict[str, Any]:
        kind, name = bound["kind"], bound["metadata"]["name"]
        namespace = bound["metadata"].get("namespace") or self._one([*self._namespaces, ""])
        if self._chance(0.15):
            # To a role that does not exist, or not there, or not as that kind.
            kind, name = self._one((("Role", name), ("ClusterRole", name), (kind, f"{self._tag}gone")))
            namespace = self._one(self._namespaces)
        subjects = [self._subject() for _ in range(self._random.randint(1, 3))]
        return bind(namespace, f"{self._tag}binding-{number}", f"{kind}/{name}", *subjects)

    def _subject(self) -> str:
        match self._random.randint(0, 2):
            case 0:
                return f"User/{self._one(self._users)}"
            case 1:
                return f"Group/{self._one(self._groups)}"
        return f"ServiceAccount/{self._one(self._namespaces)}/{self._tag}robot"

    def _one(self, values: Any) -> Any:
        return self._random.choice(values)

    def _some(self, values: Any) -> list[Any]:
        return self._random.sample(values, self._random.randint(1, 3))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share
