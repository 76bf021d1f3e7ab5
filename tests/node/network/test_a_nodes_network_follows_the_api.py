"""The whole of a node's network on loopback, against an API server in the same process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit.loopback import loopback
from tests.kit.processes import free_port
from tests.kit.waiting import eventually
from tests.node.network.objects import endpoint, node, service, slice_of

from pilothouse.api.kind_names import CoreEvent, EndpointSlice, Node, Pod, Service
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock, ManualClock, SystemClock
from pilothouse.client.api import Api
from pilothouse.node.addresses.pod_network import EVENT_SECONDS, PodNetwork
from pilothouse.node.interfaces import AddressNotReady
from pilothouse.node.settings import NodeSettings


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        await api.create(Node, node("m1", "127.0.0.1"))
        yield api


@contextlib.asynccontextmanager
async def networking(api: Api, folder: Path, clock: Clock | None = None) -> AsyncIterator[PodNetwork]:
    settings = NodeSettings(name="m1", data=folder)
    network = PodNetwork.open(settings, api, clock or SystemClock(), Random(1))
    running = asyncio.create_task(network.run())
    try:
        yield network
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        network.close()


async def bound(api: Api, name: str, **spec: object) -> Object:
    """A pod of the node, as the server made it."""
    containers = [{"name": "main", "image": "x", "ports": spec.pop("ports", [])}]
    return await api.create(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "m1", "containers": containers, "terminationGracePeriodSeconds": 0, **spec},
        },
    )


def addressed(folder: Path, one: Object) -> dict[str, set[str]]:
    """Addresses by the names in a pod's hosts file."""
    found: dict[str, set[str]] = {}
    for line in (folder / "pods" / one.uid / "hosts").read_text().splitlines():
        address, *names = line.split()
        for name in names if address != "#" else ():
            found.setdefault(name, set()).add(address)
    return found


async def test_pods_have_addresses_of_their_own_and_keep_them_over_agents(api: Api, tmp_path: Path) -> None:
    pods = [await bound(api, f"p{n}") for n in range(3)]
    async with networking(api, tmp_path) as network:
        first = [await network.assign(one) for one in pods]
        assert len(set(first)) == 3
        assert await network.assign(pods[0]) == first[0]
        for one, address in zip(pods, first, strict=True):
            network.mounts(one, address)
    async with networking(api, tmp_path) as network:
        assert [await network.assign(one) for one in pods] == first
        await network.release(pods[0].uid)
        await network.release(pods[0].uid)
        assert await network.assign(await bound(api, "p3")) not in first


async def test_the_address_of_a_pod_of_which_nothing_is_left_is_taken_back(api: Api, tmp_path: Path) -> None:
    pods = [await bound(api, f"p{n}") for n in range(2)]
    async with networking(api, tmp_path) as network:
        addresses = [await network.assign(one) for one in pods]
        network.mounts(pods[0], addresses[0])
    async with networking(api, tmp_path) as network:
        assert await network.assign(pods[0]) == addresses[0]
        assert await network.assign(pods[1]) != addresses[1]


async def test_a_pod_with_the_nodes_network_has_its_address_and_a_port_only_if_it_is_free(
    api: Api, tmp_path: Path
) -> None:
    port = free_port()
    ports = [{"containerPort": port}]
    first = await bound(api, "first", hostNetwork=True, ports=ports)
    second = await bound(api, "second", ports=[{"containerPort": 80, "hostPort": port}])
    async with networking(api, tmp_path) as network:
        assert await network.assign(first) == "127.0.0.1"
        with pytest.raises(AddressNotReady) as refused:
            await network.assign(second)
        assert refused.value.reason == "NodePorts"
        assert refused.value.message == f"port {port}/TCP of the node is in use by pod default/first"
        await network.release(first.uid)
        assert (await network.assign(second)).startswith("127.")


async def test_names_come_and_change_while_a_pod_runs(api: Api, tmp_path: Path) -> None:
    one = await bound(api, "db-0", hostname="db-0", subdomain="db")
    headless = {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 5432}]}}
    await api.create(Service, {"metadata": {"name": "db", "namespace": "default"}, **headless})
    async with networking(api, tmp_path) as network:
        address = await network.assign(one)
        mounts = {mount.target: mount for mount in network.mounts(one, address)}
        assert set(mounts) == {"/etc/hosts", "/etc/resolv.conf"}
        assert all(mount.is_file and mount.read_only for mount in mounts.values())
        inode = os.stat(mounts["/etc/hosts"].source).st_ino
        assert addressed(tmp_path, one)["db-0"] == {address}

        peers = slice_of("db", endpoint("127.70.0.9", hostname="db-1"), namespace="default")
        made = await api.create(EndpointSlice, peers)

        async def found(name: str, *expected: str) -> None:
            async def so() -> bool:
                return addressed(tmp_path, one).get(name, set()) == set(expected)

            await eventually(so)

        await found("db-1.db", "127.70.0.9")
        await found("db.default.svc.cluster.local", "127.70.0.9")
        moved = {**made.thawed(), "endpoints": [endpoint("127.70.0.10", hostname="db-1")]}
        await api.update(EndpointSlice, moved)
        await found("db-1.db.default", "127.70.0.10")
        await api.delete(EndpointSlice, made.name, "default")
        await found("db-1.db")
        assert os.stat(mounts["/etc/hosts"].source).st_ino == inode


async def test_an_agent_that_knows_nothing_yet_leaves_names_as_they_were(api: Api, tmp_path: Path) -> None:
    one = await bound(api, "p")
    await api.create(Service, service("db", namespace="default", address="127.96.9.9"))
    async with networking(api, tmp_path) as network:
        network.mounts(one, await network.assign(one))
        assert addressed(tmp_path, one)["db"] == {"127.96.9.9"}
    network = PodNetwork.open(
        NodeSettings(name="m1", data=tmp_path), api, SystemClock(), Random(1)
    )  # Which never runs.
    try:
        network.mounts(one, await network.assign(one))
        assert addressed(tmp_path, one)["db"] == {"127.96.9.9"}
    finally:
        network.close()


async def test_what_changed_while_no_agent_ran_is_in_the_file_of_a_pod_that_went_on(
    api: Api, tmp_path: Path
) -> None:
    one = await bound(api, "p")
    async with networking(api, tmp_path) as network:
        network.mounts(one, await network.assign(one))
    await api.create(Service, service("db", namespace="default", address="127.96.9.9"))
    async with networking(api, tmp_path) as network:
        await network.assign(await bound(api, "another"))
        await network.assign(one)

        async def found() -> bool:
            return addressed(tmp_path, one).get("db") == {"127.96.9.9"}

        await eventually(found)


async def test_a_service_is_reached_at_its_address_while_it_has_endpoints(api: Api, tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.71.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, networking(api, tmp_path) as network:
        ports: list[dict[str, Any]] = [{"name": "sql", "port": free_port(), "protocol": "TCP"}]
        tree = service("db", namespace="default", address="", ports=ports).thawed()
        made = await api.create(Service, tree)
        at = (made.spec["clusterIP"], ports[0]["port"])
        targets = [{"name": "sql", "port": port, "protocol": "TCP"}]
        await api.create(
            EndpointSlice, slice_of("db", endpoint("127.71.0.1"), namespace="default", ports=targets)
        )

        async def greeted() -> bool:
            return await heard(*at) == b"hello"

        await eventually(greeted)
        assert network.problems == []
        await api.delete(EndpointSlice, "db-0", "default")

        async def refused() -> bool:
            return not await greeted()

        await eventually(refused)


async def heard(address: str, port: int) -> bytes:
    """What is said at a place; nothing if nobody listens."""
    try:
        reader, writer = await asyncio.open_connection(address, port)
    except ConnectionRefusedError:
        return b""
    said = await reader.read()
    writer.close()
    return said


async def test_host_ports_and_node_ports_are_open_at_the_node_for_as_long_as_they_are_wanted(
    api: Api, tmp_path: Path
) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    host_port = free_port()
    one = await bound(api, "p", ports=[{"containerPort": 8080, "hostPort": host_port}])
    async with networking(api, tmp_path) as network:
        address = await network.assign(one)
        server = await asyncio.start_server(greet, address, 8080)
        async with server:
            ports = [{"name": "web", "port": 80, "protocol": "TCP"}]
            tree = service("web", namespace="default", address="", ports=ports, type="NodePort").thawed()
            made = await api.create(Service, tree)
            node_port = made.spec["ports"][0]["nodePort"]
            targets = [{"name": "web", "port": 8080, "protocol": "TCP"}]
            await api.create(
                EndpointSlice, slice_of("web", endpoint(address), namespace="default", ports=targets)
            )
            for port in (host_port, node_port):

                async def greeted(port: int = port) -> bool:
                    return await heard("127.0.0.1", port) == b"hello"

                await eventually(greeted)
            await network.release(one.uid)
            await api.delete(Service, "web", "default")
            for port in (host_port, node_port):

                async def closed(port: int = port) -> bool:
                    return await heard("127.0.0.1", port) == b""

                await eventually(closed)


async def test_another_machine_beside_one_on_loopback_is_told_and_keeps_no_pods_away(
    api: Api, tmp_path: Path
) -> None:
    async with networking(api, tmp_path) as network:
        assert network.condition()["status"] == "False"
        await api.create(Node, node("m2", "10.0.0.2"))

        async def told() -> bool:
            return any("start this node with --pod-cidr" in each for each in network.problems)

        await eventually(told)
        # Whoever has a node's certificate could else keep all others from taking pods.
        assert network.condition()["status"] == "False"


LISTEN = """
import os, socket, sys
os.setresuid(23456, 23456, 23456)
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("listening", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def another_user_listening(port: int) -> Iterator[None]:
    """As any pod can: on all addresses, and so on those of services."""
    command = [sys.executable, "-I", "-c", LISTEN, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"listening\n"
        yield
        program.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user as well")
@pytest.mark.parametrize("endpoints", [["127.71.0.1"], []], ids=["with endpoints", "without"])
async def test_no_name_leads_to_a_place_that_another_user_has(
    api: Api, tmp_path: Path, endpoints: list[str]
) -> None:
    port = free_port()
    one = await bound(api, "client")
    with another_user_listening(port):
        ports = [{"name": "sql", "port": port, "protocol": "TCP"}]
        await api.create(Service, service("db", namespace="default", address="", ports=ports))
        await api.create(Service, service("other", namespace="default", address=""))
        there = [endpoint(each) for each in endpoints]
        await api.create(EndpointSlice, slice_of("db", *there, namespace="default"))
        async with networking(api, tmp_path) as network:
            network.mounts(one, await network.assign(one))

            async def told() -> list[str]:
                events = (await api.list(CoreEvent, "default")).objects
                return [
                    event.tree["message"]
                    for event in events
                    if event.tree["involvedObject"]["name"] == "db" and event.tree["type"] == "Warning"
                ]

            assert any("the name is left out" in each for each in await eventually(told))
            found = addressed(tmp_path, one)
            assert "db" not in found
            assert "db.default.svc.cluster.local" not in found
            assert "other" in found
    async with networking(api, tmp_path) as network:
        network.mounts(one, await network.assign(one))

        async def named() -> bool:
            return "db" in addressed(tmp_path, one)

        await eventually(named)


async def test_a_service_that_cant_be_forwarded_is_told_in_an_event_about_it(
    api: Api, tmp_path: Path
) -> None:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    await api.create(Service, service("dns", namespace="default", address="", ports=ports))
    async with networking(api, tmp_path):

        async def told() -> list[str]:
            events = (await api.list(CoreEvent, "default")).objects
            return [
                event.tree["message"] for event in events if event.tree["involvedObject"]["name"] == "dns"
            ]

        assert await eventually(told) == ["service default/dns: port 53/UDP is not forwarded: only TCP is"]


async def test_the_event_is_recorded_again_before_it_expires(api: Api, tmp_path: Path) -> None:
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    await api.create(Service, service("dns", namespace="default", address="", ports=ports))
    clock = ManualClock(1_800_000_000)

    async def counted() -> list[int]:
        events = (await api.list(CoreEvent, "default")).objects
        return [event.tree["count"] for event in events if event.tree["involvedObject"]["name"] == "dns"]

    async def told(times: int) -> bool:
        return await counted() == [times]

    async with networking(api, tmp_path, clock):
        await eventually(lambda: told(1))
        clock.advance(EVENT_SECONDS)
        # Any change has the agent look again.
        await api.create(Service, service("other", namespace="default", address="", ports=ports))
        await eventually(lambda: told(2))
