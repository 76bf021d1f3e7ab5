"""Which address and port leads where, and which endpoint a connection gets."""

from __future__ import annotations

from ipaddress import IPv4Network
from random import Random
from typing import Any

import pytest
from tests.node.network.objects import endpoint, pod, service, slice_of

from pilothouse.api.objects import Object
from pilothouse.base.clock import ManualClock
from pilothouse.node.services.backends import (
    Backend,
    ListenAddress,
    PortOwner,
    ServiceEndpoint,
    backends,
    misplaced,
    reachable,
    unserved,
)
from pilothouse.node.services.load_balancer import LoadBalancer

DB = PortOwner("Service", "shop", "db")
HERE = ListenAddress("127.96.0.7", 5432)
FIRST, SECOND = ServiceEndpoint("127.70.4.1", 5433), ServiceEndpoint("127.70.4.2", 5433)


def table(services: list[Object], slices: list[Object], pods: Any = None) -> dict[ListenAddress, Backend]:
    return backends(services, slices, pods or {}, node="m1", addresses=("10.0.0.1", "127.0.0.1"))


def test_a_services_port_leads_to_its_endpoints_port() -> None:
    found = table([service("db")], [slice_of("db", endpoint("127.70.4.2"), endpoint("127.70.4.1"))])
    assert found == {HERE: Backend(DB, "shop/db:sql", (FIRST, SECOND))}


def test_nobody_listens_where_nothing_is_ready() -> None:
    slices = [slice_of("db", endpoint("127.70.4.1", ready=False, serving=False))]
    assert table([service("db")], slices) == {}
    assert table([service("db")], []) == {}


def test_those_about_to_go_serve_while_nobody_else_does() -> None:
    leaving = endpoint("127.70.4.1", ready=False, serving=True, terminating=True)
    assert table([service("db")], [slice_of("db", leaving)])[HERE].endpoints == (FIRST,)
    both = [slice_of("db", leaving, endpoint("127.70.4.2"))]
    assert table([service("db")], both)[HERE].endpoints == (SECOND,)


def test_endpoints_of_all_slices_count_once() -> None:
    slices = [slice_of("db", endpoint("127.70.4.1")), slice_of("db", endpoint("127.70.4.1"), number=1)]
    assert table([service("db")], slices)[HERE].endpoints == (FIRST,)


def test_another_namespaces_slices_and_other_families_dont_count() -> None:
    slices = [
        slice_of("db", endpoint("127.70.4.1"), namespace="other"),
        slice_of("db", endpoint("fd00::1"), number=1, addressType="IPv6"),
    ]
    assert table([service("db")], slices) == {}


def test_each_port_leads_to_the_port_of_its_name() -> None:
    ports = [{"name": "sql", "port": 5432}, {"name": "web", "port": 80}, {"name": "none", "port": 81}]
    targets = [{"name": "sql", "port": 1}, {"name": "web", "port": 2}]
    found = table([service("db", ports=ports)], [slice_of("db", endpoint("127.70.4.1"), ports=targets)])
    assert {at.port: backend.endpoints[0].port for at, backend in found.items()} == {5432: 1, 80: 2}


@pytest.mark.parametrize(
    "spec", [{"address": "None"}, {"address": ""}, {"type": "ExternalName", "externalName": "example.org"}]
)
def test_a_service_without_an_address_is_not_forwarded(spec: Any) -> None:
    assert table([service("db", **spec)], [slice_of("db", endpoint("127.70.4.1"))]) == {}


def test_node_ports_are_open_at_the_nodes_addresses() -> None:
    ports = [{"name": "sql", "port": 5432, "nodePort": 30432}]
    found = table([service("db", type="NodePort", ports=ports)], [slice_of("db", endpoint("127.70.4.1"))])
    assert set(found) == {HERE, ListenAddress("10.0.0.1", 30432), ListenAddress("127.0.0.1", 30432)}


def test_a_policy_keeps_to_this_node() -> None:
    slices = [slice_of("db", endpoint("127.70.4.1", nodeName="m1"), endpoint("127.70.4.2", nodeName="m2"))]
    assert table([service("db", internalTrafficPolicy="Local")], slices)[HERE].endpoints == (FIRST,)
    ports = [{"name": "sql", "port": 5432, "nodePort": 30432}]
    outside = service("db", type="NodePort", ports=ports, externalTrafficPolicy="Local")
    found = table([outside], slices)
    assert found[ListenAddress("10.0.0.1", 30432)].endpoints == (FIRST,)
    assert found[HERE].endpoints == (FIRST, SECOND)


def test_a_host_port_leads_to_its_pod() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 81, "hostPort": 8081, "hostIP": "10.0.0.1"},
        {"containerPort": 82},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
    ]
    found = table([], [], {"127.70.4.1": pod("p", ports=ports)})
    assert {at: backend.endpoints for at, backend in found.items()} == {
        ListenAddress("10.0.0.1", 8080): (ServiceEndpoint("127.70.4.1", 80),),
        ListenAddress("127.0.0.1", 8080): (ServiceEndpoint("127.70.4.1", 80),),
        ListenAddress("10.0.0.1", 8081): (ServiceEndpoint("127.70.4.1", 81),),
    }
    assert table([], [], {"10.0.0.1": pod("p", ports=ports, hostNetwork=True)}) == {}


def test_what_is_not_forwarded_is_told() -> None:
    ports = [{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53, "protocol": "TCP"}]
    dns = service("dns", ports=ports)
    assert unserved([dns, service("h", address="None", ports=ports)]) == [
        (dns, "service shop/dns: port 53/UDP is not forwarded: only TCP is")
    ]


RANGE, TAKEN = IPv4Network("127.96.0.0/16"), (IPv4Network("10.0.0.1/32"), IPv4Network("127.0.0.1/32"))


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:127.0.0.1",
        "::ffff:0.0.0.0",
        "::ffff:127.96.0.7",
        "::1",
        "fe80::1%lo",
        "0.0.0.0",
        "127.0.0.1",
        "10.0.0.1",
        "0",
        "127.1",
        "0x7f.1",
        "127.96.0.07",
        "localhost",
        "224.0.0.1",
        "255.255.255.255",
        "169.254.169.254",
    ],
)
@pytest.mark.parametrize("ranges", [(RANGE,), ()], ids=["range known", "range not known"])
def test_nobody_listens_wherever_a_service_says(address: str, ranges: tuple[IPv4Network, ...]) -> None:
    """With an address that the system reads as another one, whoever may write services had root listen anywhere."""
    evil = service("evil", address=address)
    good = [service("db"), service("headless", address="None"), service("none", address="")]
    [(about, said)] = misplaced([evil, *good], ranges=ranges, taken=TAKEN)
    assert about is evil
    assert "service shop/evil is not forwarded: its address" in said


def test_the_range_of_services_is_kept_to_where_it_is_known() -> None:
    elsewhere = service("db", address="10.96.0.10")
    assert misplaced([elsewhere], ranges=(), taken=TAKEN) == []
    [(_, said)] = misplaced([elsewhere], ranges=(RANGE,), taken=TAKEN)
    assert "10.96.0.10, is not in the range of services, 127.96.0.0/16" in said


def test_every_endpoint_gets_its_share() -> None:
    balance = LoadBalancer(ManualClock(), Random(7))
    backend = Backend(DB, "b", tuple(ServiceEndpoint("127.70.4.1", n) for n in range(4)))
    firsts = [balance.order(backend, "127.0.0.1")[0] for _ in range(400)]
    assert all(60 < firsts.count(each) < 140 for each in backend.endpoints)
    assert sorted(balance.order(backend, "127.0.0.1")) == list(backend.endpoints)


def test_with_affinity_a_client_stays_where_it_was_for_so_long() -> None:
    clock = ManualClock()
    balance = LoadBalancer(clock, Random(7))
    endpoints = tuple(ServiceEndpoint("127.70.4.1", n) for n in range(50))
    backend = Backend(DB, "b", endpoints, affinity=60)
    balance.settled(backend, "10.0.0.9", endpoints[3])
    clock.advance(59)
    assert {balance.order(backend, "10.0.0.9")[0] for _ in range(20)} == {endpoints[3]}
    assert len({balance.order(backend, "10.0.0.8")[0] for _ in range(20)}) > 1
    assert len({balance.order(Backend(DB, "c", endpoints, 60), "10.0.0.9")[0] for _ in range(20)}) > 1
    clock.advance(2)
    assert len({balance.order(backend, "10.0.0.9")[0] for _ in range(20)}) > 1


def test_affinity_ends_with_its_endpoint() -> None:
    balance = LoadBalancer(ManualClock(), Random(7))
    balance.settled(Backend(DB, "b", (FIRST, SECOND), 60), "c", FIRST)
    assert balance.order(Backend(DB, "b", (SECOND,), 60), "c") == [SECOND]


def test_affinity_is_read_off_the_service() -> None:
    slices = [slice_of("db", endpoint("127.70.4.1"))]
    three_hours = table([service("db", sessionAffinity="ClientIP")], slices)[HERE]
    assert three_hours.affinity == 10800
    config = {"clientIP": {"timeoutSeconds": 30}}
    short = table([service("db", sessionAffinity="ClientIP", sessionAffinityConfig=config)], slices)[HERE]
    assert short.affinity == 30


def test_loopback_addresses_of_pods_on_other_machines_lead_nowhere() -> None:
    """A node could else lead clients on every machine to whatever has that address there."""
    far = endpoint("127.64.0.7", nodeName="eve")
    near = endpoint("127.64.0.8", nodeName="twin")
    routed = endpoint("10.44.2.3", nodeName="eve")
    manual = endpoint("127.64.0.9")
    (left,) = reachable([slice_of("db", far, near, routed, manual)], elsewhere={"eve"})
    assert left["endpoints"] == [near, routed, manual]
