from __future__ import annotations

import pytest
from tests.apiserver.authorization.conftest import Rights, person
from tests.kit.rbac_objects import API, GROUP, bind, cluster_role, paths, role, rule

from pilothouse.apiserver.server.messages import ANONYMOUS, User

ALICE = person("alice", "dev")
PODS = "/api/v1/namespaces/t/pods"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_without_a_role_nothing_but_discovery_and_questions_about_oneself(rights: Rights) -> None:
    for path in ("/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/version"):
        assert rights.send("GET", path, user=ALICE).status == 200, path
    for path in ("/", "/metrics", "/apisx", "/versions"):
        assert rights.send("GET", path, user=ALICE).status == 403, path
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"):
        assert not rights.may(ALICE, verb, "pods", namespace="t")
    assert rights.may(ALICE, "create", "selfsubjectaccessreviews", group="authorization.k8s.io")
    assert not rights.may(ALICE, "create", "subjectaccessreviews", group="authorization.k8s.io")
    assert not rights.may(ALICE, "create", "tokenreviews", group="authentication.k8s.io")


def test_a_stranger_sees_the_version_and_no_more(rights: Rights) -> None:
    assert rights.send("GET", "/version", user=ANONYMOUS).status == 200
    for path in ("/", "/api", "/apis", "/openapi/v3", "/metrics", PODS):
        refused = rights.send("GET", path, user=ANONYMOUS)
        assert refused.status == 403, path
        assert 'User "system:anonymous" cannot' in refused.message
    asked = rights.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user=ANONYMOUS)
    assert asked.status == 403


def test_a_role_counts_in_its_namespace_alone(rights: Rights) -> None:
    rights.namespace("u")
    rights.add(role("t", "r", rule("list", "pods")), bind("t", "b", "Role/r", "User/alice"))
    assert rights.send("GET", PODS, user=ALICE).status == 200
    assert rights.send("GET", "/api/v1/namespaces/u/pods", user=ALICE).status == 403
    assert rights.send("GET", "/api/v1/pods", user=ALICE).status == 403
    assert rights.send("GET", PODS, query="watch=1", user=ALICE).status == 403


def test_a_cluster_role_may_be_bound_in_a_namespace(rights: Rights) -> None:
    rights.add(cluster_role("r", rule("list", "pods")), bind("t", "b", "ClusterRole/r", "Group/dev"))
    assert rights.send("GET", PODS, user=ALICE).status == 200
    assert rights.send("GET", "/api/v1/pods", user=ALICE).status == 403
    assert rights.send("GET", PODS, user=person("bob")).status == 403


def test_a_cluster_binding_counts_everywhere(rights: Rights) -> None:
    rights.add(cluster_role("r", rule("list", "pods")), bind("", "b", "ClusterRole/r", "Group/dev"))
    for path in (PODS, "/api/v1/pods", "/api/v1/namespaces/default/pods"):
        assert rights.send("GET", path, user=ALICE).status == 200


def test_a_service_account_is_a_subject_by_namespace_and_name(rights: Rights) -> None:
    rights.add(
        role("t", "r", rule("list", "pods")),
        bind("t", "b", "Role/r", "ServiceAccount/home/robot"),
        bind("t", "all", "Role/r", "Group/system:serviceaccounts:trusted"),
    )
    accounts = {"home:robot": True, "t:robot": False, "home:other": False}
    for account, allowed in accounts.items():
        user = person(f"system:serviceaccount:{account}")
        assert (rights.send("GET", PODS, user=user).status == 200) is allowed
    trusted = person("system:serviceaccount:trusted:any", "system:serviceaccounts:trusted")
    assert rights.send("GET", PODS, user=trusted).status == 200


def test_a_resource_does_not_bring_its_subresources(rights: Rights) -> None:
    rights.add(
        role("t", "r", rule("get", "pods */scale"), rule("update", "*", "apps")),
        bind("t", "b", "Role/r", "User/alice"),
    )
    assert rights.may(ALICE, "get", "pods", namespace="t")
    assert not rights.may(ALICE, "get", "pods/status", namespace="t")
    assert rights.may(ALICE, "get", "anything/scale", namespace="t")
    assert not rights.may(ALICE, "get", "anything", namespace="t")
    assert rights.may(ALICE, "update", "statefulsets/status", group="apps", namespace="t")
    assert not rights.may(ALICE, "update", "statefulsets", group="batch", namespace="t")


def test_names_limit_a_rule_to_those_objects(rights: Rights) -> None:
    rights.add(
        role("t", "r", rule("get list watch create deletecollection", "configmaps", names="a")),
        bind("t", "b", "Role/r", "User/alice"),
    )
    maps = "/api/v1/namespaces/t/configmaps"
    for name in ("a", "b"):
        rights.send("POST", maps, {"metadata": {"name": name}}).expect(201)
    assert rights.send("GET", f"{maps}/a", user=ALICE).status == 200
    assert rights.send("GET", f"{maps}/b", user=ALICE).status == 403
    assert rights.send("GET", maps, user=ALICE).status == 403
    assert rights.send("GET", maps, query="fieldSelector=metadata.name%3Da", user=ALICE).status == 200
    assert rights.send("GET", maps, query="fieldSelector=metadata.name%3Db", user=ALICE).status == 403
    assert rights.send("GET", maps, query="fieldSelector=metadata.name!%3Da", user=ALICE).status == 403
    assert rights.send("POST", maps, {"metadata": {"name": "a"}}, user=ALICE).status == 403
    assert rights.send("DELETE", maps, query="fieldSelector=metadata.name%3Da", user=ALICE).status == 200
    assert rights.send("GET", f"{maps}/b").status == 200


def test_a_name_hidden_in_another_fields_value_does_not_count(rights: Rights) -> None:
    rights.add(
        role("t", "r", rule("list", "pods", names="a")),
        bind("t", "b", "Role/r", "User/alice"),
    )
    hidden = "fieldSelector=spec.nodeName%3Dn%5C%2Cmetadata.name%3Da"
    assert rights.send("GET", PODS, query=hidden, user=ALICE).status == 403


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/slis", False),
        ("/metrics/*", "/metrics/slis", True),
        ("/metrics/*", "/metrics", False),
        ("/met*", "/metrics", True),
        ("*", "/debug", True),
    ],
)
def test_paths_are_exact_or_begin_so(rights: Rights, url: str, path: str, allowed: bool) -> None:
    rights.add(cluster_role("r", paths("get", url)), bind("", "b", "ClusterRole/r", "User/alice"))
    assert rights.may(ALICE, "get", path) is allowed
    assert not rights.may(ALICE, "post", path)


def test_paths_count_through_cluster_bindings_only(rights: Rights) -> None:
    rights.add(cluster_role("r", paths("get", "/metrics")), bind("t", "b", "ClusterRole/r", "User/alice"))
    assert not rights.may(ALICE, "get", "/metrics")


def test_an_apply_or_update_that_creates_needs_the_right_to_create(rights: Rights) -> None:
    rights.add(
        role(
            "t",
            "r",
            rule("get update patch", "configmaps"),
            rule("get update patch", "roles", GROUP),
        ),
        bind("t", "b", "Role/r", "User/alice"),
    )
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    refused = rights.send(
        "PATCH",
        "/api/v1/namespaces/t/configmaps/a",
        applied,
        type="application/apply-patch+yaml",
        query="fieldManager=m",
        user=ALICE,
    )
    assert refused.status == 403
    assert 'cannot create resource "configmaps"' in refused.message
    put = rights.send("PUT", f"{API}/namespaces/t/roles/new", role("t", "new"), user=ALICE)
    assert put.status == 403
    assert 'cannot create resource "roles"' in put.message


def test_masters_need_no_role(rights: Rights) -> None:
    rights.remove(bind("", "cluster-admin", "ClusterRole/cluster-admin"))
    master = User("root", groups=("system:masters",))
    assert rights.send("POST", PODS, POD, user=master).status == 201
    assert rights.may(master, "sing", "/anything")


def test_a_right_that_was_taken_away_is_gone_with_the_answer(rights: Rights) -> None:
    granted = bind("t", "b", "Role/r", "User/alice")
    rights.add(role("t", "r", rule("list", "pods")))
    for _ in range(10):
        rights.add(granted)
        assert rights.send("GET", PODS, user=ALICE).status == 200
        rights.remove(granted)
        assert rights.send("GET", PODS, user=ALICE).status == 403


def test_who_may_view_a_namespace_may_ask_there_and_answer_nothing(rights: Rights) -> None:
    rights.namespace("u")
    rights.add(bind("t", "b", "ClusterRole/view", "User/alice"))
    for verb in ("create", "get", "delete"):
        assert rights.may(ALICE, verb, "questions", group="pilothouse.io", namespace="t")
        assert not rights.may(ALICE, verb, "questions", group="pilothouse.io", namespace="u")
    for verb in ("update", "patch"):
        assert not rights.may(
            ALICE, verb, "questions", group="pilothouse.io", namespace="t", subresource="status"
        )
