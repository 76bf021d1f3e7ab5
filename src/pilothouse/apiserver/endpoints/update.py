"""PUT: the object in the body replaces the stored one; for a few kinds it is created if there is none."""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.apiserver.endpoints import object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline, decode, respond
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object


class UpdateEndpoint:
    def __init__(
        self, pipeline: WritePipeline, large: LargeWrites, may_create: Callable[[ResourceRequest], None]
    ) -> None:
        self._pipeline = pipeline
        self._large = large
        self._may_create = may_create

    async def handle(self, call: ResourceRequest) -> Response:
        request, kind = call.request, call.served.kind
        options = write_options.write_options(request, call.params, "UpdateOptions")
        sent = await self._large.run(request, lambda: decode(call, options.validation, request.warnings))
        object_metadata.check_name(sent["metadata"], call.name)
        object_metadata.place(kind, sent["metadata"], call.namespace)
        revision = _revision(kind, sent)
        uid = str(sent["metadata"].get("uid") or "")
        used = False

        def fresh() -> Object:
            # An attempt may use up the object that was sent; the next one starts from the body again.
            nonlocal used
            if used:
                return decode(call, write_options.IGNORE, [])
            used = True
            return sent

        def edit(live: Object) -> Object:
            if not revision and not kind.unconditional_update:
                problem = FieldError.invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise strict_decoding.invalid(kind, sent, [problem])
            object_metadata.check_preconditions(kind, live, uid=uid, revision=revision)
            return fresh()

        try:
            return respond(call, await self._pipeline.update(call, edit, options), 200)
        except errors.StatusError as problem:
            if problem.code != 404 or not kind.create_on_update or call.subresource or revision:
                raise
        self._may_create(call)
        return respond(call, await self._pipeline.create(call, fresh(), options), 201)


def _revision(kind: Kind, sent: Object) -> str:
    """The revision that an update is made against, or the empty string."""
    revision = str(sent["metadata"].get("resourceVersion") or "")
    if revision and not revision.isdecimal():
        problem = FieldError.invalid("metadata.resourceVersion", revision, "must be a decimal number")
        raise strict_decoding.invalid(kind, sent, [problem])
    return revision
