"""The pages about a node's pods: their list and their logs. Independent of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import msgspec

from pilothouse.api.kubernetes.pods.log_options import LogOptions
from pilothouse.base.clock import Clock
from pilothouse.meta.errors import StatusError
from pilothouse.node.containers.container_index import ContainerIndex, ContainerLocation, ContainerNotFound
from pilothouse.node.logs.log_reader import Ended, read_log


class RequestRefused(Exception):
    """A request that can't be served: HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ContainerPath(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    container: str


class PodPages:
    def __init__(self, container_index: ContainerIndex, clock: Clock) -> None:
        self._index = container_index
        self._clock = clock

    def find(self, place: ContainerPath, *, previous: bool = False) -> ContainerLocation:
        try:
            return self._index.find(place.namespace, place.pod, place.container, previous=previous)
        except ContainerNotFound as problem:
            raise RequestRefused(400, str(problem)) from None

    def log(self, place: ContainerPath, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        try:
            options = LogOptions.parse(params, self._clock.now())
        except StatusError as problem:
            raise RequestRefused(problem.code, problem.message) from None
        found = self.find(place, previous=options.previous)
        return read_log(found.log, options, _end_of(found))

    def pods(self) -> bytes:
        """All pods of the node, as a PodList."""
        items = [pod.tree for pod in self._index.pods()]
        return msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})


def _end_of(found: ContainerLocation) -> Ended:
    if found.container is not None:
        return found.container.exited

    async def at_once() -> None:
        await asyncio.sleep(0)

    return at_once
