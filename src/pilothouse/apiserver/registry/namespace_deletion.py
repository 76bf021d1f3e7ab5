"""The end of a namespace: what stands against its beginning, and ``namespaces/finalize``, how the controller that has emptied a
namespace lets it go.

A namespace that is deleted takes everything in it along, and nobody can call that back. So one that holds an object which may not be
deleted is not deleted either, rather than left half empty.
"""

from __future__ import annotations

from typing import Any

from pilothouse.apiserver.admission.admission_chain import PERMANENT_NAMESPACES
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import decoding, object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.large_writes import LargeWrites
from pilothouse.apiserver.endpoints.writes import WriteEndpoints
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectRemoval
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta import errors, names
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object


async def check_deletion(call: ResourceRequest, catalog: KindCatalog, cache: WatchCache) -> None:
    """403 if the namespace holds something that may not be deleted."""
    if call.name in PERMANENT_NAMESPACES:
        return  # It has another reason to stay, and is refused for that.
    protectable = [ServedVersion(one, one.stored) for one in catalog if one.stored.protectable]
    if protectable and not await cache.fresh():
        raise errors.unavailable("what the namespace holds is not known for certain; please try again")
    for served in protectable:
        kind = served.kind
        for item in cache.collection(served.resource.path).below(served.prefix(call.name)):
            if why := object_metadata.refusal_to_go(kind, codec.decode(item.value)):
                held = f'{errors.qualified(kind.plural, kind.group)} "{item.name}"'
                raise errors.forbidden("namespaces", "", call.name, f"it holds {held}: {why}")


async def finalize(call: ResourceRequest, writer: WriteEndpoints, large: LargeWrites) -> Response:
    """PUT of a namespace whose ``spec.finalizers`` alone are taken over; without any left it is gone."""
    kind = call.served.kind
    chosen = write_options.write_options(call.request, call.params, "UpdateOptions")
    request = call.request
    sent = await large.run(
        request,
        lambda: strict_decoding.take(
            kind, decoding.read(request, native=True), chosen.validation, request.warnings
        ),
    )
    object_metadata.check_name(sent["metadata"], call.name)
    uid = str(sent["metadata"].get("uid") or "")
    revision = str(sent["metadata"].get("resourceVersion") or "")
    finalizers = (sent.get("spec") or {}).get("finalizers") or []
    problems = [
        FieldError.invalid(element("spec.finalizers", index), each, wrong)
        for index, each in enumerate(finalizers)
        if (wrong := names.qualified_name(each))
    ]
    if problems:
        raise strict_decoding.invalid(kind, sent, problems)

    def change(live: Object) -> Any:
        object_metadata.check_preconditions(kind, live, uid=uid, revision=revision)
        spec = {**(live.get("spec") or {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        new = {**live, "spec": spec}
        return ObjectRemoval(new) if object_metadata.ends(kind, new, live) else new

    return writer.respond(call, await writer.amend(call, change, chosen), 200)
