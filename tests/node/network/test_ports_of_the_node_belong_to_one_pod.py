"""A port of the node that is taken keeps a pod waiting, with a sentence that says by whom."""

from __future__ import annotations

import socket

from tests.node.network.objects import pod

from pilothouse.node.addresses.address_records import HostPort
from pilothouse.node.addresses.host_ports import conflict, occupied, ports_of


def test_a_pod_wants_its_host_ports_and_with_the_nodes_network_all() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 81},
        {"containerPort": 53, "protocol": "UDP"},
    ]
    assert ports_of(pod("p", ports=ports)) == (HostPort(8080),)
    assert ports_of(pod("p", ports=ports[1:], hostNetwork=True)) == (HostPort(81), HostPort(53, "UDP"))


def test_any_address_means_all() -> None:
    ports = [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}]
    assert ports_of(pod("p", ports=ports)) == (HostPort(80),)


def test_the_pod_that_has_the_port_is_named() -> None:
    held = {"shop/web-0": (HostPort(8080), HostPort(53, "UDP"))}
    assert conflict([HostPort(8080)], held) == "port 8080/TCP of the node is in use by pod shop/web-0"
    assert conflict([HostPort(8080, "TCP", "10.0.0.1")], held) != ""
    assert conflict([HostPort(53)], held) == ""
    assert conflict([HostPort(80, "TCP", "10.0.0.1")], {"a/b": (HostPort(80, "TCP", "10.0.0.2"),)}) == ""


def test_a_port_of_another_program_is_told_and_a_free_one_is_had() -> None:
    with socket.socket() as other:
        other.bind(("127.71.0.5", 0))
        other.listen()
        number = other.getsockname()[1]
        said = occupied(HostPort(number), "127.71.0.5")
        assert said == f"port {number}/TCP of the node is in use by another program at 127.71.0.5"
        assert occupied(HostPort(number, "UDP"), "127.71.0.5") == ""
    assert occupied(HostPort(number), "127.71.0.5") == ""


def test_an_address_that_the_node_has_not_is_told() -> None:
    assert "is not available at 192.0.2.77" in occupied(HostPort(8080, "TCP", "192.0.2.77"), "127.0.0.1")


def test_a_node_that_is_reached_by_way_of_another_address_has_its_ports_all_the_same() -> None:
    assert occupied(HostPort(8080), "192.0.2.77") == ""
