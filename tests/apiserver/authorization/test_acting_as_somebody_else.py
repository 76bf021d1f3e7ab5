from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict
from tests.apiserver.authorization.conftest import Rights, person
from tests.kit.rbac_objects import bind, cluster_role, role, rule

ALICE = person("alice")
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
IDENTITY = "authentication.k8s.io"


def who(rights: Rights, *headers: tuple[str, str], **how: Any) -> dict[str, Any]:
    answer = rights.send("POST", WHO, {}, headers=CIMultiDict(headers), **how)
    found: dict[str, Any] = answer.expect(201)["status"]["userInfo"]
    return found


def test_everything_about_the_other_is_taken(rights: Rights) -> None:
    assert who(
        rights,
        ("Impersonate-User", "bob"),
        ("impersonate-group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Extra-Scopes", "read"),
        ("Impersonate-Extra-Scopes", "write"),
        ("Impersonate-Extra-acme.com%2Fproject", "p"),
    ) == {
        "username": "bob",
        "uid": "42",
        "groups": ["dev", "ops", "system:authenticated"],
        "extra": {"scopes": ["read", "write"], "acme.com/project": ["p"]},
    }


@pytest.mark.parametrize(
    ("headers", "groups"),
    [
        ([("Impersonate-User", "bob")], ["system:authenticated"]),
        (
            [("Impersonate-User", "system:serviceaccount:t:robot")],
            ["system:serviceaccounts", "system:serviceaccounts:t", "system:authenticated"],
        ),
        (
            [("Impersonate-User", "system:serviceaccount:t:robot"), ("Impersonate-Group", "own")],
            ["own", "system:authenticated"],
        ),
        (
            [
                ("Impersonate-User", "system:serviceaccount:T:"),
            ],
            ["system:authenticated"],
        ),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:authenticated")],
            ["system:authenticated"],
        ),
    ],
)
def test_groups_come_with_the_user(rights: Rights, headers: list[tuple[str, str]], groups: list[str]) -> None:
    assert who(rights, *headers)["groups"] == groups


def test_the_request_is_the_others_in_every_respect(rights: Rights) -> None:
    rights.add(role("t", "r", rule("list", "pods")), bind("t", "b", "Role/r", "User/bob"))
    as_bob = {"Impersonate-User": "bob"}
    assert rights.send("GET", "/api/v1/namespaces/t/pods", headers=as_bob).status == 200
    refused = rights.send("GET", "/api/v1/namespaces/t/secrets", headers=as_bob)
    assert refused.status == 403
    assert 'User "bob" cannot list resource "secrets"' in refused.message
    as_nobody = {"Impersonate-User": "system:anonymous"}
    assert rights.send("GET", "/api", headers=as_nobody).status == 403


def test_each_part_needs_its_own_right(rights: Rights) -> None:
    rights.add(
        cluster_role("acts", rule("impersonate", "users", names="bob")),
        bind("", "acts", "ClusterRole/acts", "User/alice"),
    )
    assert who(rights, ("Impersonate-User", "bob"), user=ALICE)["username"] == "bob"
    for more, what in (
        (("Impersonate-Group", "dev"), 'groups "dev" is forbidden'),
        (("Impersonate-Uid", "1"), 'uids.authentication.k8s.io "1" is forbidden'),
        (("Impersonate-Extra-scopes", "all"), 'userextras.authentication.k8s.io "all" is forbidden'),
    ):
        headers = CIMultiDict([("Impersonate-User", "bob"), more])
        refused = rights.send("POST", WHO, {}, headers=headers, user=ALICE)
        assert refused.status == 403
        assert refused.message.startswith(what)
    rights.add(
        cluster_role(
            "more",
            rule("impersonate", "groups"),
            rule("impersonate", "uids userextras/scopes", IDENTITY),
        ),
        bind("", "more", "ClusterRole/more", "User/alice"),
    )
    whole = [
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-scopes", "all"),
    ]
    assert who(rights, *whole, user=ALICE)["extra"] == {"scopes": ["all"]}
    refused = rights.send(
        "POST", WHO, {}, headers=CIMultiDict([*whole, ("Impersonate-Extra-other", "x")]), user=ALICE
    )
    assert 'cannot impersonate resource "userextras/other"' in refused.message


def test_a_service_account_may_be_acted_as_by_whoever_has_the_right_in_its_namespace(rights: Rights) -> None:
    rights.add(bind("t", "edits", "ClusterRole/edit", "User/alice"))
    robot = ("Impersonate-User", "system:serviceaccount:t:robot")
    assert who(rights, robot, user=ALICE)["username"] == robot[1]
    elsewhere = {"Impersonate-User": "system:serviceaccount:kube-system:robot"}
    refused = rights.send("POST", WHO, {}, headers=elsewhere, user=ALICE)
    assert refused.message == (
        'serviceaccounts "robot" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
        'in API group "" in the namespace "kube-system"'
    )
    masters = CIMultiDict([robot, ("Impersonate-Group", "system:masters")])
    assert rights.send("POST", WHO, {}, headers=masters, user=ALICE).status == 403


@pytest.mark.parametrize(
    "header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-x", "Impersonate-User"]
)
def test_a_part_without_a_user_is_refused(rights: Rights, header: str) -> None:
    value = "" if header == "Impersonate-User" else "x"
    refused = rights.send("GET", "/api", headers={header: value})
    assert refused.status == 400
    assert "Impersonate-User must name one" in refused.message


def test_a_leader_keeps_its_leadership_while_it_acts_as_another(rights: Rights) -> None:
    """The Lease is read on behalf of the client: whom it acts as need not be allowed to."""
    rights.add(
        role("t", "leader", rule("impersonate", "serviceaccounts", names="robot")),
        role("t", "reader", rule("get", "leases", "coordination.k8s.io")),
        role("t", "writer", rule("create", "configmaps")),
        bind("t", "leader", "Role/leader", "User/alice"),
        bind("t", "writer", "Role/writer", "ServiceAccount/t/robot"),
    )
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseTransitions": 3}}
    rights.send("POST", "/apis/coordination.k8s.io/v1/namespaces/t/leases", lease).expect(201)

    def written(name: str, transitions: int) -> int:
        headers = {
            "Impersonate-User": "system:serviceaccount:t:robot",
            "Pilothouse-Fence": f"t/leader/{transitions}",
        }
        body = {"metadata": {"name": name}}
        path = "/api/v1/namespaces/t/configmaps"
        return rights.send("POST", path, body, headers=headers, user=ALICE).status

    assert written("a", 3) == 403
    rights.add(bind("t", "reader", "Role/reader", "User/alice"))
    assert written("a", 3) == 201
    assert written("b", 2) == 409
