"""CustomResourceDefinitions: user-defined kinds. Each instance follows the definitions in its own cache.

A definition has a finalizer of the server: when it is deleted, its kind takes no new objects, existing ones
are deleted, and the finalizer is removed after the last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from pilothouse.api.kubernetes.api_approval import approval, approval_problems
from pilothouse.apiserver.apiextensions.definition_paths import path_problems, rule_problems
from pilothouse.apiserver.apiextensions.definition_resources import resource_of
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import object_metadata
from pilothouse.apiserver.endpoints.write_options import ParsedDeleteOptions
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.items import Derive
from pilothouse.apiserver.storage.objects import REMOVE, ObjectStorage
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import conditions, errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
PATH = f"{GROUP}/{PLURAL}"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_RETRY = 1.0
MOST_SCHEMA_NODES = 50_000
"""Nested schemas in all versions of a definition; each is compiled several times."""

log = logging.getLogger(__name__)


class Definitions(Strategy):
    """The strategy of CustomResourceDefinitions; follows them in the cache and updates the catalog."""

    def __init__(self, catalog: KindCatalog, cache: WatchCache, objects: ObjectStorage, clock: Clock) -> None:
        self._catalog = catalog
        self._cache = cache
        self._objects = objects
        self._clock = clock
        self._served_by_us: dict[tuple[str, str], bytes] = {}
        self._terminating: dict[str, set[str]] = {}
        """The paths of kinds whose definitions are terminating, with the keys of objects already marked."""
        self._unsettled: set[str] = set()
        """Definitions whose names may have become free, or taken."""
        self._work = asyncio.Event()

    # What a definition gets when it is written

    def complete(self, new: Object, old: Object | None) -> None:
        """Names, stored versions and conditions, and our finalizer on a new one."""
        if old is None:
            metadata = new["metadata"]
            metadata["finalizers"] = [*(metadata.get("finalizers") or []), FINALIZER]
            new["status"] = {"storedVersions": []}
        else:
            new["status"] = dict(old.get("status") or {})
        self._settle(new)

    def prepare_delete(self, obj: Object) -> None:
        obj["status"] = dict(obj.get("status") or {})
        self._condition(
            obj, "Terminating", "True", "InstanceDeletionPending", "its objects are being deleted"
        )

    def check_create(self, kind: Kind) -> None:
        """405 for a new object of a kind whose definition is being deleted."""
        ours = (kind.group, kind.plural) in self._served_by_us
        if ours and f"{kind.group}/{kind.plural}" in self._terminating:
            problem = errors.method_not_allowed("create", kind.plural, kind.group)
            problem.message = "create not allowed while custom resource definition is terminating"
            raise problem

    def validate(self, new: Object, old: Object | None) -> Iterator[FieldError]:
        """Problems with the schemas of a definition, the paths into them, and the approval of its group."""
        yield from approval_problems(new, old)
        if old is None or new["spec"].get("versions") != old["spec"].get("versions"):
            count = sum(map(_count_nodes, new["spec"].get("versions") or ()))
            if count > MOST_SCHEMA_NODES:
                detail = f"its schemas have {count} nodes, and a definition may have {MOST_SCHEMA_NODES}"
                yield FieldError.forbidden("spec.versions", detail)
                return
        # Imported when first needed: it loads the CEL compiler.
        from pilothouse.meta.schema.structural_schemas import structural_problems

        for index, version in enumerate(new["spec"].get("versions") or ()):
            path = f"spec.versions[{index}]"
            raw = (version.get("schema") or {}).get("openAPIV3Schema")
            if raw is not None:
                incomplete = list(rule_problems(raw, f"{path}.schema.openAPIV3Schema"))
                yield from incomplete or structural_problems(raw, f"{path}.schema.openAPIV3Schema")
            yield from path_problems(version, path)

    def _settle(self, definition: Object) -> None:
        """Fill in the status. The definition is not validated yet: malformed parts are left alone."""
        spec, status = definition["spec"], definition["status"]
        storage = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
        stored = list(status.get("storedVersions") or [])
        status["storedVersions"] = [*stored, *(each for each in storage if each not in stored)]
        if approved := approval(str(spec.get("group") or ""), definition["metadata"].get("annotations")):
            self._condition(definition, **approved.condition())
        clash = self._clash(spec)
        if clash:
            self._condition(definition, "NamesAccepted", "False", clash[0], clash[1])
            self._condition(definition, "Established", "False", "NotAccepted", "not all names are accepted")
            status.setdefault("acceptedNames", {"plural": "", "kind": ""})
            return
        status["acceptedNames"] = spec.get("names") or {}
        self._condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
        self._condition(
            definition, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
        )

    def _clash(self, spec: dict[str, Any]) -> tuple[str, str] | None:
        """Why the names can't be accepted: another kind of the group has one of them."""
        names, group = spec.get("names") or {}, spec.get("group")
        plural, kind = names.get("plural", ""), names.get("kind", "")
        wanted = {plural, names.get("singular", ""), *(names.get("shortNames") or ())} - {""}
        for resource in self._catalog:
            if resource.group != group:
                continue
            if resource.plural == plural:
                if (group, plural) in self._served_by_us:
                    continue
                return "BuiltIn", f'"{plural}" of {group} is served by this server itself'
            other = resource.kinds[0]
            if kind in (other.name, other.list_name):
                return "KindConflict", f'"{kind}" is already in use'
            shared = wanted & {other.plural, other.singular, *other.short_names}
            if shared:
                return "NameConflict", f'"{sorted(shared)[0]}" is already in use'
        return None

    def _condition(self, definition: Object, type: str, status: str, reason: str, message: str) -> None:
        condition = {"type": type, "status": status, "reason": reason, "message": message}
        now = format_time(self._clock.now())
        present = definition["status"].get("conditions")
        definition["status"]["conditions"] = conditions.with_condition(present, condition, now=now)

    # What follows from a definition

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == PATH:
            self._follow(event.key.rpartition("/")[2], event.after.value if event.after else None)
        elif collection.path in self._terminating:
            self._work.set()

    def advanced(self) -> None: ...

    def broken(self) -> None:
        """Process all definitions again after a relist of the cache."""
        present = self._cache.collection(PATH).items
        for item in list(present.values()):
            self._follow(item.name, item.value)
        named = {item.name for item in present.values()}
        for group, plural in list(self._served_by_us):
            if f"{plural}.{group}" not in named:
                self._follow(f"{plural}.{group}", None)

    def _follow(self, name: str, value: bytes | None) -> None:
        plural, _, group = name.partition(".")
        identity, path = (group, plural), f"{group}/{plural}"
        if value is None:
            self._terminating.pop(path, None)
            self._withdraw(identity)
            # Whoever was refused because of its names may have them now.
            self._unsettled.update(item.name for item in self._cache.collection(PATH).items.values())
            self._work.set()
            return
        definition = codec.decode(value)
        metadata, spec = definition["metadata"], definition["spec"]
        if "deletionTimestamp" in metadata:
            self._terminating.setdefault(path, set())
            self._work.set()
        clash = self._clash(spec)
        established = conditions.condition_is(
            (definition.get("status") or {}).get("conditions"), "Established"
        )
        if established == bool(clash):
            self._unsettled.add(name)
            self._work.set()
        if clash or not established:
            self._withdraw(identity)
            return
        state = codec.dump([metadata["uid"], spec])
        if self._served_by_us.get(identity) == state:
            # Labels, status or deletion timestamp only: serving it again would end its watches.
            return
        try:
            resource = resource_of(definition)
        except (LookupError, TypeError, ValueError, StopIteration) as problem:
            # It was valid when written, perhaps by another release. The rest continues.
            log.error("the definition %s can't be served: %r", name, problem)
            self._withdraw(identity)
            return
        refresh = resource.refresh
        self._cache.reshape(resource.path, _deriving(refresh) if refresh is not None else None)
        self._served_by_us[identity] = state
        self._catalog.add(resource)

    def _withdraw(self, identity: tuple[str, str]) -> None:
        if self._served_by_us.pop(identity, None) is not None:
            self._catalog.remove(*identity)

    # Settling and deleting definitions

    async def run(self) -> None:
        """Accept names that have become free, and delete the objects of kinds that are being deleted."""
        while True:
            await self._work.wait()
            self._work.clear()
            for name in list(self._unsettled):
                if await self._done(self._resettle(name)):
                    self._unsettled.discard(name)
            for path in list(self._terminating):
                await self._done(self._empty(path))

    async def _done(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work is done; if the store refused it, it is retried soon."""
        try:
            await work
        except errors.StatusError as problem:
            if problem.code != 404:
                log.warning("a definition can't be followed yet: %s", problem)
                asyncio.get_running_loop().call_later(_RETRY, self._work.set)
                return False
        return True

    async def _resettle(self, name: str) -> None:
        definitions = self._catalog.find(GROUP, "v1", PLURAL)
        if definitions is None:
            return

        def change(live: Object) -> Object:
            settled = {**live, "status": dict(live.get("status") or {})}
            self._settle(settled)
            return settled

        await self._objects.amend(definitions, "", name, change)

    async def _empty(self, path: str) -> None:
        group, _, plural = path.partition("/")
        resource = self._catalog.resource(group, plural)
        if resource is not None and (group, plural) in self._served_by_us:
            served = ServedVersion(resource, resource.stored)
            items = self._cache.collection(path).items
            marked = self._terminating[path]
            for key in [key for key in items if key not in marked]:
                item = items.get(key)
                if item is not None:
                    await self._delete(served, item.value)
                marked.add(key)
            if items or await self._objects.count(served.prefix()) > 0:
                return
        definitions = self._catalog.find(GROUP, "v1", PLURAL)
        if definitions is not None:
            await self._objects.amend(definitions, "", f"{plural}.{group}", _release)

    async def _delete(self, served: ServedVersion, value: bytes) -> None:
        metadata = codec.decode(value)["metadata"]
        if "deletionTimestamp" in metadata:
            return
        change = object_metadata.deletion(served.kind, ParsedDeleteOptions(), self._clock.now())
        try:
            await self._objects.amend(served, metadata.get("namespace", ""), metadata["name"], change)
        except errors.StatusError as problem:
            if problem.code != 404:
                raise


def _count_nodes(version: Any) -> int:
    """The objects in a version's schema, each of which is a schema or holds some."""
    count = 0
    level = [(version.get("schema") or {}).get("openAPIV3Schema")] if isinstance(version, dict) else []
    while level:
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                count += 1
                inside.extend(each.values())
            elif isinstance(each, list):
                inside.extend(each)
        level = inside
    return count


def _release(definition: Object) -> Any:
    left = [each for each in definition["metadata"].get("finalizers") or [] if each != FINALIZER]
    if not left:
        return REMOVE
    return {**definition, "metadata": {**definition["metadata"], "finalizers": left}}


def _deriving(refresh: Callable[[Object], None]) -> Derive:
    def derive(obj: Object, kind: Kind) -> Object:
        refresh(obj)
        return obj

    return derive
