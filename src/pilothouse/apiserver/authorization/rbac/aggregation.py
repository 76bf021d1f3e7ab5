"""Aggregated ClusterRoles: the server writes the rules of all ClusterRoles that the selectors match,
transitively, into the role, and again whenever a ClusterRole changes.

Rules are collected from roles that are not aggregated, never from an aggregate's present rules. So a
permission that its source has lost disappears, even if aggregates select one another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from pilothouse.apiserver.authorization.rbac.grants import GROUP
from pilothouse.apiserver.authorization.rbac.rbac_authorizer import CLUSTER_ROLES
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule, read_rules, write_rules
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.apply.server_side_apply import apply
from pilothouse.meta.kind import Object
from pilothouse.meta.selectors import LabelSelector, SelectorError

MANAGER = "clusterrole-aggregation-controller"
_RETRY = 1.0

log = logging.getLogger(__name__)


def selectors(role: Object) -> tuple[LabelSelector, ...]:
    """The selectors of an aggregated role; empty for any other."""
    chosen = []
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        try:
            chosen.append(LabelSelector.from_object(selector))
        except SelectorError as problem:
            # It was valid when written, perhaps by another release.
            log.warning("a selector of %s chooses nothing: %s", role["metadata"]["name"], problem)
    return tuple(chosen)


def is_aggregated(role: Object) -> bool:
    """Whether the server writes a role's rules."""
    return role.get("aggregationRule") is not None


def aggregated(name: str, roles: Mapping[str, Object]) -> list[PolicyRule]:
    """The rules of an aggregated role, given all ClusterRoles by name: each once, by name of its source."""
    labels = {other: roles[other]["metadata"].get("labels") for other in sorted(roles)}
    rules: dict[PolicyRule, None] = {}
    seen: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if is_aggregated(roles[current]):
            chosen = [each for by in selectors(roles[current]) for each in labels if by.matches(labels[each])]
            pending.extend(reversed(chosen))
        else:
            rules.update(dict.fromkeys(read_rules(roles[current])))
    return list(rules)


class Aggregation:
    """Keeps aggregated roles up to date. A listener of the cache."""

    def __init__(self, catalog: KindCatalog, cache: WatchCache, objects: ObjectStorage, clock: Clock) -> None:
        self._catalog = catalog
        self._cache = cache
        self._objects = objects
        self._clock = clock
        self._decoded: dict[str, tuple[int, Object]] = {}
        self._work = asyncio.Event()

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == CLUSTER_ROLES:
            self._work.set()

    def advanced(self) -> None: ...

    def broken(self) -> None:
        self._work.set()

    async def run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self.settle()
            except errors.StatusError as problem:
                log.warning("roles can't be aggregated yet: %s", problem)
            except Exception:
                # Standing still would be worse: rights that were taken away would stay.
                log.exception("aggregating roles failed; it is tried again")
            else:
                continue
            asyncio.get_running_loop().call_later(_RETRY, self._work.set)

    async def settle(self) -> None:
        """Write the rules of every aggregated role whose rules differ."""
        served = self._catalog.find(GROUP, "v1", "clusterroles")
        if served is None:
            return
        roles = self._roles()
        for name, role in roles.items():
            if is_aggregated(role):
                rules = aggregated(name, roles)
                if list(read_rules(role)) != rules:
                    await self._write(served, name, rules)

    def _roles(self) -> dict[str, Object]:
        """All ClusterRoles by name; only what changed since the last time is decoded."""
        before, self._decoded = self._decoded, {}
        for item in self._cache.collection(CLUSTER_ROLES).items.values():
            known = before.get(item.name)
            if known is None or known[0] != item.revision:
                known = (item.revision, codec.decode(item.value))
            self._decoded[item.name] = known
        return {name: role for name, (_, role) in self._decoded.items()}

    async def _write(self, served: ServedVersion, name: str, rules: list[PolicyRule]) -> None:
        def change(live: Object) -> Object:
            if not is_aggregated(live) or list(read_rules(live)) == rules:
                return live
            return self._applied(served, name, live, rules)

        try:
            await self._objects.amend(served, "", name, change)
        except errors.StatusError as problem:
            if problem.code != 404:
                raise

    def _applied(self, served: ServedVersion, name: str, live: Object, rules: list[PolicyRule]) -> Object:
        """The live role with these rules, which the server then owns."""
        kind = served.kind
        wanted = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name},
            "rules": write_rules(rules),
        }
        return apply(
            live,
            wanted,
            schema=kind.schema,
            api_version=kind.api_version,
            manager=MANAGER,
            force=True,
            now=format_time(self._clock.now()),
            served=served.resource.schemas,
        )
