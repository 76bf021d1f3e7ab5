"""``/scale``: one small object, the same for every kind that can be scaled, read from and written into the real one."""

from __future__ import annotations

from typing import Any

from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object, ScalePaths
from pilothouse.meta.selectors import LabelSelector, SelectorError

API_VERSION = "autoscaling/v1"
_LEAST, _MOST = -(2**31), 2**31 - 1


def scale_of(kind: Kind, obj: Object) -> Object:
    """The Scale of an object."""
    paths = _paths(kind)
    metadata = obj["metadata"]
    replicas = _get(obj, paths.spec)
    if replicas is None:
        raise _unscalable(kind, obj, FieldError.required(paths.spec.lstrip("."), "it is what /scale shows"))
    status: dict[str, Any] = {"replicas": _get(obj, paths.status) or 0}
    for path, number in ((paths.spec, replicas), (paths.status, status["replicas"])):
        if not _is_integer(number):
            problem = FieldError.type_invalid(path.lstrip("."), number, "must be an integer to be scaled by")
            raise _unscalable(kind, obj, problem)
    selector = _get(obj, paths.selector) if paths.selector else None
    if selector is not None:
        status["selector"] = _selector_text(kind, obj, selector)
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
    if not _is_integer(replicas) or not _LEAST <= replicas <= _MOST:
        raise errors.bad_request("spec.replicas of a Scale must be an integer of 32 bits")
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
        inner = at.get(part) or {}
        if not isinstance(inner, dict):
            problem = FieldError.type_invalid(
                ".".join(parts), inner, f"{part} must be an object to be scaled"
            )
            raise _unscalable(kind, live, problem)
        at[part] = dict(inner)
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


def _selector_text(kind: Kind, obj: Object, selector: Any) -> str:
    if isinstance(selector, str):
        return selector
    path = _paths(kind).selector.lstrip(".")
    if not isinstance(selector, dict):
        raise _unscalable(kind, obj, FieldError.type_invalid(path, selector, "must be a label selector"))
    try:
        return str(LabelSelector.from_object(selector))
    except SelectorError as problem:
        raise _unscalable(kind, obj, FieldError.invalid(path, selector, problem.message)) from None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unscalable(kind: Kind, obj: Object, problem: FieldError) -> errors.StatusError:
    """An object that has no scale as it stands: 422 that says which of its fields is to blame."""
    return errors.invalid(kind.name, kind.group, obj["metadata"]["name"], [problem])
