"""Which node keeps which volume, and for which claims it may create one. Reads the cache.

    kept.keeper("pvc-1234")                     # "n1", or empty if no node of ours made it
    kept.awaited("n1", "default", "data")       # whether the claim's volume is wanted on n1
    kept.check(node, new, old)                  # what is wrong with a volume that a node writes, or empty

A node creates volumes only for claims whose pods are scheduled to it: with a volume for any other claim it
could draw that claim's pods, and their secrets, to itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.api.local_volumes import (
    ASKED_FOR,
    FINALIZER,
    NODE,
    PROVISIONED_BY,
    PROVISIONERS,
    SELECTED_NODE,
    volume_name,
)
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta.kind import Object

_CLAIMS, _VOLUMES = "persistentvolumeclaims", "persistentvolumes"
_MUTABLE = ("capacity", "volumeAttributesClassName")


class _Metadata(msgspec.Struct):
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Marked(msgspec.Struct):
    metadata: _Metadata


_marked = msgspec.json.Decoder(_Marked)
_NOTHING = _Metadata()


class KeptVolumes:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache

    def keeper(self, volume: str) -> str:
        return _keeper(self._marks(_VOLUMES, volume).annotations)

    def awaited(self, node: str, namespace: str, claim: str) -> bool:
        marks = self._marks(_CLAIMS, f"{namespace}/{claim}").annotations or {}
        return marks.get(SELECTED_NODE) == node

    def check(self, node: str, new: Object, old: Object | None) -> str:
        metadata = new["metadata"]
        if _keeper(metadata.get("annotations")) != node:
            provisioners = ", ".join(sorted(PROVISIONERS))
            return (
                f"metadata.annotations: must say {NODE}: {node}, and {PROVISIONED_BY} one of {provisioners}"
            )
        return self._check_new(node, new) if old is None else _check_change(node, new, old)

    def _check_new(self, node: str, new: Object) -> str:
        spec, metadata = new.get("spec") or {}, new["metadata"]
        if metadata.get("ownerReferences") or set(metadata.get("finalizers") or ()) - {FINALIZER}:
            return f"metadata: a node's volume has no owners, and no finalizer but {FINALIZER}"
        reference = spec.get("claimRef") or {}
        namespace, name, uid = (str(reference.get(field) or "") for field in ("namespace", "name", "uid"))
        claim = self._marks(_CLAIMS, f"{namespace}/{name}")
        marks = claim.annotations or {}
        if not uid or claim.uid != uid or marks.get(SELECTED_NODE) != node:
            return f"spec.claimRef: must be a claim whose volume is wanted on node '{node}'"
        provisioner = next((marks[one] for one in ASKED_FOR if one in marks), "")
        if provisioner != new["metadata"]["annotations"][PROVISIONED_BY]:
            asked = f"a volume of {provisioner}" if provisioner else "no volume of a provisioner"
            return f"metadata.annotations: the claim asks for {asked}"
        if new["metadata"].get("name") != volume_name(uid):
            return f"metadata.name: must be {volume_name(uid)}, after its claim"
        if "local" not in spec:
            return "spec.local: a node makes volumes of its own disk"
        if not _is_for_one_host(spec.get("nodeAffinity")):
            return "spec.nodeAffinity: must require kubernetes.io/hostname In one value, and nothing else"
        return ""

    def _marks(self, collection: str, name: str) -> _Metadata:
        item = self._cache.get(collection, f"{ROOT}{collection}/{name}")
        return _marked.decode(item.value).metadata if item is not None else _NOTHING


def _check_change(node: str, new: Object, old: Object) -> str:
    if _keeper(old["metadata"].get("annotations")) != node:
        return f"it is no volume of node '{node}'"
    if _fixed(new) != _fixed(old):
        mutable = ", ".join(f"spec.{one}" for one in _MUTABLE)
        return f"a node may change {mutable} of a volume, and its own finalizer"
    return ""


def _fixed(volume: Object) -> tuple[Any, ...]:
    metadata, spec = volume["metadata"], volume.get("spec") or {}
    return (
        {field: value for field, value in spec.items() if field not in _MUTABLE},
        [one for one in metadata.get("finalizers") or () if one != FINALIZER],
        *(metadata.get(field) or None for field in ("annotations", "labels", "ownerReferences")),
    )


def _is_for_one_host(affinity: Any) -> bool:
    """A malformed affinity would affect every decision about claims and pods; another node's would draw pods
    there."""
    match affinity:
        case {"required": {"nodeSelectorTerms": [{"matchExpressions": [{**expression}]}]}}:
            values = expression.get("values")
            return (
                expression.get("key") == "kubernetes.io/hostname"
                and expression.get("operator") == "In"
                and isinstance(values, list)
                and len(values) == 1
            )
    return False


def _keeper(annotations: dict[str, str] | None) -> str:
    marks = annotations or {}
    return marks.get(NODE, "") if marks.get(PROVISIONED_BY) in PROVISIONERS else ""
