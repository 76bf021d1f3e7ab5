"""Routes of a real kernel, in network namespaces that are made for the test."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.kit.loopback import loopback
from tests.kit.network_namespaces import machines, missing, own_network
from tests.kit.waiting import eventually
from tests.node.network.objects import node, pod

from pilothouse.api.kind_names import CoreEvent, Node
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.node.addresses.iproute import IpRoute
from pilothouse.node.addresses.pod_network import PodNetwork
from pilothouse.node.addresses.pod_ranges import answers
from pilothouse.node.addresses.route_plan import RoutePlan
from pilothouse.node.settings import NodeSettings

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def shown(table: str = "main") -> dict[str, str]:
    said = subprocess.check_output(["ip", "-j", "route", "show", "table", table])
    return {route["dst"]: route.get("gateway", "") for route in json.loads(said)}


def somebody_elses(network: str, via: str) -> None:
    subprocess.run(["ip", "route", "add", network, "via", via], check=True)


async def test_every_address_of_a_local_range_answers_and_is_gone_with_the_plan() -> None:
    with own_network():
        assert not answers("10.44.1.7")
        assert await IpRoute().settle(RoutePlan(local=frozenset({"10.44.1.0/24", "10.96.0.10/32"}))) == []
        assert answers("10.44.1.7")
        assert answers("10.44.1.200")
        assert answers("10.96.0.10")
        assert not answers("10.44.2.7")
        assert await IpRoute().settle(RoutePlan(local=frozenset({"10.44.1.0/24"}))) == []
        assert not answers("10.96.0.10")
        assert answers("10.44.1.7")
        assert await IpRoute().clear() == []
        assert not answers("10.44.1.7")


async def test_routes_follow_the_plan_and_nothing_else_is_touched() -> None:
    with machines(1) as lan:
        somebody_elses("10.99.0.0/24", lan[0].address)
        there = lan[0].address
        assert await IpRoute().settle(RoutePlan({"10.44.2.0/24": there, "10.44.3.0/24": there})) == []
        assert {"10.44.2.0/24", "10.44.3.0/24", "10.99.0.0/24"} <= shown().keys()
        assert await IpRoute().settle(RoutePlan({"10.44.2.0/24": "10.77.0.99"})) == []
        assert shown()["10.44.2.0/24"] == "10.77.0.99"
        assert "10.44.3.0/24" not in shown()
        assert await IpRoute().clear() == []
        assert "10.44.2.0/24" not in shown()
        assert "10.99.0.0/24" in shown()


async def test_a_node_that_is_not_in_reach_is_told_and_the_others_are_routed() -> None:
    with machines(1) as lan:
        wanted = RoutePlan({"10.44.2.0/24": "172.31.0.5", "10.44.3.0/24": lan[0].address})
        (problem,) = await IpRoute().settle(wanted)
        assert problem.network == "10.44.2.0/24"
        assert "10.44.2.0/24 via 172.31.0.5" in problem.message
        assert "10.44.3.0/24" in shown()


def test_machines_reach_one_another_until_they_are_cut_off() -> None:
    with machines(2) as lan:
        first, second = lan

        def reached() -> bool:
            ask = "import socket, sys; socket.create_connection((sys.argv[1], 1), 2)"
            said = subprocess.run(
                [*first.inside, "python3", "-c", ask, second.address], capture_output=True, check=False
            )
            # Refused is an answer too.
            return b"ConnectionRefusedError" in said.stderr

        assert reached()
        second.cut_off()
        assert not reached()
        second.heal()
        assert reached()


async def test_a_node_with_a_range_gives_out_addresses_that_answer_and_routes_to_the_others(
    tmp_path: Path,
) -> None:
    with machines(1) as lan:
        async with loopback() as transport:
            api = Api(transport, Random(1), manager="test")
            await api.create(Node, node("m1", lan.address, "10.44.1.0/24"))
            await api.create(Node, node("m2", lan[0].address, "10.44.2.0/24"))
            settings = NodeSettings(name="m1", data=tmp_path, address=lan.address, pod_cidr="10.44.1.0/24")
            network = PodNetwork.open(settings, api, SystemClock(), Random(1))
            # Before anything else is known, a pod can listen at its address.
            address = await network.assign(pod("p"))
            assert address == "10.44.1.1"
            assert answers(address)
            running = asyncio.create_task(network.run())
            try:

                async def routed() -> bool:
                    return shown().get("10.44.2.0/24") == lan[0].address

                await eventually(routed)
                assert network.condition()["status"] == "False"
                await api.delete(Node, "m2")

                async def gone() -> bool:
                    return "10.44.2.0/24" not in shown()

                await eventually(gone)
                assert answers(address)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("claimed", "said"),
    [
        ("198.51.100.9", "via 198.51.100.9"),
        ("127.0.0.1", "says it is at 127.0.0.1"),
        ("", "no InternalIP"),
    ],
)
async def test_what_another_node_claims_never_makes_this_one_take_no_pods(
    tmp_path: Path, claimed: str, said: str
) -> None:
    """Else one line in a node's own status would leave that node as the only one that pods can go to."""
    with machines(1) as lan:
        async with loopback() as transport:
            api = Api(transport, Random(1), manager="test")
            await api.create(Node, node("m1", lan.address, "10.44.1.0/24"))
            await api.create(Node, node("evil", claimed, "10.44.9.0/24"))
            settings = NodeSettings(name="m1", data=tmp_path, address=lan.address, pod_cidr="10.44.1.0/24")
            network = PodNetwork.open(settings, api, SystemClock(), Random(1))
            running = asyncio.create_task(network.run())
            try:

                async def told() -> list[str]:
                    events = (await api.list(CoreEvent, "default")).objects
                    return [
                        event.tree["message"]
                        for event in events
                        if event.tree["involvedObject"]["name"] == "evil"
                        and event.tree["reason"] == "NotRouted"
                    ]

                assert any(said in each for each in await eventually(told))
                assert any(said in each for each in network.problems)
                assert network.condition()["status"] == "False"
                assert answers("10.44.1.7")
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


WITHOUT_RIGHTS = """
import asyncio, sys
from pathlib import Path
from random import Random
from tests.kit.loopback import loopback
from tests.node.network.objects import pod
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.node.addresses.pod_network import PodNetwork
from pilothouse.node.interfaces import AddressNotReady
from pilothouse.node.settings import NodeSettings

async def main():
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        settings = NodeSettings(name="m1", data=Path(sys.argv[1]), pod_cidr="10.44.1.0/24")
        network = PodNetwork.open(settings, api, SystemClock(), Random(1))
        for _ in range(2):
            try:
                await network.assign(pod("p"))
            except AddressNotReady as problem:
                print(problem.reason, problem.message)
        print(network.condition()["status"])

asyncio.run(main())
"""


def test_without_the_right_to_do_so_a_pod_waits_and_the_node_says_why(tmp_path: Path) -> None:
    with own_network():
        dropped = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
        said = subprocess.run(
            [*dropped, sys.executable, "-c", WITHOUT_RIGHTS, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.splitlines()
    assert len(said) == 3, said
    for line in said[:2]:
        assert line.startswith("NoAddress `ip route replace local 10.44.1.0/24"), line
        assert "Operation not permitted" in line
    assert said[2] == "True"
