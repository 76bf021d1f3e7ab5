"""What is there from the first start: the namespaces that clients take for granted."""

from __future__ import annotations

from pilothouse.apiserver.admission.namespace_lifecycle import PERMANENT_NAMESPACES
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import object_metadata, strict_decoding
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.base.uids import Uids
from pilothouse.meta.kind import Object
from pilothouse.store.interface import Conflict

NAMESPACES = (*PERMANENT_NAMESPACES, "kube-node-lease")


async def make_namespaces(catalog: KindCatalog, objects: ObjectStorage, clock: Clock, uids: Uids) -> None:
    """Create the namespaces that are missing; another instance may do the same at the same time."""
    served = catalog.find("", "v1", "namespaces")
    if served is None:
        return
    for name in NAMESPACES:
        key = served.key("", name)
        if await objects.find(key) is None:
            try:
                await objects.create(served, key, _namespace(served, name, uids.new(), clock.now()))
            except Conflict:
                continue


def _namespace(served: ServedVersion, name: str, uid: str, now: float) -> Object:
    obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    strict_decoding.conform(served.kind, obj, "Strict", [])
    object_metadata.begin(served.kind, obj, namespace="", uid=uid, now=now)
    return obj
