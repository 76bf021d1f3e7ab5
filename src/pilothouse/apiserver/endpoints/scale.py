"""``/scale``: one object for every kind that can be scaled, read from and written into the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.endpoints import decoding, object_metadata, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    accepted_patches,
    read_patch,
)
from pilothouse.apiserver.endpoints.write_options import WriteOptions
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.server.negotiation import PARTIAL, TABLE, AnswerEndpoint, negotiate
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.meta.apply.patches import merge_patch
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object, ScalePaths
from pilothouse.meta.selectors import LabelSelector, SelectorError

API_VERSION = "autoscaling/v1"
_LEAST, _MOST = -(2**31), 2**31 - 1


class ScaleEndpoint:
    def __init__(
        self, objects: ObjectStorage, pipeline: WritePipeline, clock: Clock, large: LargeWrites
    ) -> None:
        self._objects = objects
        self._pipeline = pipeline
        self._clock = clock
        self._large = large

    async def handle(self, call: ResourceRequest) -> Response:
        match call.verb:
            case "get":
                return await self._get(call)
            case "update":
                return await self._update(call)
        return await self._patch(call)

    async def _get(self, call: ResourceRequest) -> Response:
        kind = call.served.kind
        found = await self._objects.find(call.key)
        if found is None:
            raise errors.not_found(kind.plural, kind.group, call.name)
        scale = _stored_scale(call, found.value, found.revision)
        return render_scale(call.request, scale, self._clock.now())

    async def _update(self, call: ResourceRequest) -> Response:
        """Without a resourceVersion it is unconditional."""
        options = write_options.write_options(call.request, call.params, "UpdateOptions")
        body = await self._large.run(call.request, lambda: decoding.read(call.request, native=True))
        scale = check_scale(body.value, call.name)
        if scale["metadata"].get("name"):
            object_metadata.check_name(scale["metadata"], call.name)
        return await self._write(call, lambda live: scale, options)

    async def _patch(self, call: ResourceRequest) -> Response:
        request, kind = call.request, call.served.kind
        media = decoding.media_type(request.headers)
        options = write_options.write_options(
            request, call.params, "PatchOptions", apply=media == APPLY_PATCH
        )
        if media == APPLY_PATCH:
            body = await self._large.run(request, lambda: decoding.read_yaml(request.body))
            applied = body.value
            patch: Callable[[Object], Any] = lambda scale: merge_patch(scale, applied)  # noqa: E731
        else:
            if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
                raise errors.unsupported_media_type(accepted_patches(kind))
            plain = MERGE_PATCH if media == STRATEGIC_PATCH else media
            patch, _ = await self._large.run(request, lambda: read_patch(plain, request.body, kind))
        return await self._write(
            call, lambda live: check_scale(patch(scale_of(kind, live)), call.name), options
        )

    async def _write(
        self, call: ResourceRequest, scale_for: Callable[[Object], Object], options: WriteOptions
    ) -> Response:
        """Store the replicas of the Scale that is wanted for the live object."""
        kind = call.served.kind

        def edit(live: Object) -> Object:
            scale = scale_for(live)
            uid, revision = (str(scale["metadata"].get(name) or "") for name in ("uid", "resourceVersion"))
            object_metadata.check_preconditions(kind, live, uid=uid, revision=revision)
            return with_replicas(kind, live, scale["spec"]["replicas"])

        outcome = await self._pipeline.update(call, edit, options)
        return Response(200, codec.dump(_stored_scale(call, outcome.value, outcome.revision)))


def _stored_scale(call: ResourceRequest, value: bytes, revision: int) -> Object:
    kind = call.served.kind
    return scale_of(kind, codec.convert(call.served.resource, codec.decode(value, revision), kind.version))


def render_scale(request: Request, scale: Object, now: float) -> Response:
    form = negotiate(request, AnswerEndpoint.OBJECT)
    body = codec.dump(scale)
    if form.transform == TABLE:
        body = tables.table_of_scale(scale, tables.included(request.params()), now)
    elif form.transform == PARTIAL:
        body = tables.partial(body)
    return Response(200, form.write(body), form.media)


def scale_of(kind: Kind, obj: Object) -> Object:
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
    """The 422 for an object without a scale, with the field that is the cause."""
    return errors.invalid(kind.name, kind.group, obj["metadata"]["name"], [problem])
