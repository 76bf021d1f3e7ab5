from __future__ import annotations

import pytest

from pilothouse.apiserver.authorization import Attributes, ClosedByDefault, refusal
from pilothouse.apiserver.exchange import ANONYMOUS, User

MASTER = User("admin", groups=("system:masters", "system:authenticated"))
ALICE = User("alice", groups=("system:authenticated",))


def allowed(user: User, attributes: Attributes) -> bool:
    return ClosedByDefault().decide(user, attributes).allowed


def resource(verb: str, plural: str, group: str = "", **more: str) -> Attributes:
    return Attributes(verb, "/some/path", group, "v1", plural, **more)


def test_masters_may_do_anything():
    assert allowed(MASTER, resource("delete", "namespaces"))
    assert allowed(MASTER, Attributes("post", "/debug"))


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/store", "/version", "/version/"])
def test_everyone_may_see_health_and_version(path):
    assert allowed(ANONYMOUS, Attributes("get", path))
    assert allowed(ALICE, Attributes("get", path))
    assert not allowed(ANONYMOUS, Attributes("post", path))


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3", "/openapi/v2"]
)
def test_discovery_needs_a_name(path):
    assert allowed(ALICE, Attributes("get", path))
    assert not allowed(ANONYMOUS, Attributes("get", path))


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthzz", "/apisx", "/versions"])
def test_other_paths_are_closed(path):
    assert not allowed(ALICE, Attributes("get", path))


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ],
)
def test_one_may_ask_about_oneself(group, name):
    assert allowed(ALICE, resource("create", name, group))
    assert not allowed(ANONYMOUS, resource("create", name, group))


def test_one_may_not_ask_about_others():
    assert not allowed(ALICE, resource("create", "subjectaccessreviews", "authorization.k8s.io"))
    assert not allowed(ALICE, resource("create", "tokenreviews", "authentication.k8s.io"))


def test_objects_are_closed():
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"):
        assert not allowed(ALICE, resource(verb, "pods", namespace="t"))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            resource("list", "databases", "nav.example.io", namespace="t"),
            'databases.nav.example.io is forbidden: User "alice" cannot list resource "databases" '
            'in API group "nav.example.io" in the namespace "t"',
        ),
        (
            resource("get", "nodes", name="n"),
            'nodes "n" is forbidden: User "alice" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        (
            resource("update", "databases", "nav.example.io", namespace="t", name="a", subresource="status"),
            'databases.nav.example.io "a" is forbidden: User "alice" cannot update resource "databases/status" '
            'in API group "nav.example.io" in the namespace "t"',
        ),
        (Attributes("get", "/metrics"), 'forbidden: User "alice" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_reads_like_kubernetes(attributes, message):
    error = refusal(ALICE, attributes)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)
