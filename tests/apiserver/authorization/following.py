"""An authorizer that is told of objects one by one, and the plainest reading of the same objects.

rights = Following()
rights.put(role("t", "reader", rule("get", "pods")))
rights.rbac.decide(alice, attributes)
plainly_allowed(rights.objects, alice, attributes)      # must be the same
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.kit.rbac_objects import GROUP

from pilothouse.aio.ring_buffer import Bounds
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.authorization.rbac.rbac_authorizer import RBACAuthorizer
from pilothouse.apiserver.discovery.catalog import ROOT, KindCatalog
from pilothouse.apiserver.server.messages import User
from pilothouse.apiserver.storage.collection import Collection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import SystemClock
from pilothouse.store.memory import MemoryStore

Json = dict[str, Any]
Key = tuple[str, str, str]


class Following:
    """Roles and bindings that come and go."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.rbac = RBACAuthorizer(WatchCache(MemoryStore(), KindCatalog(), SystemClock(), Random(1)))
        self._collections: dict[str, Collection] = {}
        self._revision = 0

    def put(self, *objects: Json) -> None:
        for obj in objects:
            self.objects[self.key(obj)] = obj
            self._tell(self.key(obj), json.dumps(obj).encode())

    def drop(self, key: Key) -> None:
        del self.objects[key]
        self._tell(key, None)

    @staticmethod
    def key(obj: Json) -> Key:
        return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]

    def _tell(self, key: Key, value: bytes | None) -> None:
        kind, namespace, name = key
        path = f"{GROUP}/{kind.lower()}s"
        collection = self._collections.setdefault(path, Collection(path, 0, Bounds()))
        self._revision += 1
        at = f"{ROOT}{path}/{namespace}/{name}" if namespace else f"{ROOT}{path}/{name}"
        event = collection.apply(at, self._revision, value, 0.0)
        if event is not None:
            self.rbac.happened(collection, event)
            self.rbac.advanced()


def plainly_allowed(objects: Iterable[Json], user: User, asked: Attributes) -> bool:
    """The rules of RBAC, read aloud: no index, no memory."""
    everything = list(objects)
    roles = {Following.key(each): each.get("rules") or [] for each in everything if "roleRef" not in each}
    for binding in everything:
        if "roleRef" not in binding:
            continue
        scope = binding["metadata"].get("namespace", "")
        if scope and (asked.is_path or scope != asked.namespace):
            continue
        if not any(_is(user, subject) for subject in binding["subjects"]):
            continue
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        rules = roles.get((kind, scope if kind == "Role" else "", name), [])
        if any(_allows(rule, asked) for rule in rules):
            return True
    return False


def _is(user: User, subject: Json) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return subject["name"] == user.name if subject["kind"] == "User" else subject["name"] in user.groups


def _allows(rule: Json, asked: Attributes) -> bool:
    if not {"*", asked.verb} & set(rule["verbs"]):
        return False
    if asked.is_path:
        return any(
            url in ("*", asked.path) or (url[-1:] == "*" and asked.path.startswith(url.rstrip("*")))
            for url in rule.get("nonResourceURLs", [])
        )
    full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    wanted = {"*", full} | ({f"*/{asked.subresource}"} if asked.subresource else set())
    names = rule.get("resourceNames") or [asked.name]
    return bool(
        {"*", asked.group} & set(rule.get("apiGroups", []))
        and wanted & set(rule.get("resources", []))
        and asked.name in names
    )
