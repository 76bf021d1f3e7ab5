"""A node, its kubelet and a scheduler that only pretend: every pod gets a node, runs, is ready, and goes when it should.

    async with model_kubelet(api):
        …

A pod with an image whose name begins with ``broken`` runs but never gets ready. It works with any server, ours or Kubernetes'.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pilothouse.api.nouns import Node, Pod
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.base.times import format_time
from pilothouse.client.rest import Api
from pilothouse.client.subresources import bind
from pilothouse.meta.errors import StatusError

NODE = "model-node"
_PAUSE = 0.1
_HEARTBEAT = 10.0


@contextlib.asynccontextmanager
async def model_kubelet(api: Api) -> AsyncIterator[None]:
    """Pods are looked after within the context."""
    if await api.find(Node, NODE) is None:
        # Cordoned: a real scheduler, if there is one, leaves the pods to this one.
        meta = {"name": NODE}
        await api.create(
            Node, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"unschedulable": True}}
        )
    task = asyncio.create_task(_look_after(api))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _look_after(api: Api) -> None:
    beat = asyncio.get_running_loop().time()
    while True:
        if asyncio.get_running_loop().time() >= beat:
            await _beat(api)
            beat += _HEARTBEAT
        for pod in (await api.list(Pod)).objects:
            try:
                await _step(api, pod)
            except StatusError as refusal:
                # Somebody else was at it; the next look shows what they did.
                if refusal.code not in (404, 409):
                    raise
        await asyncio.sleep(_PAUSE)


async def _beat(api: Api) -> None:
    """The node is ready, says so, and is heard of: its status is written anew, which counts without a lease."""
    moment = format_time(SystemClock().now())
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": moment, "lastTransitionTime": moment}
    try:
        await api.patch(Node, NODE, "", {"status": {"conditions": [ready]}}, subresource="status")
    except StatusError as refusal:
        if refusal.code != 409:
            raise


async def _step(api: Api, pod: Object) -> None:
    if pod.deleting:
        await api.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace=0)
    elif not pod.spec.get("nodeName"):
        await bind(api, pod.name, pod.namespace, NODE, uid=pod.uid)
    elif pod.status.get("phase") == "Pending":
        ready = not any(one["image"].startswith("broken") for one in pod.spec["containers"])
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": format_time(SystemClock().now()),
        }
        status = {"phase": "Running", "conditions": [condition]}
        await api.patch(Pod, pod.name, pod.namespace, {"status": status}, subresource="status")
