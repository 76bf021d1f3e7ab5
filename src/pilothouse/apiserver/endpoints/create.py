"""POST to a collection: creates the object in the body, under its own or a generated name."""

from __future__ import annotations

from random import Random

from pilothouse.apiserver.endpoints import object_metadata, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.write_options import WriteOptions
from pilothouse.apiserver.endpoints.write_pipeline import WritePipeline, decode, respond
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import WriteOutcome
from pilothouse.meta import errors, names
from pilothouse.meta.kind import Object

_GENERATED_TRIES = 8


class CreateEndpoint:
    def __init__(self, pipeline: WritePipeline, large: LargeWrites, random: Random) -> None:
        self._pipeline = pipeline
        self._large = large
        self._random = random

    async def handle(self, call: ResourceRequest) -> Response:
        request = call.request
        options = write_options.write_options(request, call.params, "CreateOptions")
        obj = await self._large.run(request, lambda: decode(call, options.validation, request.warnings))
        metadata = obj["metadata"]
        if call.name:
            object_metadata.check_name(metadata, call.name)
        if metadata.get("name") or not metadata.get("generateName"):
            outcome = await self._pipeline.create(call, obj, options)
        else:
            outcome = await self._create_generated(call, obj, options)
        return respond(call, outcome, 201)

    async def _create_generated(
        self, call: ResourceRequest, obj: Object, options: WriteOptions
    ) -> WriteOutcome:
        metadata = obj["metadata"]
        for _ in range(_GENERATED_TRIES):
            named = {**metadata, "name": names.generate_name(metadata["generateName"], self._random)}
            try:
                return await self._pipeline.create(call, codec.copy({**obj, "metadata": named}), options)
            except errors.StatusError as problem:
                if problem.reason != "AlreadyExists":
                    raise
                conflict = problem
        conflict.message += ", the server was not able to generate a unique name for the object"
        conflict.retry_after = 1
        raise conflict
