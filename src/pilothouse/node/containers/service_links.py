"""The environment variables of the services of a namespace, as kubelet sets them when a container starts.

service_links([service])
# {"REDIS_SERVICE_HOST": "127.96.4.7", "REDIS_SERVICE_PORT": "6379", "REDIS_SERVICE_PORT_CLIENT": "6379",
#  "REDIS_PORT": "tcp://127.96.4.7:6379", "REDIS_PORT_6379_TCP": "tcp://127.96.4.7:6379", ...}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pilothouse.api.kubernetes.services import HEADLESS
from pilothouse.api.objects import Object


def service_links(services: Iterable[Object]) -> dict[str, str]:
    """The variables of all services but headless ones, in the order of their names."""
    found: dict[str, str] = {}
    for service in sorted(services, key=lambda each: each.name):
        found.update(_of_service(service))
    return found


def _of_service(service: Object) -> Iterator[tuple[str, str]]:
    address = str(service.spec.get("clusterIP") or "")
    ports = service.spec.get("ports") or ()
    if address in ("", HEADLESS) or not ports:
        return
    prefix = _name(service.name)
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(ports[0]["port"])
    for port in ports:
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_name(port['name'])}", str(port["port"])
    for index, port in enumerate(ports):
        protocol = str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{address}:{port['port']}"
        if index == 0:
            yield f"{prefix}_PORT", url
        link = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        yield link, url
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", str(port["port"])
        yield f"{link}_ADDR", address


def _name(text: str) -> str:
    return text.replace("-", "_").upper()
