"""What the kernel is told of other machines, and what is told to people."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest
from tests.node.network.objects import node

from pilothouse.api.objects import Object
from pilothouse.node.addresses.iproute import PROTOCOL, route_changes
from pilothouse.node.addresses.pod_ranges import is_ipv4
from pilothouse.node.addresses.route_plan import RoutePlan, plan_routes

OWN = IPv4Network("10.44.1.0/24")


def plan(*nodes: Object, own: IPv4Network | None = OWN, address: str = "10.0.0.1", **more: Any) -> RoutePlan:
    return plan_routes(nodes, me="m1", address=address, own=own, **more)


def test_each_range_is_behind_its_nodes_address() -> None:
    found = plan(
        node("m1", "10.0.0.1", "10.44.1.0/24"),
        node("m2", "10.0.0.2", "10.44.2.0/24"),
        node("m3", "10.0.0.3", "10.44.3.0/24", "10.45.3.0/24", "fd00:3::/64"),
    )
    assert found.routes == {
        "10.44.2.0/24": "10.0.0.2",
        "10.44.3.0/24": "10.0.0.3",
        "10.45.3.0/24": "10.0.0.3",
    }
    assert found.local == {"10.44.1.0/24"}
    assert found.problems == ()


def test_another_range_than_the_node_has_is_told() -> None:
    found = plan(node("m1", "10.0.0.1", "10.44.8.0/24"))
    assert "its Node has 10.44.8.0/24, which can't be changed" in found.problems[0]
    assert "kubectl delete node m1" in found.problems[0]


@pytest.mark.parametrize("where", ["10.0.0.1", "127.0.0.1"])
def test_nothing_answers_here_because_another_node_says_that_it_is_here(where: str) -> None:
    """The agent of a node on this machine has its range answer itself, and this one does not take it away."""
    twin = node("twin", where, "10.44.9.0/24")
    found = plan(node("m1", where), twin, address=where)
    assert found.local == {"10.44.1.0/24"}
    assert found.routes == {}
    assert route_changes(found, {}, {"10.44.1.0/24": "", "10.44.9.0/24": ""}) == []


def warned(found: RoutePlan) -> dict[str, str]:
    """Warnings by the nodes that they are about. None of them is a problem of this node."""
    assert found.problems == ()
    return dict(found.warnings)


def test_addresses_of_services_answer_here_unless_they_do_anyway() -> None:
    found = plan(services=["10.96.0.10", "127.96.0.7"])
    assert found.local == {"10.44.1.0/24", "10.96.0.10/32"}


def test_only_ipv4_is_routed() -> None:
    assert [text for text in ("10.96.0.1", "fd00::1", "", "None") if is_ipv4(text)] == ["10.96.0.1"]


def test_of_two_nodes_with_one_range_the_older_one_counts_and_it_is_told() -> None:
    older = node("z", "10.0.0.2", "10.44.2.0/24", created="2026-01-01T00:00:00Z")
    younger = node("a", "10.0.0.3", "10.44.2.128/25", created="2026-02-01T00:00:00Z")
    found = plan(younger, older)
    assert found.routes == {"10.44.2.0/24": "10.0.0.2"}
    assert "node a has the range 10.44.2.128/25, which overlaps that of node z" in warned(found)["a"]


def test_our_own_range_is_never_routed_away() -> None:
    found = plan(node("m2", "10.0.0.2", "10.44.0.0/16"))
    assert found.routes == {}
    assert "overlaps that of node m1" in warned(found)["m2"]


def test_a_node_without_an_address_is_told() -> None:
    assert "no InternalIP" in warned(plan(node("m2", "", "10.44.2.0/24")))["m2"]


def test_a_node_that_says_it_is_at_loopback_is_told() -> None:
    found = plan(node("m2", "127.0.0.1", "10.44.2.0/24"))
    assert found.routes == {}
    assert "start it with --node-ip" in warned(found)["m2"]


def test_loopback_does_for_one_machine_and_not_for_two() -> None:
    assert plan(node("m2", "127.0.0.1"), own=None, address="127.0.0.1") == RoutePlan()
    found = plan(node("m2", "10.0.0.2", "10.44.2.0/24"), own=None)
    assert "start this node with --pod-cidr" in warned(found)["m1"]
    assert found.routes == {"10.44.2.0/24": "10.0.0.2"}


@pytest.mark.parametrize(
    "claimed",
    [
        "203.0.113.0/24",
        "128.0.0.0/1",
        "0.0.0.0/0",
        "0.0.0.0/1",
        "8.8.8.0/24",
        "127.64.0.0/16",
        "169.254.0.0/16",
        "224.0.0.0/24",
        "10.0.0.0/8",
        "10.0.0.0/24",
        "10.0.0.4/30",
        "10.96.0.0/24",
    ],
)
@pytest.mark.parametrize("where", ["10.0.0.3", "10.0.0.1"], ids=["another machine", "as if on ours"])
def test_what_another_node_cant_have_is_not_routed_whatever_the_api_server_took(
    claimed: str, where: str
) -> None:
    found = plan(
        node("m1", "10.0.0.1", "10.44.1.0/24"),
        node("m2", "10.0.0.2", "10.44.2.0/24"),
        node("eve", where, claimed, created="2020-01-01T00:00:00Z"),
        services=["10.96.0.10"],
        servers=["10.0.0.5"],
    )
    assert found.routes == {"10.44.2.0/24": "10.0.0.2"}
    assert found.local == {"10.44.1.0/24", "10.96.0.10/32"}
    # One bad Node is no reason for the others to take no pods.
    assert f"the range {claimed} of node eve is not routed" in warned(found)["eve"]


def test_only_what_differs_is_changed() -> None:
    wanted = RoutePlan({"10.44.2.0/24": "10.0.0.2", "10.44.3.0/24": "10.0.0.3"}, frozenset({"10.44.1.0/24"}))
    assert route_changes(wanted, wanted.routes, {"10.44.1.0/24": ""}) == []
    made = route_changes(
        wanted, {"10.44.2.0/24": "10.0.0.9", "10.44.8.0/24": "10.0.0.8"}, {"10.96.0.1/32": ""}
    )
    found = [each.words for each in made]
    tail = ("dev", "lo", "table", "local", "proto", PROTOCOL)
    assert found == [
        ("route", "del", "local", "10.96.0.1/32", *tail),
        ("route", "del", "10.44.8.0/24", "proto", PROTOCOL),
        ("route", "replace", "local", "10.44.1.0/24", *tail),
        ("route", "replace", "10.44.2.0/24", "via", "10.0.0.2", "proto", PROTOCOL),
        ("route", "replace", "10.44.3.0/24", "via", "10.0.0.3", "proto", PROTOCOL),
    ]


def test_a_range_outside_of_the_clusters_is_routed_by_nobody() -> None:
    eve = node("eve", "10.0.0.3", "192.168.0.0/16")
    good = node("m2", "10.0.0.2", "10.44.2.0/24")
    cluster = [IPv4Network("10.44.0.0/16")]
    for own in (IPv4Network("10.44.1.0/24"), None):
        found = plan_routes([eve, good], me="m1", address="10.0.0.1", own=own, cluster=cluster)
        assert found.routes == {"10.44.2.0/24": "10.0.0.2"}
        assert (
            "192.168.0.0/16 of node eve is not routed: it is not within the cluster's range"
            in warned(found)["eve"]
        )
    # At a Kubernetes, which does not say where they lie, they are given by its controllers.
    assert "192.168.0.0/16" in plan_routes([eve], me="m1", address="10.0.0.1", own=None).routes
