from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.authorization.conftest import Rights, person
from tests.kit.rbac_objects import GROUP, bind, cluster_role, paths, place, role, rule

ALICE = person("alice", "dev")
WRITES = "get list create update patch delete"
HANDS_ON = rule(WRITES, "roles rolebindings clusterroles clusterrolebindings", GROUP)


@pytest.fixture(autouse=True)
def writes_roles(rights: Rights) -> None:
    """Alice may write every role and binding, and read pods of one namespace."""
    rights.add(
        cluster_role("writes-roles", HANDS_ON),
        bind("", "writes-roles", "ClusterRole/writes-roles", "User/alice"),
        role("t", "reads-pods", rule("get list", "pods")),
        bind("t", "reads-pods", "Role/reads-pods", "Group/dev"),
        cluster_role("big", rule("*", "*", "*"), paths("*", "*")),
        cluster_role("small", rule("get", "pods")),
    )


def test_a_role_with_no_more_than_one_holds_may_be_written(rights: Rights) -> None:
    rights.add(role("t", "mine", rule("get", "pods")), user=ALICE)


def test_a_role_with_more_is_refused_and_what_is_lacking_is_told(rights: Rights) -> None:
    answer = rights.create(role("t", "more", rule("get delete create", "pods")), user=ALICE)
    assert answer.status == 403
    assert answer.message == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" '
        '(groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "create"]}'
    )
    assert rights.send("GET", f"{place(role('t', 'more'))}/more").status == 404


def test_rights_of_one_namespace_are_none_in_another(rights: Rights) -> None:
    rights.namespace("u")
    assert rights.create(role("u", "mine", rule("get", "pods")), user=ALICE).status == 403
    assert rights.create(cluster_role("mine", rule("get", "pods")), user=ALICE).status == 403


def test_an_update_a_patch_and_an_apply_are_no_way_round(rights: Rights) -> None:
    mine = role("t", "mine", rule("get", "pods"))
    rights.add(mine, user=ALICE)
    at = f"{place(mine)}/mine"
    more = {**mine, "rules": [rule("*", "*", "*")]}
    patch = {"rules": [rule("*", "*", "*")]}
    attempts = [
        rights.send("PUT", at, more, user=ALICE),
        rights.send("PATCH", at, patch, type="application/merge-patch+json", user=ALICE),
        rights.send("PATCH", at, patch, type="application/strategic-merge-patch+json", user=ALICE),
        rights.send(
            "PATCH",
            at,
            [{"op": "replace", "path": "/rules/0/verbs", "value": ["*"]}],
            type="application/json-patch+json",
            user=ALICE,
        ),
        rights.send(
            "PATCH",
            at,
            more,
            type="application/apply-patch+yaml",
            query="fieldManager=m&force=true",
            user=ALICE,
        ),
        rights.send("PUT", f"{place(mine)}/new", {**more, "metadata": {"name": "new"}}, user=ALICE),
    ]
    for answer in attempts:
        assert answer.status == 403
        assert "is attempting to grant RBAC permissions not currently held" in answer.message
    assert rights.send("GET", at).json["rules"] == mine["rules"]


def test_escalate_lets_one_write_any_role(rights: Rights) -> None:
    rights.add(
        cluster_role("escalates", rule("escalate", "roles", GROUP)),
        bind("t", "escalates", "ClusterRole/escalates", "User/alice"),
    )
    rights.add(role("t", "more", rule("*", "*", "*")), user=ALICE)
    assert rights.create(cluster_role("more", rule("*", "*", "*")), user=ALICE).status == 403


def test_a_binding_needs_what_its_role_grants(rights: Rights) -> None:
    rights.add(bind("t", "fine", "Role/reads-pods", "User/bob"), user=ALICE)
    rights.add(bind("t", "fine-too", "ClusterRole/small", "User/bob"), user=ALICE)
    for refused in (
        bind("t", "no", "ClusterRole/big", "User/alice"),
        bind("", "no", "ClusterRole/big", "User/alice"),
        bind("", "no", "ClusterRole/small", "User/alice"),
    ):
        answer = rights.create(refused, user=ALICE)
        assert answer.status == 403
        assert "is attempting to grant RBAC permissions not currently held" in answer.message


def test_a_new_subject_is_a_new_grant(rights: Rights) -> None:
    big = bind("t", "big", "ClusterRole/big", "User/bob")
    rights.add(big)
    more = bind("t", "big", "ClusterRole/big", "User/bob", "User/alice")
    assert rights.send("PUT", f"{place(big)}/big", more, user=ALICE).status == 403


def test_bind_lets_one_bind_that_role(rights: Rights) -> None:
    rights.add(
        cluster_role("binds", rule("bind", "clusterroles", GROUP, names="big")),
        bind("t", "binds", "ClusterRole/binds", "User/alice"),
    )
    rights.add(bind("t", "yes", "ClusterRole/big", "User/bob"), user=ALICE)
    assert rights.create(bind("", "no", "ClusterRole/big", "User/bob"), user=ALICE).status == 403


def test_a_role_that_is_yet_to_come_cannot_be_bound(rights: Rights) -> None:
    answer = rights.create(bind("t", "b", "Role/later", "User/bob"), user=ALICE)
    assert (answer.status, answer.message) == (404, 'roles.rbac.authorization.k8s.io "later" not found')
    rights.add(bind("t", "b", "Role/later", "User/bob"))


def test_an_aggregated_role_gathers_anything_so_one_must_hold_everything(rights: Rights) -> None:
    gathering = cluster_role("gathers", selects={"team": "a"})
    answer = rights.create(gathering, user=ALICE)
    assert answer.status == 403
    assert answer.message.endswith("must have cluster-admin privileges to use the aggregationRule")
    admin = person("root")
    rights.add(bind("", "root", "ClusterRole/cluster-admin", "User/root"))
    rights.add(gathering, user=admin)
    renamed = {**gathering, "metadata": {"name": "gathers", "labels": {"x": "y"}}}
    assert rights.send("PUT", f"{place(gathering)}/gathers", renamed, user=ALICE).status == 403


def test_a_label_adds_to_an_aggregate_no_more_than_one_holds(rights: Rights) -> None:
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    answer = rights.create(cluster_role("sneaks", rule("get", "secrets"), labels=label), user=ALICE)
    assert answer.status == 403
    relabel = {"metadata": {"labels": label}}
    at = f"{place(cluster_role('big'))}/big"
    assert rights.send("PATCH", at, relabel, type="application/merge-patch+json", user=ALICE).status == 403


def test_tidying_up_is_not_handing_on(rights: Rights) -> None:
    at = f"{place(cluster_role('big'))}/big"
    patch: dict[str, Any] = {"metadata": {"finalizers": ["example.com/hold"]}}
    answer = rights.send("PATCH", at, patch, type="application/merge-patch+json", user=ALICE)
    assert answer.status == 200
    patch = {"metadata": {"annotations": {"a": "b"}}}
    answer = rights.send("PATCH", at, patch, type="application/merge-patch+json", user=ALICE)
    assert answer.status == 403


def test_taking_away_needs_no_rights_but_those_to_the_object(rights: Rights) -> None:
    assert rights.send("DELETE", f"{place(cluster_role('big'))}/big", user=ALICE).status == 200
