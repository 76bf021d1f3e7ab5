"""A port of the node that is taken keeps a pod waiting, with a sentence that says by whom."""

from __future__ import annotations

import socket

from tests.network.objects import pod

from pilothouse.node.addresses.host_ports import conflict, occupied, ports_of
from pilothouse.node.addresses.ledger import Port


def test_a_pod_wants_its_host_ports_and_with_the_nodes_network_all() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 81},
        {"containerPort": 53, "protocol": "UDP"},
    ]
    assert ports_of(pod("p", ports=ports)) == (Port(8080),)
    assert ports_of(pod("p", ports=ports[1:], hostNetwork=True)) == (Port(81), Port(53, "UDP"))


def test_any_address_means_all() -> None:
    ports = [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}]
    assert ports_of(pod("p", ports=ports)) == (Port(80),)


def test_the_pod_that_has_the_port_is_named() -> None:
    held = {"shop/web-0": (Port(8080), Port(53, "UDP"))}
    assert conflict([Port(8080)], held) == "port 8080/TCP of the node belongs to pod shop/web-0"
    assert conflict([Port(8080, "TCP", "10.0.0.1")], held) != ""
    assert conflict([Port(53)], held) == ""
    assert conflict([Port(80, "TCP", "10.0.0.1")], {"a/b": (Port(80, "TCP", "10.0.0.2"),)}) == ""


def test_a_port_of_another_program_is_told_and_a_free_one_is_had() -> None:
    with socket.socket() as other:
        other.bind(("127.71.0.5", 0))
        other.listen()
        number = other.getsockname()[1]
        said = occupied(Port(number), "127.71.0.5")
        assert said == f"port {number}/TCP of the node is taken by another program at 127.71.0.5"
        assert occupied(Port(number, "UDP"), "127.71.0.5") == ""
    assert occupied(Port(number), "127.71.0.5") == ""


def test_an_address_that_the_node_has_not_is_told() -> None:
    assert "can't be had at 192.0.2.77" in occupied(Port(8080, "TCP", "192.0.2.77"), "127.0.0.1")


def test_a_node_that_is_reached_by_way_of_another_address_has_its_ports_all_the_same() -> None:
    assert occupied(Port(8080), "192.0.2.77") == ""
