"""Where a request about a pod goes to.

    name = container_of(pod, "")                 # the only container, or a 400 that lists them
    endpoint = endpoint_of(node)                 # NodeEndpoint(name="n1", host="192.0.2.7", port=10250)

Pure functions of the objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.meta.conditions import condition_is
from pilothouse.meta.errors import StatusError, bad_request, unavailable
from pilothouse.meta.kind import Object
from pilothouse.pki.signers import serving_name

_PREFERRED = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")


class NodeEndpoint(msgspec.Struct, frozen=True):
    """Where a node listens. Its certificate must have its name."""

    name: str
    host: str
    port: int
    is_ready: bool = True
    """Whether the Node is ready; if not, it may still wait for its certificate."""

    @property
    def certified(self) -> str:
        """The name that its certificate must have."""
        return serving_name(self.name)


def endpoint_of(node: Object) -> NodeEndpoint:
    """The address in a Node's status. Raises a 503 that says what is missing."""
    name = node["metadata"]["name"]
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise unavailable(f'node "{name}" does not say at which port its agent listens', 0)
    ready = condition_is(status.get("conditions"), "Ready")
    found = {each.get("type"): each.get("address") for each in status.get("addresses") or ()}
    for kind in _PREFERRED:
        if found.get(kind):
            return NodeEndpoint(name, str(found[kind]), port, ready)
    raise unavailable(f'node "{name}" has no address', 0)


def container_of(pod: Object, container: str) -> str:
    """The container of a request. 400 if there is none such, or none is named and there are several."""
    name = pod["metadata"]["name"]
    containers = [each["name"] for each in (pod.get("spec") or {}).get("containers") or ()]
    if container:
        if container not in _all_names(pod):
            raise bad_request(f"container {container} is not valid for pod {name}")
        return container
    if len(containers) == 1:
        return str(containers[0])
    message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
    if initial := [each["name"] for each in (pod.get("spec") or {}).get("initContainers") or ()]:
        message += f" or one of the init containers: [{' '.join(initial)}]"
    raise bad_request(message)


def refuse_ended(pod: Object) -> None:
    """Raise a 400 for a pod that has ended."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")


def no_node(pod: Object) -> StatusError:
    """The error for a pod without a node."""
    return bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")


def _all_names(pod: Object) -> Iterator[Any]:
    spec = pod.get("spec") or {}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for each in spec.get(kind) or ():
            yield each.get("name")
