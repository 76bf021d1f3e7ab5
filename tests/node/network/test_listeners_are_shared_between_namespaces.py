"""One namespace's ports and connections cost no other namespace its own, and the agent its open files never."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

from tests.kit.loopback import loopback
from tests.kit.waiting import eventually
from tests.node.network.objects import endpoint, node, service, slice_of

from pilothouse.api.kind_names import CoreEvent, EndpointSlice, Namespace, Node, Service
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.node.addresses.pod_network import PodNetwork
from pilothouse.node.services.backends import Backend, ListenAddress, PortOwner, ServiceEndpoint
from pilothouse.node.services.connection_budget import ConnectionBudget, within_budget
from pilothouse.node.services.service_proxy import ServiceProxy
from pilothouse.node.settings import NodeSettings


def wants(
    namespace: str, count: int, *, name: str = "s", created: float = 0.0
) -> dict[ListenAddress, Backend]:
    """So many places of one service."""
    owner = PortOwner("Service", namespace, name)
    key = f"{namespace}-{name}"
    return {ListenAddress(key, n): Backend(owner, key, (), created=created) for n in range(count)}


def test_the_namespace_with_most_ports_loses_and_the_others_have_all_of_theirs() -> None:
    table = {**wants("greedy", 20_000), **wants("shop", 7), **wants("bank", 30)}
    served = within_budget(table, 100, ())
    assert len(served) == 100
    assert {at for at in table if table[at].owner.namespace != "greedy"} < served


def test_what_two_greedy_namespaces_get_is_equal() -> None:
    table = {**wants("a", 500), **wants("b", 900), **wants("c", 10)}
    served = within_budget(table, 110, ())
    assert [sum(at in served for at in wants(each, 900)) for each in "abc"] == [50, 50, 10]


def test_with_more_namespaces_than_listeners_as_many_have_one() -> None:
    table = {at: backend for n in range(10) for at, backend in wants(f"n{n}", 3).items()}
    served = within_budget(table, 4, ())
    assert len({table[at].owner.namespace for at in served}) == len(served) == 4


def test_within_a_namespace_what_is_listened_at_stays_and_the_newest_service_loses() -> None:
    old, new = wants("a", 5, name="old", created=1.0), wants("a", 5, name="new", created=2.0)
    assert within_budget({**new, **old}, 5, ()) == frozenset(old)
    assert within_budget({**new, **old}, 5, new.keys()) == frozenset(new)


@contextlib.asynccontextmanager
async def greeting() -> AsyncIterator[ServiceEndpoint]:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.71.0.1", 0)
    async with server:
        yield ServiceEndpoint(*server.sockets[0].getsockname())


async def test_a_namespace_that_holds_all_connections_loses_them_to_others() -> None:
    proxy = ServiceProxy(SystemClock(), Random(7), ConnectionBudget(listeners=10, connections=8))
    greedy, shop = ListenAddress("127.71.3.1", 7001), ListenAddress("127.71.3.1", 7002)
    async with greeting() as one:
        await proxy.settle(
            {
                greedy: Backend(PortOwner("Service", "greedy", "s"), "s", (one,)),
                shop: Backend(PortOwner("Service", "shop", "s"), "s", (one,)),
            }
        )
        held = [await asyncio.open_connection(*greedy) for _ in range(8)]
        for reader, _ in held:
            assert await reader.readexactly(5) == b"hello"
        mine = [await asyncio.open_connection(*shop) for _ in range(3)]
        for reader, _ in mine:
            async with asyncio.timeout(60):
                assert await reader.readexactly(5) == b"hello"
        assert proxy.connections == 8
        for _, writer in (*held, *mine):
            writer.close()
        await proxy.close()


async def test_services_beyond_the_limit_are_reported_and_all_others_are_served(tmp_path: Path) -> None:
    """With few open files allowed, as an agent would meet them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with loopback() as transport, greeting() as one:
        api = Api(transport, Random(1), manager="test")
        await api.create(Node, node("m1", "127.0.0.1"))
        for namespace, ports in (("greedy", 2000), ("shop", 2)):
            await api.create(Namespace, {"metadata": {"name": namespace}})
            tree = service("web", namespace=namespace).tree
            del tree["spec"]["clusterIP"]
            tree["spec"]["ports"] = [{"name": f"p{n}", "port": 2000 + n} for n in range(ports)]
            await api.create(Service, tree)
            for number in range(0, ports, 100):
                names = [{"name": f"p{n}", "port": one.port} for n in range(number, min(number + 100, ports))]
                made = slice_of("web", endpoint(one.address), namespace=namespace, number=number, ports=names)
                await api.create(EndpointSlice, made.tree)
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 400, hard))
        network = PodNetwork.open(NodeSettings(name="m1", data=tmp_path), api, SystemClock(), Random(1))
        running = asyncio.create_task(network.run())
        try:
            address = (await api.get(Service, "web", "shop")).spec["clusterIP"]

            async def told() -> bool:
                events = (await api.list(CoreEvent, "greedy")).objects
                return any("not all of its ports are forwarded" in str(each["message"]) for each in events)

            await eventually(told)
            for port in (2000, 2001):
                reader, writer = await asyncio.open_connection(address, port)
                async with asyncio.timeout(60):
                    assert await reader.readexactly(5) == b"hello"
                writer.close()
            assert not (await api.list(CoreEvent, "shop")).objects
            os.close(os.open("/dev/null", os.O_RDONLY))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            network.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_agent_may_open_all_that_the_system_allows_and_its_containers_begin_with_what_was_usual() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512));"
        "from pilothouse.app.open_files import raise_open_files;"
        "print(raise_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.split() == ["128", "(512,", "512)"]
