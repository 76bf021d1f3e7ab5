"""``persistence.enabled`` of old manifests: ``v1alpha1`` accepts it, ``v1beta1`` doesn't have it.

    persistence: {enabled: true, size: 10Gi}      # the same as {size: 10Gi}
    persistence: {enabled: false, size: 10Gi}     # the same as no persistence at all

In ``v1beta1``, the stored version, a pool with ``enabled: false`` has no ``persistence``. An annotation of
the object in ``v1beta1`` keeps what was written, so that ``v1alpha1`` returns it and applying a manifest
twice changes nothing:

    navigator.jetstack.io/v1alpha1-fields: '{"spec":{"nodePools":{"data":{"persistence":{"enabled":true}}}}}'

The annotation belongs to the server: an update keeps it, and drops what no longer fits its pool, by name. It
has no effect on volumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.navigator.clusters import GROUP
from pilothouse.meta.kind import Object

ANNOTATION: Final = f"{GROUP}/v1alpha1-fields"
_PERSISTENCE: Final = "persistence"
_ENABLED: Final = "enabled"
_encoder: Final = msgspec.json.Encoder(order="deterministic")


def volume_of(pool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The ``persistence`` of a pool with volumes, in either version."""
    persistence: Mapping[str, Any] | None = pool.get(_PERSISTENCE)
    return None if persistence is not None and persistence.get(_ENABLED) is False else persistence


def warnings(new: Object, old: Object | None) -> Iterator[str]:
    """A warning for each pool of a ``v1alpha1`` cluster that has the field."""
    for index, pool in enumerate(_pools(new)):
        persistence = pool.get(_PERSISTENCE)
        if not isinstance(persistence, dict) or persistence.get(_ENABLED) is None:
            continue
        path = f"spec.nodePools[{index}].{_PERSISTENCE}"
        if persistence[_ENABLED]:
            effect = f"a pool with {_PERSISTENCE} has volumes without it"
        else:
            effect = f"this pool has no volumes, and its data goes with its pods; leave {path} out instead"
        yield f"{path}.{_ENABLED}: deprecated, and unknown in v1beta1: {effect}"


def to_annotation(obj: Object) -> Object:
    """A copy of a ``v1alpha1`` object with the field moved into the annotation."""
    kept: Object = {}
    pools = []
    for pool in _pools(obj):
        persistence = pool.get(_PERSISTENCE)
        if isinstance(persistence, dict) and _ENABLED in persistence:
            pool = {name: value for name, value in pool.items() if name != _PERSISTENCE}
            if persistence[_ENABLED] is False:
                kept[pool.get("name", "")] = {_PERSISTENCE: persistence}
            else:
                kept[pool.get("name", "")] = {_PERSISTENCE: {_ENABLED: persistence[_ENABLED]}}
                rest = {name: value for name, value in persistence.items() if name != _ENABLED}
                pool = {**pool, _PERSISTENCE: rest}
        pools.append(pool)
    if not kept:
        return obj
    annotations = obj["metadata"].get("annotations")
    # An empty map differs from none, so that the conversion back is exact.
    extra: Object = {"annotations": {}} if annotations == {} else {}
    text = _encode({"spec": {"nodePools": kept}, **extra})
    metadata = {**obj["metadata"], "annotations": {**(annotations or {}), ANNOTATION: text}}
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], "nodePools": pools}}


def from_annotation(obj: Object) -> Object:
    """A copy of a ``v1beta1`` object with the annotation moved back into the field."""
    annotations = obj["metadata"].get("annotations") or {}
    if ANNOTATION not in annotations:
        return obj
    kept = _read(annotations[ANNOTATION])
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    if others or "annotations" in kept:
        metadata["annotations"] = others
    result = {**obj, "metadata": metadata}
    written = _fitting(kept, obj)
    if written:
        pools = [_restored(pool, written.get(pool.get("name", ""))) for pool in _pools(obj)]
        result["spec"] = {**obj["spec"], "nodePools": pools}
    return result


def keep_annotation(new: Object, old: Object) -> None:
    """Copy the stored object's annotation to an updated ``v1beta1`` object, in place, as far as it fits."""
    stored = (old["metadata"].get("annotations") or {}).get(ANNOTATION)
    annotations = dict(new["metadata"].get("annotations") or {})
    given = annotations.pop(ANNOTATION, None)
    if text := canonical(stored, new):
        annotations[ANNOTATION] = text
    elif given is None:
        return
    if annotations:
        new["metadata"]["annotations"] = annotations
    else:
        new["metadata"].pop("annotations", None)


def canonical(text: str | None, obj: Object) -> str:
    """What an annotation says about a ``v1beta1`` object, in the server's form; empty if nothing."""
    kept = _read(text) if text is not None else {}
    fitting = _fitting(kept, obj)
    if not fitting:
        return ""
    extra: Object = {"annotations": {}} if kept.get("annotations") == {} else {}
    return _encode({"spec": {"nodePools": fitting}, **extra})


def _fitting(kept: Object, obj: Object) -> Object:
    """The entries of an annotation that agree with the pools."""
    entries = _child(_child(kept, "spec"), "nodePools")
    found: Object = {}
    for pool in _pools(obj):
        written = _child(_child(entries, pool.get("name", "")), _PERSISTENCE)
        if _ENABLED not in written:
            continue
        if written[_ENABLED] is False:
            fits = _PERSISTENCE not in pool and all(_is_known(*each) for each in written.items())
        else:
            fits = isinstance(pool.get(_PERSISTENCE), dict) and written == {_ENABLED: True}
        if fits:
            found[pool.get("name", "")] = {_PERSISTENCE: written}
    return found


def _is_known(name: str, value: Any) -> bool:
    """True for the value of a ``persistence`` field in ``v1alpha1``."""
    if name == "size":
        return isinstance(value, str | int | float)
    return name == _ENABLED or (name == "storageClass" and isinstance(value, str))


def _restored(pool: Object, entry: Object | None) -> Object:
    if entry is None:
        return pool
    return {**pool, _PERSISTENCE: {**(pool.get(_PERSISTENCE) or {}), **entry[_PERSISTENCE]}}


def _pools(obj: Object) -> list[Object]:
    spec = obj.get("spec")
    pools = spec.get("nodePools") if isinstance(spec, dict) else None
    return [pool for pool in pools if isinstance(pool, dict)] if isinstance(pools, list) else []


def _read(text: str) -> Object:
    try:
        kept = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}  # validation refuses it on create, and an update does not look at it
    return kept if isinstance(kept, dict) else {}


def _child(value: Any, name: str) -> Object:
    child = value.get(name) if isinstance(value, dict) else None
    return child if isinstance(child, dict) else {}


def _encode(value: Object) -> str:
    return _encoder.encode(value).decode()
