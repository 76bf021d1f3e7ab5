from __future__ import annotations

from typing import Any

import pytest

from pilothouse.apiserver.authorization.authorizer import Attributes, refusal
from pilothouse.apiserver.server.messages import User

ALICE = User("alice", groups=("system:authenticated",))


def resource(verb: str, plural: str, group: str = "", **more: Any) -> Attributes:
    return Attributes(verb, "/some/path", group, "v1", plural, **more)


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
        (Attributes.of_path("get", "/metrics"), 'forbidden: User "alice" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_reads_like_kubernetes(attributes: Attributes, message: str) -> None:
    error = refusal(ALICE, attributes)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)


def test_a_refusal_says_which_role_is_missing() -> None:
    asked = resource("get", "pods", namespace="t", name="a")
    error = refusal(ALICE, asked, 'RBAC: role.rbac.authorization.k8s.io "gone" not found')
    assert error.message.endswith(
        'in the namespace "t": RBAC: role.rbac.authorization.k8s.io "gone" not found'
    )
