"""A node's certificate in the wrong hands: what it says of its own machine draws nothing of others to it.

Other machines route a node's range to its address, and the API server calls it there: so both are judged when they are written.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import pytest
from cryptography import x509
from multidict import CIMultiDict
from tests.kit.core import Answered, CoreServer
from tests.kit.requests import request_for
from tests.kit.sample_installation import node

from pilothouse.apiserver.registry.node_proxy import path_at_node
from pilothouse.apiserver.server.messages import Request, User

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
NODES = "/api/v1/nodes"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SERVING = "kubernetes.io/kubelet-serving"
EVE = node("eve")


@pytest.fixture
def server() -> Iterator[CoreServer]:
    """An API server at 10.0.0.5, called plane.example; a node m2 at 10.0.0.2; and a node eve, which is the attacker's."""
    names = {"127.0.0.1", "localhost", "10.0.0.5", "plane.example", "kubernetes"}
    with CoreServer(server_names=names) as made:
        victim = {
            "metadata": {"name": "m2", "labels": {"kubernetes.io/hostname": "m2"}},
            "spec": {"podCIDR": "10.44.2.0/24", "podCIDRs": ["10.44.2.0/24"], "providerID": "cloud://2"},
            "status": {"addresses": [_address("10.0.0.2"), _address("m2", "Hostname")]},
        }
        made.send("POST", NODES, victim).expect(201)
        made.send("POST", NODES, {"metadata": {"name": "eve"}}, user=EVE).expect(201)
        yield made


def _address(address: str, type: str = "InternalIP") -> Json:
    return {"type": type, "address": address}


def _claim_range(server: CoreServer, *ranges: str, user: User = EVE) -> Answered:
    body = {"spec": {"podCIDR": ranges[0], "podCIDRs": list(ranges)}}
    return server.send("PATCH", f"{NODES}/eve", body, type=MERGE, user=user)


def _claim_address(
    server: CoreServer, *addresses: Json, user: User = EVE, peer: str = "10.0.0.9:40000"
) -> Answered:
    body = {"status": {"addresses": list(addresses)}}
    return server.send("PATCH", f"{NODES}/eve/status", body, type=MERGE, user=user, peer=peer)


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        ("203.0.113.0/24", "not a private range"),
        ("8.8.8.0/24", "not a private range"),
        ("127.64.0.0/16", "not a private range"),
        ("169.254.0.0/16", "not a private range"),
        ("224.0.0.0/16", "not a private range"),
        ("192.0.2.0/24", "not a private range"),
        ("2001:db8::/64", "not a private range"),
        ("fe80::/64", "not a private range"),
        ("::ffff:10.44.9.0/120", "not a private range"),
        ("128.0.0.0/1", "16 to 30 bits"),
        ("0.0.0.0/0", "16 to 30 bits"),
        ("0.0.0.0/1", "16 to 30 bits"),
        ("::/0", "48 to 124 bits"),
        ("10.0.0.0/8", "16 to 30 bits"),
        ("10.44.9.1/32", "16 to 30 bits"),
        ("10.44.9.7/24", "has host bits set"),
        ("10.44.9.0/24; reboot", "is not a range of addresses"),
        ("10.44.9.0/255.255.255.0.0", "is not a range of addresses"),
        ("all", "is not a range of addresses"),
        ("10.44.2.0/24", "overlaps 10.44.2.0/24 of node m2"),
        ("10.44.2.128/25", "overlaps 10.44.2.0/24 of node m2"),
        ("10.44.0.0/16", "overlaps 10.44.2.0/24 of node m2"),
        ("10.0.0.0/24", "holds 10.0.0."),
        ("10.0.0.0/30", "holds 10.0.0.2, the address of node m2"),
        ("10.0.0.4/30", "holds 10.0.0.5, an address of the API server"),
    ],
)
def test_no_range_draws_the_traffic_of_others_to_it(server: CoreServer, claimed: str, why: str) -> None:
    refused = _claim_range(server, claimed)
    assert refused.status == 403, refused.body
    assert "spec.podCIDRs: " in refused.message
    assert why in refused.message
    assert "podCIDR" not in (server.send("GET", f"{NODES}/eve").expect(200).get("spec") or {})


def test_no_way_of_writing_it_gets_around_that(server: CoreServer) -> None:
    bad = "203.0.113.0/24"
    for spec in ({"podCIDR": bad}, {"podCIDRs": [bad]}, {"podCIDR": "10.44.9.0/24", "podCIDRs": [bad]}):
        body = {"spec": spec}
        assert server.send("PATCH", f"{NODES}/eve", body, type=MERGE, user=EVE).status == 403
        whole = {**server.send("GET", f"{NODES}/eve").expect(200), "spec": spec}
        assert server.send("PUT", f"{NODES}/eve", whole, user=EVE).status == 403
        applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "eve"}, "spec": spec}
        apply = "application/apply-patch+yaml"
        query = "fieldManager=eve&force=true"
        assert server.send("PATCH", f"{NODES}/eve", applied, type=apply, query=query, user=EVE).status == 403
        server.send("DELETE", f"{NODES}/eve").expect(200)
        assert server.send("POST", NODES, {"metadata": {"name": "eve"}, **body}, user=EVE).status == 403
        server.send("POST", NODES, {"metadata": {"name": "eve"}}, user=EVE).expect(201)


def test_a_range_of_its_own_is_taken_once(server: CoreServer) -> None:
    _claim_range(server, "10.44.9.0/24").expect(200)
    assert _claim_range(server, "10.44.10.0/24").status != 200
    assert _claim_range(server, "10.44.9.0/24", "10.45.9.0/24").status != 200


def test_there_is_one_range_of_a_family() -> None:
    with CoreServer(cluster_ranges=[IPv4Network("10.44.0.0/16"), IPv6Network("fd00:9::/48")]) as server:
        server.send("POST", NODES, {"metadata": {"name": "eve"}}, user=EVE).expect(201)
        assert "one range of IPv4" in _claim_range(server, "10.44.9.0/24", "10.44.10.0/24").message
        _claim_range(server, "10.44.9.0/24", "fd00:9::/64").expect(200)


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        ("192.168.0.0/16", "not within the cluster's range, 10.44.0.0/16"),
        ("172.20.0.0/24", "not within the cluster's range, 10.44.0.0/16"),
        ("fd00:9::/64", "not within the cluster's range, 10.44.0.0/16"),
        ("10.44.128.0/17", "larger than what one node may have, a /24"),
        ("10.44.8.0/23", "larger than what one node may have, a /24"),
    ],
)
def test_without_a_word_of_an_administrator_a_node_has_its_share_of_the_default_range_and_no_more(
    server: CoreServer, claimed: str, why: str
) -> None:
    refused = _claim_range(server, claimed)
    assert refused.status == 403
    assert why in refused.message
    _claim_range(server, "10.44.9.0/26").expect(200)


def test_ranges_lie_within_that_of_the_cluster() -> None:
    with CoreServer(cluster_ranges=[IPv4Network("10.44.0.0/16")]) as server:
        server.send("POST", NODES, {"metadata": {"name": "eve"}}, user=EVE).expect(201)
        refused = _claim_range(server, "192.168.1.0/24")
        assert refused.status == 403
        assert "192.168.1.0/24 is not within the cluster's range, 10.44.0.0/16" in refused.message
        _claim_range(server, "10.44.9.0/24").expect(200)


def test_an_administrator_gives_what_a_node_may_not_take(server: CoreServer) -> None:
    server.send("PATCH", f"{NODES}/eve", {"spec": {"podCIDR": "203.0.113.0/24"}}, type=MERGE).expect(200)
    # And it goes on reporting, with what it was given.
    _claim_address(server, _address("10.0.0.9")).expect(200)


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        (_address("10.0.0.2"), "10.0.0.2 is the address of node m2"),
        (_address("10.0.0.2", "ExternalIP"), "10.0.0.2 is the address of node m2"),
        (_address("10.44.2.7"), "10.44.2.7 is in 10.44.2.0/24, the range of node m2's pods"),
        (_address("127.96.0.1"), "in the range of services"),
        (_address("0.0.0.0"), "is not the address of a single machine"),
        (_address("224.0.0.1"), "is not the address of a single machine"),
        (_address("255.255.255.255"), "is not the address of a single machine"),
        (_address("169.254.169.254"), "is not the address of a single machine"),
        (_address("fe80::1%eth0"), "has a scope"),
        (_address("::ffff:10.0.0.2"), "write 10.0.0.2"),
        (_address("010.0.0.2"), "is not an IP address"),
        (_address("m2"), "is not an IP address"),
        (_address("10.0.0.9/24"), "is not an IP address"),
        (_address("m2", "Hostname"), "'m2' is node m2's"),
        (_address("m2", "InternalDNS"), "'m2' is node m2's"),
        (_address("plane.example", "ExternalDNS"), "is a name of the API server"),
        (_address("*", "Hostname"), "is no host name"),
        (_address("a..b", "InternalDNS"), "is no host name"),
    ],
)
def test_no_address_or_name_is_anothers(server: CoreServer, claimed: Json, why: str) -> None:
    refused = _claim_address(server, claimed)
    assert refused.status == 403, refused.body
    assert "status.addresses: " in refused.message
    assert why in refused.message
    both = [_address("10.0.0.9"), claimed]
    assert _claim_address(server, *both).status == 403
    # Nor if it were confirmed.
    if claimed["type"] == "InternalIP" and claimed["address"] != "fe80::1%eth0":
        assert _claim_address(server, claimed, peer=f"{claimed['address']}:40000").status == 403
    server.send("DELETE", f"{NODES}/eve").expect(200)
    whole = {"metadata": {"name": "eve"}, "status": {"addresses": both}}
    assert server.send("POST", NODES, whole, user=EVE).status == 403


@pytest.mark.parametrize(
    "claimed",
    [
        {"podIP": "10.44.2.7", "podIPs": [{"ip": "10.44.2.7"}]},
        {"podIP": "10.44.9.7", "podIPs": [{"ip": "10.44.9.7"}, {"ip": "10.0.0.5"}]},
        {"podIPs": [{"ip": "127.0.0.1"}]},
        {"podIP": "169.254.169.254"},
        {"podIP": "127.96.0.1"},
        {"podIP": "203.0.113.7"},
    ],
    ids=str,
)
def test_its_pods_draw_no_service_to_addresses_of_others(server: CoreServer, claimed: Json) -> None:
    """Each machine passes connections to a service on to the addresses in its pods' status: its own loopback, even."""
    pods = "/api/v1/namespaces/default/pods"
    server.send("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    spec = {"nodeName": "eve", "containers": [{"name": "c", "image": "host/sh"}]}
    server.send("POST", pods, {"metadata": {"name": "p"}, "spec": spec}).expect(201)
    _claim_range(server, "10.44.9.0/24").expect(200)
    _claim_address(server, _address("10.0.0.9")).expect(200)
    refused = server.send("PATCH", f"{pods}/p/status", {"status": claimed}, type=MERGE, user=EVE)
    assert refused.status == 403
    assert "is neither in the range of node eve nor its address" in refused.message
    for own in ("10.44.9.7", "10.0.0.9", "127.64.0.7"):
        body = {"status": {"podIP": own, "podIPs": [{"ip": own}], "hostIP": "10.0.0.9"}}
        server.send("PATCH", f"{pods}/p/status", body, type=MERGE, user=EVE).expect(200)


ANYWHERE = ["10.0.0.77", "203.0.113.7", "127.0.0.1", "127.64.0.7", "10.0.0.5", "fd00::7"]


@pytest.mark.parametrize("claimed", ANYWHERE)
@pytest.mark.parametrize("peer", ["10.0.0.9:40000", "[::ffff:10.0.0.9]:40000", "[fd00::9]:40000", ""])
def test_an_address_that_a_node_does_not_call_from_is_not_its_own(
    server: CoreServer, claimed: str, peer: str
) -> None:
    """Else it would lead services of its pods there: to a machine beside the cluster, or every machine to its own loopback."""
    for type in ("InternalIP", "ExternalIP"):
        refused = _claim_address(server, _address(claimed, type), peer=peer)
        assert refused.status == 403
        assert f"status.addresses: {claimed} is not the address that the node calls from" in refused.message


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("10.0.0.9:40000", "10.0.0.9"),
        ("[::ffff:10.0.0.9]:40000", "10.0.0.9"),
        ("[fd00::9]:40000", "fd00::9"),
        ("127.0.0.1:40000", "127.0.0.1"),
        ("127.0.0.1:40000", "10.0.0.5"),
        ("10.0.0.5:40000", "10.0.0.5"),
    ],
)
def test_the_address_that_a_node_calls_from_is_its_own(server: CoreServer, peer: str, address: str) -> None:
    _claim_address(server, _address(address), peer=peer).expect(200)
    # And it goes on reporting from wherever its packets come.
    _claim_address(server, _address(address), _address("eve", "Hostname"), peer="10.0.0.99:40000").expect(200)


def test_behind_a_load_balancer_nodes_have_the_addresses_that_an_administrator_allows() -> None:
    names = {"127.0.0.1", "10.1.0.5"}
    with CoreServer(server_names=names, node_addresses=[IPv4Network("10.1.0.0/24")]) as server:
        server.send("POST", NODES, {"metadata": {"name": "eve"}}, user=EVE).expect(201)
        balancer = "10.9.9.9:40000"
        assert _claim_address(server, _address("10.1.0.5"), peer=balancer).status == 403
        assert _claim_address(server, _address("10.2.0.7"), peer=balancer).status == 403
        assert _claim_address(server, _address("127.0.0.1"), peer=balancer).status == 403
        _claim_address(server, _address("10.1.0.7"), peer=balancer).expect(200)


def test_a_range_and_an_address_of_one_node_are_two_things(server: CoreServer) -> None:
    _claim_address(server, _address("10.44.9.9"), peer="10.44.9.9:40000").expect(200)
    assert "the node's own address" in _claim_range(server, "10.44.9.0/24").message


def test_nodes_on_one_machine_share_loopback(server: CoreServer) -> None:
    for name in ("eve", "twin"):
        user = node(name)
        if name == "twin":
            server.send("POST", NODES, {"metadata": {"name": name}}, user=user).expect(201)
        body = {"status": {"addresses": [_address("127.0.0.1"), _address(name, "Hostname")]}}
        server.send(
            "PATCH", f"{NODES}/{name}/status", body, type=MERGE, user=user, peer="127.0.0.1:40000"
        ).expect(200)


def test_the_label_by_which_volumes_know_a_machine_is_not_taken(server: CoreServer) -> None:
    for value in ("m2", "m3", "eve.example"):
        body = {"metadata": {"labels": {"kubernetes.io/hostname": value}}}
        refused = server.send("PATCH", f"{NODES}/eve", body, type=MERGE, user=EVE)
        assert refused.status == 403
        assert "metadata.labels[kubernetes.io/hostname]: must be the node's own name, eve" in refused.message
    own = {"metadata": {"labels": {"kubernetes.io/hostname": "eve"}}}
    server.send("PATCH", f"{NODES}/eve", own, type=MERGE, user=EVE).expect(200)


def test_the_machine_at_a_provider_is_not_taken(server: CoreServer) -> None:
    body = {"spec": {"providerID": "cloud://2"}}
    refused = server.send("PATCH", f"{NODES}/eve", body, type=MERGE, user=EVE)
    assert refused.status == 403
    assert "spec.providerID: cloud://2 is node m2's" in refused.message


@pytest.mark.parametrize("name", ["*", "", "..", "a..b", "EVE", "a/b", "-eve", "eve.", "e" * 254])
def test_a_certificate_for_a_name_that_no_node_can_have_opens_nothing(server: CoreServer, name: str) -> None:
    user = node(name)
    for method, path, body in (
        ("GET", NODES, None),
        ("GET", f"{NODES}/m2", None),
        ("POST", NODES, {"metadata": {"name": "free"}}),
        ("GET", "/api/v1/services", None),
        ("POST", "/api/v1/namespaces/default/events", {"metadata": {"name": "e"}}),
    ):
        assert server.send(method, path, body, user=user).status == 403


def _sign(server: CoreServer, **names: Any) -> Json:
    """A serving certificate that eve asks for, and a person approves who does not look."""
    pem = request_for("system:node:eve", "system:nodes", **names)
    spec = {
        "signerName": SERVING,
        "usages": ["server auth", "digital signature"],
        "request": b64encode(pem).decode(),
    }
    made = server.send("POST", CSRS, {"metadata": {"generateName": "eve-"}, "spec": spec}, user=EVE).expect(
        201
    )
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Careless"}]}
    path = f"{CSRS}/{made['metadata']['name']}"
    server.send("PUT", f"{path}/approval", made).expect(200)
    server.settle()
    status: Json = server.send("GET", path).expect(200)["status"]
    return status


@pytest.mark.parametrize(
    "names",
    [
        {"dns": ["m2"]},
        {"dns": ["m2.node.pilothouse.internal"]},
        {"dns": ["eve.node.pilothouse.internal", "m2.node.pilothouse.internal"]},
        {"dns": ["*.node.pilothouse.internal"]},
        {"dns": ["plane.example"]},
        {"dns": ["kubernetes.default.svc"]},
        {"dns": ["unrecorded.example"]},
        {"addresses": ["10.0.0.2"]},
        {"addresses": ["10.0.0.5"]},
        {"addresses": ["127.0.0.1"]},
        {"addresses": ["127.96.0.1"]},
        {"addresses": ["10.0.0.10"]},
    ],
    ids=str,
)
def test_no_serving_certificate_is_for_anothers_name_even_if_it_was_approved(
    server: CoreServer, names: dict[str, list[str]]
) -> None:
    _claim_address(server, _address("10.0.0.9"), _address("eve", "Hostname")).expect(200)
    status = _sign(server, **names)
    assert "certificate" not in status
    assert "Failed" in [each["type"] for each in status["conditions"]]


def test_a_serving_certificate_is_for_what_is_on_record(server: CoreServer) -> None:
    _claim_address(server, _address("10.0.0.9"), _address("eve.example", "InternalDNS")).expect(200)
    status = _sign(server, dns=["eve.node.pilothouse.internal", "eve", "eve.example"], addresses=["10.0.0.9"])
    made = x509.load_pem_x509_certificate(b64decode(status["certificate"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(names.get_values_for_type(x509.DNSName)) == 3


def _patch(node_name: str, body: Json, part: str = "") -> Request:
    headers = CIMultiDict({"Content-Type": MERGE})
    return Request(
        "PATCH",
        f"{NODES}/{node_name}{part}",
        headers=headers,
        body=json.dumps(body).encode(),
        user=node(node_name),
        peer="10.0.0.9:40000",
    )


def test_of_nodes_that_claim_the_same_at_once_one_has_it(server: CoreServer) -> None:
    names = [f"twin-{number}" for number in range(10)]
    for name in names:
        server.send("POST", NODES, {"metadata": {"name": name}}, user=node(name)).expect(201)
    requests = [
        _patch(name, {"spec": {"podCIDR": "10.44.7.0/24", "podCIDRs": ["10.44.7.0/24"]}}) for name in names
    ]
    statuses = [status for status, _ in server.send_together(requests)]
    assert sorted(statuses) == [200] + [403] * 9


def test_nodes_report_while_another_claims_one_thing_after_the_other(server: CoreServer) -> None:
    server.send("POST", NODES, {"metadata": {"name": "m3"}}, user=node("m3")).expect(201)
    claims = [
        _patch("eve", {"status": {"addresses": [_address(f"eve-{n}.example", "InternalDNS")]}}, "/status")
        for n in range(30)
    ]
    report = _patch("m3", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "/status")
    order = [place for _, place in server.send_together([*claims, report])]
    assert order[-1] < max(order[:-1])


def test_a_node_has_few_addresses_and_its_pods_fewer(server: CoreServer) -> None:
    """Each is compared with all that others have, while nobody else is answered; and each is one that others can't have."""
    many = [_address(f"10.9.{n // 250}.{n % 250 + 1}", "ExternalIP") for n in range(2000)]
    assert "at most 32" in _claim_address(server, *many).expect(403)["message"]


@pytest.mark.parametrize("name", ["proxy", "proxy0", "a-proxy"])
def test_what_a_node_is_asked_for_comes_after_its_name(name: str) -> None:
    assert path_at_node(f"/api/v1/nodes/{name}/proxy/metrics") == "/metrics"
    assert path_at_node(f"/api/v1/nodes/{name}/proxy/a//proxy/b") == "/a//proxy/b"
    assert path_at_node(f"/api/v1/nodes/{name}/proxy") == "/"


@pytest.mark.parametrize("held", [{"finalizers": ["eve.example/x"]}, {"ownerReferences": True}], ids=str)
def test_its_requests_hold_nothing_of_others_back(server: CoreServer, held: Json) -> None:
    other = server.send("GET", f"{NODES}/m2").expect(200)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "m2", "uid": other["metadata"]["uid"]}
    metadata = {"name": "held", **held}
    if "ownerReferences" in held:
        metadata["ownerReferences"] = [{**owner, "blockOwnerDeletion": True}]
    pem = request_for("system:node:eve", "system:nodes", dns=["eve.node.pilothouse.internal"])
    usages = ["server auth", "digital signature"]
    spec = {"signerName": SERVING, "usages": usages, "request": b64encode(pem).decode()}
    server.send("POST", CSRS, {"metadata": metadata, "spec": spec}, user=EVE).expect(403)
