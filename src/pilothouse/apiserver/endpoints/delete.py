"""DELETE of an object or a collection: each object is removed, or marked as terminating."""

from __future__ import annotations

import msgspec

from pilothouse.apiserver.admission.admission_chain import AdmissionChain
from pilothouse.apiserver.endpoints import object_metadata, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.list import ListEndpoint
from pilothouse.apiserver.endpoints.write_options import ParsedDeleteOptions
from pilothouse.apiserver.endpoints.write_pipeline import respond
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import ObjectStorage, WriteOutcome
from pilothouse.base.clock import Clock
from pilothouse.meta import errors


class DeleteEndpoint:
    def __init__(
        self,
        objects: ObjectStorage,
        admission: AdmissionChain,
        lists: ListEndpoint,
        clock: Clock,
        large: LargeWrites,
    ) -> None:
        self._objects = objects
        self._admission = admission
        self._lists = lists
        self._clock = clock
        self._large = large

    async def handle(self, call: ResourceRequest) -> Response:
        """Delete one object: a Status if it is removed, the object if it is terminating."""
        options = await self._options(call)
        self._admission.admit_delete(call)
        outcome = await self._delete(call, options)
        if outcome.removed:
            return _removed(call, outcome)
        return respond(call, outcome, 202 if options.orphan_dependents is False else 200)

    async def handle_collection(self, call: ResourceRequest) -> Response:
        """Delete each object that is selected as if by name; the answer lists them as they were."""
        listed = await self._lists.select(call)
        options = await self._options(call)
        kind = call.served.kind
        for key in [item.key for item in listed.items]:
            namespace, _, name = key.removeprefix(call.served.prefix()).rpartition("/")
            one = msgspec.structs.replace(call, namespace=namespace, name=name)
            self._admission.admit_delete(one)
            try:
                await self._delete(one, options)
            except errors.StatusError as problem:
                if problem.code != 404:
                    raise errors.StatusError(
                        problem.code,
                        problem.reason,
                        f"{errors.qualified(kind.plural, kind.group)} {name!r} was not deleted: "
                        f"{problem.message}",
                        causes=problem.causes,
                    ) from None
        return await self._lists.render(call, listed)

    async def _options(self, call: ResourceRequest) -> ParsedDeleteOptions:
        return await self._large.run(
            call.request, lambda: write_options.delete_options(call.request, call.params)
        )

    async def _delete(self, call: ResourceRequest, options: ParsedDeleteOptions) -> WriteOutcome:
        change = object_metadata.deletion(call.served.kind, options, self._clock.now(), call.strategy)
        return await self._objects.amend(
            call.served, call.namespace, call.name, change, fence=call.fence, dry_run=options.dry_run
        )


def _removed(call: ResourceRequest, outcome: WriteOutcome) -> Response:
    kind = call.served.kind
    metadata = codec.decode(outcome.value)["metadata"]
    details = {"name": call.name, "kind": kind.plural, "uid": metadata["uid"]}
    if kind.group:
        details["group"] = kind.group
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(200, codec.dump(body))
