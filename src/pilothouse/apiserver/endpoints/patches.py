"""PATCH in its four forms: JSON patch, merge patch, strategic merge, and server-side apply.

The first three make a new object out of the live one and then go the way of an update, again and again until no other
writer comes in between; only a patch that pins ``metadata.resourceVersion`` can meet a 409. Apply also creates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.apiserver.endpoints import decoding, object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints import scale as scaling
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.decoding import Body
from pilothouse.apiserver.endpoints.large_writes import LargeWrites
from pilothouse.apiserver.endpoints.write_options import STRICT, WARN, WriteOptions
from pilothouse.apiserver.endpoints.writes import WriteEndpoints, reset_fields
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import WriteOutcome
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.apply.patches import json_patch, merge_patch
from pilothouse.meta.apply.server_side_apply import apply
from pilothouse.meta.apply.strategic_merge import strategic_merge
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_CREATE_RACES = 8

Edit = Callable[[Object], Any]


class PatchEndpoints:
    """Patches to objects, their status and their scale."""

    def __init__(
        self,
        writer: WriteEndpoints,
        clock: Clock,
        may_create: Callable[[ResourceRequest], None],
        large: LargeWrites,
    ) -> None:
        self._large = large
        self._writer = writer
        self._clock = clock
        self._may_create = may_create

    async def patch(self, call: ResourceRequest) -> Response:
        """PATCH of an object."""
        kind = call.served.kind
        media = decoding.media_type(call.request.headers)
        accepted = accepted_patches(kind)
        if media not in accepted:
            raise errors.unsupported_media_type(accepted)
        chosen = write_options.write_options(
            call.request, call.params, "PatchOptions", apply=media == APPLY_PATCH
        )
        if media == APPLY_PATCH:
            outcome, status = await self._apply(call, chosen)
            return self._writer.respond(call, outcome, status)
        edit, repeated = await self._large.run(
            call.request, lambda: read_edit(media, call.request.body, kind)
        )

        def change(live: Object) -> Any:
            try:
                new = self._edited(call, live, edit, repeated, chosen)
                return self._writer.succeed(call, new, live, chosen)
            except errors.StatusError as problem:
                if kind.confidential:
                    raise strict_decoding.redacted(problem, live) from None
                raise

        return self._writer.respond(call, await self._writer.amend(call, change, chosen), 200)

    async def patch_scale(self, call: ResourceRequest) -> Response:
        """PATCH of an object's scale."""
        kind = call.served.kind
        media = decoding.media_type(call.request.headers)
        chosen = write_options.write_options(
            call.request, call.params, "PatchOptions", apply=media == APPLY_PATCH
        )
        if media == APPLY_PATCH:
            body = await self._large.run(call.request, lambda: decoding.read_yaml(call.request.body))
            applied = body.value
            edit: Edit = lambda scale: merge_patch(scale, applied)  # noqa: E731
        else:
            if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
                raise errors.unsupported_media_type(accepted_patches(kind))
            plain = MERGE_PATCH if media == STRATEGIC_PATCH else media
            edit, _ = await self._large.run(call.request, lambda: read_edit(plain, call.request.body, kind))

        def change(live: Object) -> Any:
            scale = edit(scaling.scale_of(kind, live))
            return self.rescale(call, scaling.check_scale(scale, call.name), live, chosen)

        return scale_response(call, await self._writer.amend(call, change, chosen))

    async def update_scale(self, call: ResourceRequest) -> Response:
        """PUT of an object's scale; without a resourceVersion it is unconditional."""
        chosen = write_options.write_options(call.request, call.params, "UpdateOptions")
        body = await self._large.run(call.request, lambda: decoding.read(call.request, native=True))
        scale = scaling.check_scale(body.value, call.name)
        if scale["metadata"].get("name"):
            object_metadata.check_name(scale["metadata"], call.name)

        def change(live: Object) -> Any:
            return self.rescale(call, scale, live, chosen)

        return scale_response(call, await self._writer.amend(call, change, chosen))

    def rescale(self, call: ResourceRequest, scale: Object, live: Object, chosen: WriteOptions) -> Any:
        """The live object with the replicas of a Scale."""
        kind = call.served.kind
        metadata = scale["metadata"]
        object_metadata.check_preconditions(
            kind,
            live,
            uid=str(metadata.get("uid") or ""),
            revision=str(metadata.get("resourceVersion") or ""),
        )
        new = scaling.with_replicas(kind, live, scale["spec"]["replicas"])
        return self._writer.succeed(call, new, live, chosen)

    def _edited(
        self, call: ResourceRequest, live: Object, edit: Edit, repeated: list[str], chosen: WriteOptions
    ) -> Object:
        kind = call.served.kind
        new = strict_decoding.identify(kind, edit(live))
        metadata, before = new["metadata"], live["metadata"]
        object_metadata.check_name(metadata, call.name)
        object_metadata.place(kind, metadata, call.namespace)
        pinned = str(metadata.get("resourceVersion") or before["resourceVersion"])
        object_metadata.check_preconditions(kind, live, uid="", revision=pinned)
        if metadata.get("uid") not in (None, "", before["uid"]):
            problem = FieldError.invalid("metadata.uid", metadata["uid"], "field is immutable")
            raise strict_decoding.invalid(kind, new, [problem])
        try:
            strict_decoding.conform(kind, new, chosen.validation, call.request.warnings, repeated=repeated)
        except strict_decoding.StrictError as strict:
            shown = call.request.body.decode(errors="replace")
            problem = FieldError.invalid("patch", shown, f"strict decoding error: {strict}")
            raise strict_decoding.invalid(kind, new, [problem]) from None
        return new

    async def _apply(self, call: ResourceRequest, chosen: WriteOptions) -> tuple[WriteOutcome, int]:
        kind = call.served.kind
        body = await self._large.run(call.request, lambda: decoding.read_yaml(call.request.body))
        self._check_applied(call, body, chosen)
        for _ in range(_CREATE_RACES):
            try:
                return await self._writer.amend(call, self._applying(call, body.value, chosen), chosen), 200
            except errors.StatusError as problem:
                if problem.code != 404 or call.subresource:
                    raise
            self._may_create(call)
            uid = str(body.value["metadata"].get("uid") or "")
            if uid:
                detail = (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                )
                raise errors.conflict(kind.plural, kind.group, call.name, detail)
            obj = await self._large.run(call.request, lambda: self._merged(call, None, body.value, chosen))
            obj["metadata"].pop("resourceVersion", None)
            try:
                return await self._writer.insert(call, obj, chosen, tracked=False), 201
            except errors.StatusError as problem:
                if problem.reason != "AlreadyExists":
                    raise
        raise errors.conflict(kind.plural, kind.group, call.name, errors.MODIFIED)

    def _applying(
        self, call: ResourceRequest, applied: Object, chosen: WriteOptions
    ) -> Callable[[Object], Any]:
        def change(live: Object) -> Any:
            metadata = applied["metadata"]
            object_metadata.check_preconditions(
                call.served.kind,
                live,
                uid=str(metadata.get("uid") or ""),
                revision=str(metadata.get("resourceVersion") or ""),
            )
            new = self._merged(call, live, applied, chosen)
            return self._writer.succeed(call, new, live, chosen, tracked=False)

        return change

    def _merged(
        self, call: ResourceRequest, live: Object | None, applied: Object, chosen: WriteOptions
    ) -> Object:
        served = call.served
        merged = apply(
            live,
            applied,
            schema=served.kind.schema,
            api_version=served.kind.api_version,
            manager=chosen.manager,
            force=chosen.force,
            subresource=call.subresource,
            now=format_time(self._clock.now()),
            reset=reset_fields(call),
            served=served.resource.schemas,
            convert=codec.versions_of(served.resource),
        )
        # Nobody owns a field that is null: one that is applied as such would take it from whoever has it.
        strict_decoding.conform(
            served.kind, merged, write_options.IGNORE, [], keep_nulls=not served.kind.native
        )
        return merged

    def _check_applied(self, call: ResourceRequest, body: Body, chosen: WriteOptions) -> None:
        kind = call.served.kind
        obj = strict_decoding.identify(kind, body.value)
        metadata = obj["metadata"]
        if metadata.get("managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        metadata.pop("managedFields", None)
        metadata.setdefault("name", call.name)
        object_metadata.check_name(metadata, call.name)
        object_metadata.place(kind, metadata, call.namespace)
        if body.duplicates and chosen.validation == STRICT:
            raise strict_decoding.unhandled(kind, f"strict decoding error: {', '.join(body.duplicates)}")
        if chosen.validation == WARN:
            call.request.warnings.extend(body.duplicates)


def read_edit(media: str, data: bytes, kind: Kind) -> tuple[Edit, list[str]]:
    """What a patch does to an object, and what is to be said of the keys that its text repeats."""
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
    """The media types that a kind's PATCH takes."""
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    return [*accepted, STRATEGIC_PATCH] if kind.native else accepted


def scale_response(call: ResourceRequest, outcome: WriteOutcome) -> Response:
    """The Scale of an object after a write."""
    kind = call.served.kind
    obj = codec.decode(outcome.value, outcome.revision)
    return Response(
        200, codec.dump(scaling.scale_of(kind, codec.convert(call.served.resource, obj, kind.version)))
    )
