from __future__ import annotations

from typing import Any

from tests.apiserver.authorization.conftest import Rights, person
from tests.kit.rbac_objects import API, bind, cluster_role, rule

from pilothouse.apiserver.authorization.rbac.aggregation import aggregated
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule

ROLES = f"{API}/clusterroles"
TO_VIEW = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


def rules_of(rights: Rights, name: str) -> list[dict[str, Any]]:
    rights.server.settle()
    return list(rights.send("GET", f"{ROLES}/{name}").json.get("rules", []))


def test_admin_edit_and_view_are_there_from_the_start(rights: Rights) -> None:
    granted = {name: rules_of(rights, name) for name in ("view", "edit", "admin")}
    for smaller, larger in (("view", "edit"), ("edit", "admin")):
        assert all(each in granted[larger] for each in granted[smaller])
        assert len(granted[larger]) > len(granted[smaller])
    assert not any("secrets" in each["resources"] for each in granted["view"])


def test_a_label_brings_rules_in_and_takes_them_out(rights: Rights) -> None:
    mine = rule("get", "databases", "nav.example.io")
    extra = cluster_role("my-view", mine, labels=TO_VIEW)
    alice = person("alice")
    rights.add(bind("t", "b", "ClusterRole/edit", "User/alice"))

    rights.add(extra)
    for name in ("view", "edit", "admin"):
        assert mine in rules_of(rights, name)
    assert rights.may(alice, "get", "databases", group="nav.example.io", namespace="t")

    changed = {"rules": [rule("list", "databases", "nav.example.io")]}
    rights.send("PATCH", f"{ROLES}/my-view", changed, type="application/merge-patch+json").expect(200)
    assert mine not in rules_of(rights, "admin")
    assert changed["rules"][0] in rules_of(rights, "admin")

    rights.remove(extra)
    for name in ("view", "edit", "admin"):
        assert changed["rules"][0] not in rules_of(rights, name)
    assert not rights.may(alice, "list", "databases", group="nav.example.io", namespace="t")


def test_rules_written_by_hand_are_written_over(rights: Rights) -> None:
    before = rules_of(rights, "view")
    patch = {"rules": [rule("*", "*", "*")]}
    rights.send("PATCH", f"{ROLES}/view", patch, type="application/merge-patch+json").expect(200)
    assert rules_of(rights, "view") == before


def test_the_server_is_credited_with_the_rules(rights: Rights) -> None:
    entries = rights.send("GET", f"{ROLES}/admin").json["metadata"]["managedFields"]
    owners = {entry["manager"] for entry in entries if "f:rules" in entry["fieldsV1"]}
    assert owners == {"clusterrole-aggregation-controller"}


def test_a_role_that_aggregates_nothing_is_left_alone(rights: Rights) -> None:
    rights.add(cluster_role("empty", selects={"nobody": "has-this"}))
    assert rules_of(rights, "empty") == []
    plain = cluster_role("plain", rule("get", "pods"))
    rights.add(plain)
    assert rules_of(rights, "plain") == plain["rules"]


def test_aggregates_that_choose_each_other_keep_nothing_that_its_source_lost(rights: Rights) -> None:
    source = cluster_role("source", rule("get", "secrets"), labels={"ring": "yes"})
    rights.add(
        cluster_role("left", labels={"ring": "yes"}, selects={"ring": "yes"}),
        cluster_role("right", labels={"ring": "yes"}, selects={"ring": "yes"}),
        source,
    )
    assert rules_of(rights, "left") == rules_of(rights, "right") == source["rules"]
    rights.remove(source)
    assert rules_of(rights, "left") == rules_of(rights, "right") == []


def test_a_long_row_of_aggregates_is_followed_to_its_end() -> None:
    length = 1050
    roles = {
        str(number): cluster_role(str(number), labels={"n": str(number)}, selects={"n": str(number + 1)})
        for number in range(length)
    }
    roles[str(length)] = cluster_role(str(length), rule("get", "pods"), labels={"n": str(length)})
    assert aggregated("0", roles) == [PolicyRule.read(rule("get", "pods"))]


def test_nothing_is_written_when_nothing_changed(rights: Rights) -> None:
    rights.server.settle()
    before = rights.server.revision
    rights.add(cluster_role("unrelated", rule("get", "pods")))
    rights.server.settle()
    assert rights.server.revision == before + 1
