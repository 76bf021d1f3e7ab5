"""``/pilothouse/v1/pilot-targets``: the metrics of all running pilots, for Prometheus' HTTP discovery.

    [{"targets": ["127.72.1.4:12001"], "labels": {"namespace": "default", "pod": "es-0", "node": "db-3"}}]

Prometheus reads them directly and must be able to reach the pods' addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pilothouse.api.navigator.labels import HAS_PILOT
from pilothouse.apiserver.metrics.server_metrics import refuse_writes
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.watch_cache import WatchCache

PATH = "/pilothouse/v1/pilot-targets"
PORT = 12001
"""The port on which a pilot serves its readiness check and its metrics."""


class _Metadata(msgspec.Struct):
    name: str
    namespace: str
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    address: str = msgspec.field(name="podIP", default="")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_pods = msgspec.json.Decoder(_Pod)
_MARK = HAS_PILOT.encode()


class PilotTargets:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache

    async def answer(self, request: Request) -> Response:
        refuse_writes(request)
        self._cache.check_ready()
        return Response(200, codec.dump(list(targets(self._cache.collection("pods").items.values()))))


def targets(pods: Iterable[Item]) -> Iterator[dict[str, object]]:
    """The entries of running pods, in the cache's order."""
    for item in pods:
        # Most pods have no pilot: skip them without decoding.
        if _MARK not in item.value:
            continue
        pod = _pods.decode(item.value)
        if HAS_PILOT not in pod.metadata.labels or pod.status.phase != "Running" or not pod.status.address:
            continue
        host = f"[{pod.status.address}]" if ":" in pod.status.address else pod.status.address
        labels = {"namespace": pod.metadata.namespace, "pod": pod.metadata.name, "node": pod.spec.node_name}
        yield {"targets": [f"{host}:{PORT}"], "labels": labels}
