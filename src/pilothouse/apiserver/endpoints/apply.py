"""Server-side apply: the manager owns the fields of the body; a missing object is created."""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.apiserver.endpoints import decoding, object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.decoding import Body
from pilothouse.apiserver.endpoints.write_options import STRICT, WARN, WriteOptions
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline, reset_fields, respond
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.apply.server_side_apply import apply
from pilothouse.meta.kind import Object

_CREATE_RACES = 8


class ApplyEndpoint:
    def __init__(
        self,
        pipeline: WritePipeline,
        large: LargeWrites,
        clock: Clock,
        may_create: Callable[[ResourceRequest], None],
    ) -> None:
        self._pipeline = pipeline
        self._large = large
        self._clock = clock
        self._may_create = may_create

    async def handle(self, call: ResourceRequest) -> Response:
        request, kind = call.request, call.served.kind
        options = write_options.write_options(request, call.params, "PatchOptions", apply=True)
        body = await self._large.run(request, lambda: decoding.read_yaml(request.body))
        _check_applied(call, body, options)
        applied: Object = body.value
        uid = str(applied["metadata"].get("uid") or "")
        revision = str(applied["metadata"].get("resourceVersion") or "")

        def edit(live: Object) -> Object:
            object_metadata.check_preconditions(kind, live, uid=uid, revision=revision)
            return self._merged(call, live, applied, options)

        for _ in range(_CREATE_RACES):
            try:
                return respond(call, await self._pipeline.update(call, edit, options, tracked=True), 200)
            except errors.StatusError as problem:
                if problem.code != 404 or call.subresource:
                    raise
            self._may_create(call)
            if uid:
                detail = (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                )
                raise errors.conflict(kind.plural, kind.group, call.name, detail)
            obj = await self._large.run(request, lambda: self._merged(call, None, applied, options))
            obj["metadata"].pop("resourceVersion", None)
            try:
                return respond(call, await self._pipeline.create(call, obj, options, tracked=True), 201)
            except errors.StatusError as problem:
                if problem.reason != "AlreadyExists":
                    raise
        raise errors.conflict(kind.plural, kind.group, call.name, errors.MODIFIED)

    def _merged(
        self, call: ResourceRequest, live: Object | None, applied: Object, options: WriteOptions
    ) -> Object:
        served = call.served
        merged = apply(
            live,
            applied,
            schema=served.kind.schema,
            api_version=served.kind.api_version,
            manager=options.manager,
            force=options.force,
            subresource=call.subresource,
            now=format_time(self._clock.now()),
            reset=reset_fields(call),
            served=served.resource.schemas,
            convert=codec.versions_of(served.resource),
        )
        # A field that is null has no owner: applied as null, it would be taken from its manager.
        strict_decoding.conform(
            served.kind, merged, write_options.IGNORE, [], keep_nulls=not served.kind.native
        )
        return merged


def _check_applied(call: ResourceRequest, body: Body, options: WriteOptions) -> None:
    kind = call.served.kind
    obj = strict_decoding.identify(kind, body.value)
    metadata = obj["metadata"]
    if metadata.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    metadata.pop("managedFields", None)
    metadata.setdefault("name", call.name)
    object_metadata.check_name(metadata, call.name)
    object_metadata.place(kind, metadata, call.namespace)
    if body.duplicates and options.validation == STRICT:
        raise strict_decoding.unhandled(kind, f"strict decoding error: {', '.join(body.duplicates)}")
    if options.validation == WARN:
        call.request.warnings.extend(body.duplicates)
