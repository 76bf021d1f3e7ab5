"""Creates and repairs the default roles and bindings at each start.

Missing rules, subjects and labels are restored, additions stay. The annotation
``rbac.authorization.kubernetes.io/autoupdate: "false"`` protects an existing object. Servers may do this
concurrently.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pilothouse.apiserver.authorization.rbac import default_roles
from pilothouse.apiserver.authorization.rbac.coverage import missing
from pilothouse.apiserver.authorization.rbac.grants import GROUP
from pilothouse.apiserver.authorization.rbac.role_builders import AUTOUPDATE
from pilothouse.apiserver.authorization.rbac.rules import read_rules, write_rules
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import object_metadata, strict_decoding
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import REMOVE, ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.base.uids import Uids
from pilothouse.meta import errors
from pilothouse.meta.kind import Object
from pilothouse.store.interface import Conflict

_POLICY = {
    "clusterroles": default_roles.cluster_roles,
    "clusterrolebindings": default_roles.cluster_bindings,
    "roles": default_roles.roles,
    "rolebindings": default_roles.bindings,
}


async def make_roles(catalog: KindCatalog, objects: ObjectStorage, clock: Clock, uids: Uids) -> None:
    work = []
    for plural, declared in _POLICY.items():
        served = catalog.find(GROUP, "v1", plural)
        if served is not None:
            work += [_ensure(objects, served, each, clock, uids) for each in declared()]
    # All at once, so that a store which commits in groups does it in few.
    await asyncio.gather(*work)


async def _ensure(
    objects: ObjectStorage, served: ServedVersion, declared: Object, clock: Clock, uids: Uids
) -> None:
    name, namespace = declared["metadata"]["name"], declared["metadata"].get("namespace", "")
    key = served.key(namespace, name)
    found = await objects.find(key)
    if found is not None and _replaced(codec.decode(found.value), declared):
        await objects.amend(
            served, namespace, name, lambda live: REMOVE if _replaced(live, declared) else live
        )
        found = None
    if found is None:
        try:
            await objects.create(served, key, _born(served, declared, uids.new(), clock.now()))
            return
        except Conflict:
            pass
    try:
        await objects.amend(served, namespace, name, lambda live: mended(live, declared))
    except errors.StatusError as problem:
        if problem.code != 404:
            raise


def mended(live: Object, declared: Object) -> Object:
    """The live object with what it lacks of the declared one; the same object if nothing."""
    metadata = live["metadata"]
    if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "false":
        return live
    changes: dict[str, Any] = {}
    if "roleRef" in declared:
        subjects = live.get("subjects") or []
        if lacking := [each for each in declared.get("subjects") or () if each not in subjects]:
            changes["subjects"] = [*subjects, *lacking]
    elif "aggregationRule" in declared:
        selectors = (live.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        wanted = declared["aggregationRule"]["clusterRoleSelectors"]
        if lacking := [each for each in wanted if each not in selectors]:
            changes["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *lacking]}
    elif atoms := missing(read_rules(live), read_rules(declared)):
        changes["rules"] = [*(live.get("rules") or ()), *write_rules(atoms)]
    for field in ("labels", "annotations"):
        present = metadata.get(field) or {}
        both = {**declared["metadata"][field], **present}
        if both != present:
            metadata = changes["metadata"] = {**metadata, field: both}
    return {**live, **changes} if changes else live


def _replaced(live: Object, declared: Object) -> bool:
    """Whether a binding has another role than declared: that is immutable, so the binding is recreated."""
    annotations = live["metadata"].get("annotations") or {}
    return live.get("roleRef") != declared.get("roleRef") and annotations.get(AUTOUPDATE) != "false"


def _born(served: ServedVersion, declared: Object, uid: str, now: float) -> Object:
    obj = codec.copy(declared)
    namespace = obj["metadata"].get("namespace", "")
    strict_decoding.conform(served.kind, obj, "Strict", [])
    object_metadata.begin(served.kind, obj, namespace=namespace, uid=uid, now=now)
    return obj
