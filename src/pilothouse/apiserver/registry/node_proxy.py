"""``nodes/NAME/proxy/PATH``: reads a node's server through the API server.

    kubectl get --raw /api/v1/nodes/db-3/proxy/metrics

Read only, without upgrades. Metrics need ``nodes/metrics``; other paths need ``nodes/proxy``: ``get``, or
``create`` for sessions in containers (``/exec`` etc.).
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from pilothouse.api.kubernetes.kubelet_paths import opens_session
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.node_addresses import endpoint_of
from pilothouse.apiserver.registry.node_client import NodeClient
from pilothouse.apiserver.server.messages import Answer
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.meta import errors

_FIGURES = frozenset({"/metrics", "/metrics/resource", "/metrics/cadvisor"})
"""Just these, and not what begins so: a path may lead back up."""


def path_at_node(path: str) -> str:
    """The path at the node: what follows `/api/v1/nodes/NAME/proxy`."""
    return "".join(f"/{part}" for part in path.split("/")[6:]) or "/"


def asks_for_figures(path: str) -> bool:
    """Whether the path is one of the node's metrics."""
    return path_at_node(path) in _FIGURES


def asks_for_session(path: str) -> bool:
    """Whether the node would open a session in a container."""
    return opens_session(path_at_node(path))


class NodeProxy:
    def __init__(self, objects: ObjectStorage, nodes: NodeClient) -> None:
        self._objects = objects
        self._nodes = nodes

    async def answer(self, call: ResourceRequest) -> Answer:
        found = await self._objects.find(call.key)
        if found is None:
            raise errors.not_found("nodes", "", call.name)
        node = endpoint_of(codec.decode(found.value, found.revision))
        query = parse_qsl(call.request.query, keep_blank_values=True)
        path = path_at_node(call.request.path)
        return await self._nodes.read(node, path, query, ends=True, verbatim=True)
