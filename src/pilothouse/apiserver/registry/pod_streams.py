"""``pods/log``, ``pods/exec`` and ``pods/attach``: forwarded to the node of the pod.

Only WebSockets are supported (kubectl 1.30 and newer). SPDY is refused last, after all other checks: newer
kubectls retry with SPDY after any refusal and print that one.
"""

from __future__ import annotations

from pilothouse.api.kubernetes.pods.log_options import NAMES, LogOptions
from pilothouse.api.kubernetes.pods.stream_options import PROTOCOLS, StreamOptions
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.node_addresses import (
    NodeEndpoint,
    container_of,
    endpoint_of,
    no_node,
    refuse_ended,
)
from pilothouse.apiserver.registry.node_client import NodeClient
from pilothouse.apiserver.server.messages import TEXT, Answer, Response, StreamingResponse
from pilothouse.apiserver.server.websockets import is_of_other_site, log_over_websocket, upgrade_of
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.meta import errors
from pilothouse.meta.kind import Object

_OLD_CLIENT = (
    "only WebSockets are served here, and this client asks for {requested}: use kubectl 1.30 or newer (1.29 "
    "speaks them when KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true is set)"
)


class PodStreams:
    def __init__(self, catalog: KindCatalog, objects: ObjectStorage, nodes: NodeClient, clock: Clock) -> None:
        self._catalog = catalog
        self._objects = objects
        self._nodes = nodes
        self._clock = clock

    async def answer(self, call: ResourceRequest) -> Answer:
        return await (self._log(call) if call.subresource == "log" else self._connect(call))

    async def _log(self, call: ResourceRequest) -> Answer:
        upgrade = upgrade_of(call.request)
        options = LogOptions.parse(call.params, self._clock.now())
        pod = await self._pod(call)
        container = container_of(pod, call.params.get("container", ""))
        if not (pod.get("spec") or {}).get("nodeName"):
            return Response(204, b"", TEXT)
        node = await self._node_of(pod)
        requested = [(name, call.params[name]) for name in NAMES if call.params.get(name)]
        path = f"/containerLogs/{call.namespace}/{call.name}/{container}"
        answer = await self._nodes.read(node, path, requested, ends=not options.follow)
        if upgrade is None or not isinstance(answer, StreamingResponse):
            return answer
        try:
            return log_over_websocket(answer, upgrade)
        except errors.StatusError:
            await answer.close()
            raise

    async def _connect(self, call: ResourceRequest) -> Answer:
        refuse_other_sites(call)
        runs = call.subresource == "exec"
        options = StreamOptions.parse(call.request.query, runs=runs)
        pod = await self._pod(call)
        container = container_of(pod, options.container)
        refuse_ended(pod)
        if not (pod.get("spec") or {}).get("nodeName"):
            raise no_node(pod)
        node = await self._node_of(pod)
        if problem := why_not_spoken(call):
            await self._nodes.check(node)
            raise errors.bad_request(problem)
        path = f"/{call.subresource}/{call.namespace}/{call.name}/{container}"
        return await self._nodes.connect(node, path, options.node_query(), call.request.headers)

    async def _pod(self, call: ResourceRequest) -> Object:
        found = await self._objects.find(call.key)
        if found is None:
            raise errors.not_found("pods", "", call.name)
        return codec.decode(found.value, found.revision)

    async def _node_of(self, pod: Object) -> NodeEndpoint:
        name = pod["spec"]["nodeName"]
        served = self._catalog.find("", "v1", "nodes")
        found = await self._objects.find(served.key("", name)) if served is not None else None
        if found is None:
            raise errors.unavailable(f"node {name}, on which the pod is to run, is not registered", 0)
        return endpoint_of(codec.decode(found.value, found.revision))


def refuse_other_sites(call: ResourceRequest) -> None:
    """403 for a page of another site: the browser would send its user's certificate."""
    if is_of_other_site(call.request.headers):
        origin, host = call.request.headers["Origin"], call.request.headers.get("Host", "")
        raise errors.forbidden(
            f"pods/{call.subresource}", "", call.name, f"a page of {origin} may not do that at {host}"
        )


def why_not_spoken(call: ResourceRequest) -> str:
    """Why the requested upgrade is not supported, or empty."""
    headers = call.request.headers
    requested = headers.get("Upgrade", "")
    if requested.lower() != "websocket" or call.request.method != "GET":
        return _OLD_CLIENT.format(requested=requested or "no upgrade at all")
    offered = {each.strip() for each in headers.get("Sec-WebSocket-Protocol", "").split(",")} - {""}
    if offered and offered.isdisjoint(PROTOCOLS):
        return (
            f"none of the subprotocols {sorted(offered)} is spoken here; there is {' and '.join(PROTOCOLS)}"
        )
    return ""
