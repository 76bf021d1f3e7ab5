"""``/scale``: one small object, the same for every kind that can be scaled, read from and written into the real one."""

from __future__ import annotations

from typing import Any

from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object, ScalePaths

API_VERSION = "autoscaling/v1"


def scale_of(kind: Kind, obj: Object) -> Object:
    """The Scale of an object."""
    paths = _paths(kind)
    metadata = obj["metadata"]
    replicas = _get(obj, paths.spec)
    if replicas is None:
        raise errors.internal(f'the spec replicas field "{paths.spec}" does not exist')
    status: dict[str, Any] = {"replicas": _get(obj, paths.status) or 0}
    selector = _get(obj, paths.selector) if paths.selector else None
    if selector is not None:
        status["selector"] = selector if isinstance(selector, str) else _selector_text(selector)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {field: metadata[field] for field in kept if field in metadata},
        "spec": {"replicas": replicas},
        "status": status,
    }


def check_scale(value: Any, name: str) -> Object:
    """A Scale that was sent, or 400/422."""
    if not isinstance(value, dict) or value.get("kind", "Scale") != "Scale":
        raise errors.bad_request("the body must be a Scale of autoscaling/v1")
    if value.get("apiVersion", API_VERSION) != API_VERSION:
        raise errors.bad_request(f"the body must be a Scale of {API_VERSION}, not of {value['apiVersion']}")
    metadata, spec = value.get("metadata") or {}, value.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise errors.bad_request("metadata and spec of a Scale must be objects")
    replicas = spec.get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise errors.bad_request("spec.replicas of a Scale must be an integer")
    if replicas < 0:
        problem = FieldError.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", "autoscaling", name, [problem])
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def with_replicas(kind: Kind, live: Object, replicas: int) -> Object:
    """The object with another number of replicas; the live one is left alone."""
    parts = _paths(kind).spec.strip(".").split(".")
    result = dict(live)
    at = result
    for part in parts[:-1]:
        at[part] = dict(at.get(part) or {})
        at = at[part]
    at[parts[-1]] = replicas
    result["metadata"] = dict(live["metadata"])
    return result


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise errors.not_found(f"{kind.plural}/scale", kind.group, "")
    return kind.scale


def _get(obj: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def _selector_text(selector: dict[str, Any]) -> str:
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for each in selector.get("matchExpressions") or []:
        operator, key, values = (
            each.get("operator"),
            each.get("key"),
            ",".join(sorted(each.get("values") or [])),
        )
        if operator == "In":
            terms.append(f"{key} in ({values})")
        elif operator == "NotIn":
            terms.append(f"{key} notin ({values})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms)
