"""PATCH: JSON, merge and strategic merge patches; see ``apply`` for the fourth.

A conflicting patch is retried on the latest object, so only one that sets ``metadata.resourceVersion`` gets a
409.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.apiserver.endpoints import decoding, object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints.apply import ApplyEndpoint
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.write_options import WriteOptions
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline, respond
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.meta import errors
from pilothouse.meta.apply.patches import json_patch, merge_patch
from pilothouse.meta.apply.strategic_merge import strategic_merge
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Edit = Callable[[Object], Any]


class PatchEndpoint:
    def __init__(self, pipeline: WritePipeline, large: LargeWrites, apply: ApplyEndpoint) -> None:
        self._pipeline = pipeline
        self._large = large
        self._apply = apply

    async def handle(self, call: ResourceRequest) -> Response:
        request, kind = call.request, call.served.kind
        media = decoding.media_type(request.headers)
        accepted = accepted_patches(kind)
        if media not in accepted:
            raise errors.unsupported_media_type(accepted)
        if media == APPLY_PATCH:
            return await self._apply.handle(call)
        options = write_options.write_options(request, call.params, "PatchOptions")
        patch, repeated = await self._large.run(request, lambda: read_patch(media, request.body, kind))

        def edit(live: Object) -> Object:
            return _patched(call, live, patch, repeated, options)

        return respond(call, await self._pipeline.update(call, edit, options, redacted=True), 200)


def _patched(
    call: ResourceRequest, live: Object, patch: Edit, repeated: list[str], options: WriteOptions
) -> Object:
    """The live object after a patch, as an object of its kind."""
    kind = call.served.kind
    new = strict_decoding.identify(kind, patch(live))
    metadata, before = new["metadata"], live["metadata"]
    object_metadata.check_name(metadata, call.name)
    object_metadata.place(kind, metadata, call.namespace)
    pinned = str(metadata.get("resourceVersion") or before["resourceVersion"])
    object_metadata.check_preconditions(kind, live, uid="", revision=pinned)
    if metadata.get("uid") not in (None, "", before["uid"]):
        problem = FieldError.invalid("metadata.uid", metadata["uid"], "field is immutable")
        raise strict_decoding.invalid(kind, new, [problem])
    try:
        strict_decoding.conform(kind, new, options.validation, call.request.warnings, repeated=repeated)
    except strict_decoding.StrictError as strict:
        shown = call.request.body.decode(errors="replace")
        problem = FieldError.invalid("patch", shown, f"strict decoding error: {strict}")
        raise strict_decoding.invalid(kind, new, [problem]) from None
    return new


def read_patch(media: str, data: bytes, kind: Kind) -> tuple[Edit, list[str]]:
    """What a patch does to an object, and the warnings about repeated keys."""
    body = decoding.read_json(data)
    value = body.value
    if media == JSON_PATCH:
        return lambda live: json_patch(live, value), []
    if not isinstance(value, dict):
        raise errors.bad_request("the patch must be a JSON object")
    if media == STRATEGIC_PATCH:
        return lambda live: strategic_merge(live, value, kind.schema), body.duplicates
    return lambda live: merge_patch(live, value), body.duplicates


def accepted_patches(kind: Kind) -> list[str]:
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    return [*accepted, STRATEGIC_PATCH] if kind.native else accepted
