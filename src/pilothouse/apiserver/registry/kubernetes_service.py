"""The Service ``default/kubernetes`` with its Endpoints and EndpointSlices.

    service = KubernetesService(LoopbackClient(core), IPv4Network("127.96.0.0/16"), members)
    await service.reconcile()        # Service, Endpoints and EndpointSlices as they should be
    await service.run()              # and kept so, until cancelled

It has the first address of the service range and port 443. ``members`` returns the addresses of the running
servers; all servers write the same. Endpoints hold IPv4 addresses only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from pilothouse.api.kind_names import Endpoints, EndpointSlice, KindName, Service
from pilothouse.api.objects import Tree
from pilothouse.apiserver.loopback_client import LoopbackClient, Refused
from pilothouse.store.interface import StoreError

NAMESPACE: Final = "default"
NAME: Final = "kubernetes"
PORT: Final = 443
PERIOD: Final = 10.0
_OF_SERVICE: Final = "kubernetes.io/service-name"
_SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"

Member = tuple[str, int]
"""Host and port of a server."""
Members = Callable[[], Awaitable[Iterable[Member]]]

log = logging.getLogger(__name__)


class KubernetesService:
    def __init__(self, client: LoopbackClient, addresses: IPv4Network, members: Members) -> None:
        self._client = client
        self._address = str(addresses[1])
        self._members = members

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            await self.reconcile()

    async def reconcile(self) -> None:
        """Failures are logged and retried: no start depends on this."""
        try:
            members = _by_port(await self._members())
            await self._make_service(next(iter(members), PORT))
            await self._keep(Endpoints, NAME, {_SKIP_MIRROR: "true"}, {"subsets": _subsets(members)})
            await self._keep_slices(members)
        except (Refused, StoreError) as problem:
            log.warning("the Service %s/%s: %s", NAMESPACE, NAME, problem)

    async def _make_service(self, target: int) -> None:
        if await self._client.find(Service, NAMESPACE, NAME) is not None:
            return
        port = {"name": "https", "protocol": "TCP", "port": PORT, "targetPort": target}
        metadata = {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        }
        spec: Tree = {"type": "ClusterIP", "sessionAffinity": "None", "ports": [port]}
        try:
            await self._client.create(
                Service, {"metadata": metadata, "spec": {**spec, "clusterIP": self._address}}
            )
        except Refused as problem:
            if problem.status == 409:
                return
            if problem.status != 422:
                raise
            # Somebody's service has the address already.
            log.warning("%s; it gets another address", problem)
            await self._client.create(Service, {"metadata": metadata, "spec": spec})

    async def _keep_slices(self, members: dict[int, list[str]]) -> None:
        """One slice per port; the lowest port's has the Service's own name."""
        wanted = {
            NAME if index == 0 else f"{NAME}-{port}": _slice(port, addresses)
            for index, (port, addresses) in enumerate(members.items())
        }
        for name, fields in wanted.items():
            await self._keep(EndpointSlice, name, {_OF_SERVICE: NAME}, fields)
        found = await self._client.list(EndpointSlice, NAMESPACE, labelSelector=f"{_OF_SERVICE}={NAME}")
        for each in found:
            if each.name not in wanted:
                await self._client.delete(each)

    async def _keep(self, noun: KindName, name: str, labels: dict[str, str], fields: Tree) -> None:
        found = await self._client.find(noun, NAMESPACE, name)
        if found is None:
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
            try:
                await self._client.create(noun, {"metadata": metadata, **fields})
            except Refused as problem:
                if problem.status != 409:
                    raise
        elif changed := {field: value for field, value in fields.items() if found.get(field) != value}:
            await self._client.patch(found, changed)


def _by_port(members: Iterable[Member]) -> dict[int, list[str]]:
    """The IPv4 addresses by port, lowest port first."""
    found: dict[int, set[IPv4Address]] = {}
    for host, port in members:
        try:
            address = IPv4Address("127.0.0.1" if host == "localhost" else host)
        except ValueError:
            continue
        found.setdefault(port, set()).add(address)
    return {port: [str(each) for each in sorted(found[port])] for port in sorted(found)}


def _subsets(members: dict[int, list[str]]) -> list[dict[str, Any]]:
    return [
        {"addresses": [{"ip": each} for each in addresses], "ports": [_port(port)]}
        for port, addresses in members.items()
    ]


def _slice(port: int, addresses: list[str]) -> Tree:
    return {
        "addressType": "IPv4",
        "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
        "ports": [_port(port)],
    }


def _port(number: int) -> Tree:
    return {"name": "https", "port": number, "protocol": "TCP"}
