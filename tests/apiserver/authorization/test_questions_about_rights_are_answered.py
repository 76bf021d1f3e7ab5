from __future__ import annotations

import pytest
from tests.apiserver.authorization.conftest import Rights, person
from tests.kit.rbac_objects import (
    ACCESS,
    SELF_ACCESS,
    SUBJECT_ACCESS,
    access_review,
    bind,
    cluster_role,
    paths,
    role,
    rule,
    self_review,
)

ALICE = person("alice")
LOCAL = f"{ACCESS}/namespaces/t/localsubjectaccessreviews"
RULES = f"{ACCESS}/selfsubjectrulesreviews"


@pytest.fixture(autouse=True)
def reads_pods(rights: Rights) -> None:
    rights.add(role("t", "r", rule("get", "pods")), bind("t", "b", "Role/r", "User/alice", "Group/readers"))


def test_a_yes_says_why(rights: Rights) -> None:
    answer = rights.send("POST", SELF_ACCESS, self_review("get", "pods", namespace="t"), user=ALICE)
    assert answer.expect(201)["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/t" of Role "r" to User "alice"',
    }


def test_a_no_is_not_a_denial(rights: Rights) -> None:
    answer = rights.send("POST", SELF_ACCESS, self_review("delete", "pods", namespace="t"), user=ALICE)
    assert answer.expect(201)["status"] == {"allowed": False}


def test_others_are_asked_about_by_name_and_groups(rights: Rights) -> None:
    for user, groups, allowed in (
        ("alice", [], True),
        ("bob", [], False),
        ("bob", ["readers"], True),
        ("", ["readers"], True),
    ):
        body = access_review(user, "get", "pods", groups=groups, namespace="t")
        assert rights.send("POST", SUBJECT_ACCESS, body).expect(201)["status"]["allowed"] is allowed
    refused = rights.send("POST", SUBJECT_ACCESS, access_review("bob", "get", "pods"), user=ALICE)
    assert refused.status == 403


def test_a_local_question_stays_in_its_namespace(rights: Rights) -> None:
    rights.add(bind("t", "admins", "ClusterRole/admin", "User/carol"))
    carol = person("carol")
    asked = access_review("alice", "get", "pods", namespace="t")
    assert rights.send("POST", LOCAL, asked, user=carol).expect(201)["status"]["allowed"] is True
    elsewhere = access_review("alice", "get", "pods", namespace="u")
    assert rights.send("POST", LOCAL, elsewhere, user=carol).status == 422
    assert rights.send("POST", LOCAL, access_review("alice", "get", "/metrics"), user=carol).status == 422
    assert rights.send("POST", SUBJECT_ACCESS, asked, user=carol).status == 403


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/"}},
    ],
)
def test_a_question_is_about_one_thing(rights: Rights, spec: dict[str, object]) -> None:
    assert rights.send("POST", SELF_ACCESS, {"spec": spec}, user=ALICE).status == 422
    assert rights.send("POST", SUBJECT_ACCESS, {"spec": {**spec, "user": "alice"}}).status == 422


def test_a_question_has_no_name(rights: Rights) -> None:
    body = {"metadata": {"name": "x"}, **self_review("get", "pods")}
    refused = rights.send("POST", SELF_ACCESS, body, user=ALICE)
    assert refused.status == 422
    assert "metadata" in refused.message
    assert "must be empty" in refused.message


def test_somebody_must_be_asked_about(rights: Rights) -> None:
    assert rights.send("POST", SUBJECT_ACCESS, self_review("get", "pods")).status == 422


def test_the_rules_are_listed(rights: Rights) -> None:
    rights.add(
        cluster_role("metrics", paths("get", "/metrics"), rule("list", "nodes", names="n")),
        bind("", "metrics", "ClusterRole/metrics", "User/alice"),
        bind("", "void", "ClusterRole/gone", "User/alice"),
    )
    status = rights.send("POST", RULES, {"spec": {"namespace": "t"}}, user=ALICE).expect(201)["status"]
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} in status["resourceRules"]
    assert rule("list", "nodes", names="n") in status["resourceRules"]
    assert {"verbs": ["get"], "nonResourceURLs": ["/metrics"]} in status["nonResourceRules"]
    assert status["incomplete"] is False
    assert status["evaluationError"] == 'clusterrole.rbac.authorization.k8s.io "gone" not found'
    elsewhere = rights.send("POST", RULES, {"spec": {"namespace": "u"}}, user=ALICE).expect(201)["status"]
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} not in elsewhere["resourceRules"]


def test_the_rules_of_an_administrator_are_everything(rights: Rights) -> None:
    status = rights.send("POST", RULES, {"spec": {"namespace": "t"}}).expect(201)["status"]
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in status["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in status["nonResourceRules"]


def test_rules_are_asked_for_in_a_namespace(rights: Rights) -> None:
    assert rights.send("POST", RULES, {"spec": {}}, user=ALICE).status == 400
