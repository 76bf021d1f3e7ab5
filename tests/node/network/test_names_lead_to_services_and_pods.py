"""The names that Kubernetes' DNS has addresses for."""

from __future__ import annotations

from tests.node.network.objects import endpoint, pod, service, slice_of

from pilothouse.node.addresses.dns_names import DNSName, names_of, spellings
from pilothouse.node.addresses.hosts_file import name_lines, own_lines
from pilothouse.node.addresses.resolv_conf import resolver_text
from pilothouse.node.containers.environment import hostname


def test_a_service_is_found_at_its_address() -> None:
    slices = [slice_of("db", endpoint("127.70.4.1", hostname="db-0"))]
    assert names_of([service("db")], slices) == {DNSName("shop", "db", "127.96.0.7")}


def test_a_headless_service_is_found_at_its_ready_pods_and_each_by_its_host_name() -> None:
    slices = [
        slice_of("db", endpoint("127.70.4.1", hostname="db-0"), endpoint("127.70.4.2", hostname="db-1")),
        slice_of(
            "db", endpoint("127.70.4.3", ready=False, hostname="db-2"), endpoint("127.70.4.4"), number=1
        ),
    ]
    assert names_of([service("db", address="None")], slices) == {
        DNSName("shop", "db", "127.70.4.1"),
        DNSName("shop", "db", "127.70.4.2"),
        DNSName("shop", "db", "127.70.4.4"),
        DNSName("shop", "db-0.db", "127.70.4.1"),
        DNSName("shop", "db-1.db", "127.70.4.2"),
    }


def test_readiness_that_is_not_known_counts_as_ready() -> None:
    slices = [slice_of("db", {"addresses": ["127.70.4.1"]})]
    assert names_of([service("db", address="None")], slices) == {DNSName("shop", "db", "127.70.4.1")}


def test_slices_without_a_service_and_services_elsewhere_have_no_names() -> None:
    services = [service("out", address="", type="ExternalName", externalName="example.org")]
    assert names_of(services, [slice_of("gone", endpoint("127.70.4.1"))]) == set()


def test_the_namespace_may_be_left_out_within_it() -> None:
    name = DNSName("shop", "db-0.db", "127.70.4.1")
    full = "db-0.db.shop.svc.cluster.local db-0.db.shop.svc db-0.db.shop"
    assert spellings(name, within="shop") == f"{full} db-0.db"
    assert spellings(name, within="other") == full


def test_a_service_called_localhost_takes_nobodys_own_machine_away() -> None:
    assert "localhost" not in spellings(DNSName("shop", "localhost", "127.96.0.9"), within="shop").split()


def test_a_pod_finds_itself_its_aliases_and_everyone() -> None:
    one = pod(
        "db-0",
        hostname="db-0",
        subdomain="db",
        hostAliases=[{"ip": "10.1.2.3", "hostnames": ["old-db", "older-db"]}, {"ip": "10.9.9.9"}],
    )
    lines = own_lines(one, "127.70.4.1") + name_lines([DNSName("shop", "web", "127.96.0.7")], within="shop")
    assert "127.0.0.1 localhost" in lines
    assert "127.70.4.1 db-0.db.shop.svc.cluster.local db-0" in lines
    assert "10.1.2.3\told-db\tolder-db" in lines
    assert "127.96.0.7 web.shop.svc.cluster.local web.shop.svc web.shop web" in lines
    assert not any("10.9.9.9" in line for line in lines)


def test_a_pod_with_the_nodes_network_has_the_nodes_hosts_too() -> None:
    lines = own_lines(pod("p"), "10.0.0.1", of_node=["# comment", "", "10.0.0.9  printer"])
    assert "10.0.0.9  printer" in lines
    assert "10.0.0.1 p" in lines


def test_a_long_name_is_shortened_as_in_the_pods_host_name() -> None:
    one = pod("p" * 60 + "-with-more")
    assert f"127.70.4.1 {hostname(one)}" in own_lines(one, "127.70.4.1")
    assert len(hostname(one)) <= 63


def test_the_file_begins_as_the_kubelets_does() -> None:
    assert own_lines(pod("p"), "127.70.4.1")[0].startswith("# Kubernetes-managed hosts file.")
    shared = own_lines(pod("p", hostNetwork=True), "10.0.0.1", of_node=["10.0.0.9  printer"])
    assert shared[0].startswith("# Kubernetes-managed hosts file (host network).")


NODE_FILE = "# made by somebody\nnameserver 192.0.2.1\nsearch example.org\noptions ndots:1 rotate\n"


def test_other_names_are_found_as_on_the_node() -> None:
    assert resolver_text(pod("p"), NODE_FILE) == (
        "nameserver 192.0.2.1\nsearch example.org\noptions ndots:1 rotate\n"
    )


def test_what_a_pod_says_about_names_is_added() -> None:
    config = {
        "nameservers": ["192.0.2.2", "192.0.2.1"],
        "searches": ["shop.example.org"],
        "options": [{"name": "ndots", "value": "3"}, {"name": "edns0"}],
    }
    assert resolver_text(pod("p", dnsConfig=config), NODE_FILE) == (
        "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch example.org shop.example.org\n"
        "options ndots:3 rotate edns0\n"
    )


def test_a_pod_may_do_without_the_nodes_settings() -> None:
    alone = pod("p", dnsPolicy="None", dnsConfig={"nameservers": ["192.0.2.7"]})
    assert resolver_text(alone, NODE_FILE) == "nameserver 192.0.2.7\n"
