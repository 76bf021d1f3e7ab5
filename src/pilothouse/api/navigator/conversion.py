"""Conversion between ``v1alpha1`` and ``v1beta1``, without loss in either direction.

``v1beta1`` can express all of ``v1alpha1`` but one field (``deprecated_fields``). What ``v1alpha1`` can't
express is kept in an annotation of its objects, and restored from there:

    metadata:
      annotations:
        navigator.jetstack.io/v1beta1-fields: '{"spec":{"nodePools":{"data":{"heapSize":"1Gi"}}}}'

* The annotation exists in ``v1alpha1`` alone, and is never stored.
* It holds only what ``v1alpha1`` can't express, so that edits of all other fields count.
* It belongs to the server: an update restores it (``keep_stash``). Only on create is it read, without a
  status, so that a dump can be restored (``enter_stash``).
* Pools, plugins and conditions are matched by name.

Only the cluster's ``plugins`` has another form: names in ``v1alpha1``, objects in ``v1beta1``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from pilothouse.api.navigator import v1alpha1, v1beta1
from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.deprecated_fields import from_annotation, to_annotation
from pilothouse.api.navigator.projection import join, split
from pilothouse.meta.kind import Object
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.struct_schemas import schema_of

STASH: Final = f"{GROUP}/v1beta1-fields"
LARGEST_STASH: Final = 128 * 1024
"""Half of what all annotations of an object may take."""

_PARTS: Final = ("spec", "status")
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def convert(obj: Object, source: str, target: str) -> Object:
    """The object in another version, as a new object."""
    if source == target:
        return obj
    if target == v1alpha1.VERSION:
        return _to_v1alpha1(obj)
    return _to_v1beta1(obj)


def stash_of(obj: Object) -> str:
    """What ``v1alpha1`` can't express of a ``v1beta1`` object, as in the annotation; empty if nothing."""
    return str((_to_v1alpha1(obj)["metadata"].get("annotations") or {}).get(STASH, ""))


def read_stash(text: str) -> Object:
    """What an annotation holds. Raises ValueError if no conversion wrote it."""
    try:
        stash = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(stash, dict):
        raise ValueError("not a JSON object")
    return stash


def enter_stash(obj: Object) -> None:
    """Prepare a ``v1alpha1`` object for create: the annotation of a restored dump brings no status."""
    annotations = obj["metadata"].get("annotations") or {}
    if STASH not in annotations:
        return
    try:
        stash = read_stash(annotations[STASH])
    except ValueError:
        return  # left for validation to refuse
    if stash.pop("status", None) is not None:
        annotations[STASH] = _encoder.encode(stash).decode()


def keep_stash(new: Object, old: Object) -> None:
    """Copy the stored object's annotation to an updated ``v1alpha1`` object, in place."""
    stored = (old["metadata"].get("annotations") or {}).get(STASH)
    annotations = new["metadata"].get("annotations")
    if stored is not None:
        new["metadata"]["annotations"] = {**(annotations or {}), STASH: stored}
    elif annotations and STASH in annotations:
        del annotations[STASH]


def _to_v1alpha1(obj: Object) -> Object:
    schema = _SEEN[obj["kind"]]
    obj = from_annotation(obj)
    result = {**obj, "apiVersion": f"{GROUP}/{v1alpha1.VERSION}"}
    stash: Object = {}
    for part in _PARTS:
        if part in obj:
            result[part], rest = split(obj[part], schema.properties[part])
            if rest is not None:
                stash[part] = rest
    _rename_plugins(result, lambda plugin: plugin["name"])
    if stash:
        metadata = obj["metadata"]
        annotations = metadata.get("annotations")
        if annotations == {}:
            stash["annotations"] = {}  # differs from none, so that the conversion back is exact
        text = _encoder.encode(stash).decode()
        result["metadata"] = {**metadata, "annotations": {**(annotations or {}), STASH: text}}
    return result


def _to_v1beta1(obj: Object) -> Object:
    schema = _SEEN[obj["kind"]]
    metadata, stash = _take_stash(obj["metadata"])
    result = {**obj, "apiVersion": f"{GROUP}/{v1beta1.VERSION}", "metadata": metadata}
    _rename_plugins(result, lambda name: {"name": name})
    for part in _PARTS:
        rest = stash.get(part)
        if rest is not None:
            whole = join(result.get(part, {}), rest, schema.properties[part])
            if whole or part in result:
                result[part] = whole
    return to_annotation(result)


def _take_stash(metadata: Object) -> tuple[Object, Object]:
    """The metadata without the annotation, and what it held."""
    annotations = metadata.get("annotations") or {}
    if STASH not in annotations:
        return metadata, {}
    try:
        stash = read_stash(annotations[STASH])
    except ValueError:
        stash = {}  # validation has refused it already; nothing that was stored can be like this
    others = {name: value for name, value in annotations.items() if name != STASH}
    if others or "annotations" in stash:
        return {**metadata, "annotations": others}, stash
    return {name: value for name, value in metadata.items() if name != "annotations"}, stash


def _rename_plugins(obj: Object, change: Any) -> None:
    """Replace the plugins in a copy of a cluster's spec."""
    spec = obj.get("spec")
    if obj["kind"] == "ElasticsearchCluster" and spec and "plugins" in spec:
        obj["spec"] = {**spec, "plugins": [change(plugin) for plugin in spec["plugins"]]}


def _with_plugin_objects(cluster: Schema) -> Schema:
    """The ``v1alpha1`` cluster with plugins as objects with a name."""
    plugins = schema_of(v1alpha1.PilotElasticsearch, v1alpha1.PACKAGE).properties["plugins"]
    spec = cluster.properties["spec"]
    spec = replace(spec, properties={**spec.properties, "plugins": plugins})
    return replace(cluster, properties={**cluster.properties, "spec": spec})


_SEEN: Final = {
    "ElasticsearchCluster": _with_plugin_objects(schema_of(v1alpha1.ElasticsearchCluster, v1alpha1.PACKAGE)),
    "CassandraCluster": schema_of(v1alpha1.CassandraCluster, v1alpha1.PACKAGE),
    "Pilot": schema_of(v1alpha1.Pilot, v1alpha1.PACKAGE),
}
