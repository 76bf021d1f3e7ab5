"""``/pilothouse/v1/node-targets``: the metrics of all nodes, for Prometheus' HTTP discovery.

    [{"targets": ["127.0.0.1:6443"], "labels": {"node": "db-3", "__metrics_path__": "/api/v1/nodes/…"}}]

They are read through the API server, so Prometheus need not reach the nodes or know their certificates.
"""

from __future__ import annotations

from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta.errors import StatusError

PATH = "/pilothouse/v1/node-targets"


class NodeTargets:
    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache

    async def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise StatusError(405, "MethodNotAllowed", f"{request.method} is not supported on {PATH}")
        host = request.headers.get("Host", "")
        names = sorted(item.name for item in self._cache.collection("nodes").items.values())
        return Response(200, codec.dump([target(host, name) for name in names]))


def target(address: str, node: str) -> dict[str, object]:
    labels = {"node": node, "__metrics_path__": f"/api/v1/nodes/{node}/proxy/metrics"}
    return {"targets": [address], "labels": labels}
