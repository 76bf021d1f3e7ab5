"""Namespaces: what prevents a deletion, and ``namespaces/finalize``.

A namespace that holds an object which may not be deleted is not deleted, rather than left half empty.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pilothouse.apiserver.admission.namespace_lifecycle import PERMANENT_NAMESPACES
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import object_metadata, strict_decoding, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline, decode, respond
from pilothouse.apiserver.registry.strategy import Strategy
from pilothouse.apiserver.server.messages import Answer, Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import ObjectRemoval
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta import errors, names
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object


class NamespaceStrategy(Strategy):
    def __init__(
        self, catalog: KindCatalog, cache: WatchCache, pipeline: WritePipeline, large: LargeWrites
    ) -> None:
        self._catalog = catalog
        self._cache = cache
        self._pipeline = pipeline
        self._large = large
        self.subresources = {"finalize": self._finalize}

    async def around_write(self, call: ResourceRequest, write: Callable[[], Awaitable[Answer]]) -> Answer:
        """Once the deletion of a namespace is answered, nothing can be created in it."""
        if call.verb == "delete" and not call.subresource:
            await self._check_deletion(call)
        answer = await write()
        await self._cache.fresh()
        if call.request.late_warnings is not None:
            call.request.warnings += await call.request.late_warnings()
        return answer

    async def _check_deletion(self, call: ResourceRequest) -> None:
        """403 if the namespace holds something that may not be deleted."""
        if call.name in PERMANENT_NAMESPACES:
            return  # Admission refuses it for that.
        protectable = [ServedVersion(one, one.stored) for one in self._catalog if one.stored.protectable]
        if protectable and not await self._cache.fresh():
            raise errors.unavailable("the content of the namespace is not known yet; please try again")
        for served in protectable:
            kind = served.kind
            for item in self._cache.collection(served.resource.path).below(served.prefix(call.name)):
                if why := object_metadata.refusal_to_go(kind, codec.decode(item.value)):
                    held = f'{errors.qualified(kind.plural, kind.group)} "{item.name}"'
                    raise errors.forbidden("namespaces", "", call.name, f"it holds {held}: {why}")

    async def _finalize(self, call: ResourceRequest) -> Response:
        """PUT of a namespace, of which only ``spec.finalizers`` is stored; without any left it is removed."""
        kind, request = call.served.kind, call.request
        options = write_options.write_options(request, call.params, "UpdateOptions")
        sent = await self._large.run(request, lambda: decode(call, options.validation, request.warnings))
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

        return respond(call, await self._pipeline.store(call, change, options), 200)
