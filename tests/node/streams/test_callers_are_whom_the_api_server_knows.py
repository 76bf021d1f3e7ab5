from __future__ import annotations

from random import Random

import pytest
from tests.kit.loopback import loopback

from pilothouse.api.kind_names import ClusterRole, ClusterRoleBinding
from pilothouse.api.kubernetes.kubelet_paths import subresource_of
from pilothouse.api.objects import Tree
from pilothouse.base.clock import ManualClock
from pilothouse.client.api import Api
from pilothouse.node.server.caller_authorization import (
    ALLOWED_SECONDS,
    REFUSED_SECONDS,
    Caller,
    CallerAuthorizer,
    named_in,
)

VERA = Caller("vera", groups=("system:authenticated",))
BINDING: Tree = {
    "metadata": {"name": "vera-calls"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:kubelet-api-admin",
    },
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "vera"}],
}


def test_a_certificate_names_a_user_and_groups() -> None:
    subject = ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "eve"),))
    caller = named_in({"subject": subject})
    assert caller is not None
    assert (caller.name, caller.groups) == ("eve", ("a", "b", "system:authenticated"))
    assert named_in({"subject": ((("organizationName", "system:masters"),),)}) is None


@pytest.mark.parametrize(
    ("path", "subresource"),
    [
        ("/metrics", "metrics"),
        ("/metrics/resource", "metrics"),
        ("/metricsx", "proxy"),
        ("/stats/summary", "stats"),
        ("/logs/", "log"),
        ("/containerLogs/a/b/c", "proxy"),
        ("/exec/a/b/c", "proxy"),
        ("/", "proxy"),
    ],
)
def test_paths_belong_to_what_a_kubelet_says(path: str, subresource: str) -> None:
    assert subresource_of(path) == subresource


async def test_an_answer_is_good_for_a_while() -> None:
    clock = ManualClock(now=1_700_000_000)
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        callers = CallerAuthorizer(api, "n1", clock)
        assert await callers.why_not(VERA, "GET", "/pods") == "vera may not get nodes/proxy of n1"
        await api.create(ClusterRoleBinding, BINDING)
        assert await callers.why_not(VERA, "GET", "/pods") != ""
        clock.advance(REFUSED_SECONDS)
        assert await callers.why_not(VERA, "GET", "/pods") == ""
        await api.delete(ClusterRoleBinding, "vera-calls")
        assert await callers.why_not(VERA, "GET", "/pods") == ""
        clock.advance(ALLOWED_SECONDS)
        assert await callers.why_not(VERA, "GET", "/pods") != ""


async def test_one_right_is_not_another() -> None:
    async with loopback() as transport:
        api = Api(transport, Random(1), manager="test")
        role = {
            "metadata": {"name": "figures"},
            "rules": [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}],
        }
        await api.create(ClusterRole, role)
        await api.create(
            ClusterRoleBinding, {**BINDING, "roleRef": {**BINDING["roleRef"], "name": "figures"}}
        )
        callers = CallerAuthorizer(api, "n1", ManualClock(now=1_700_000_000))
        assert await callers.why_not(VERA, "GET", "/metrics") == ""
        assert await callers.why_not(VERA, "POST", "/metrics") != ""
        assert await callers.why_not(VERA, "GET", "/containerLogs/a/b/c") != ""


async def test_whom_nobody_knows_is_nobody() -> None:
    async with loopback() as transport:
        callers = CallerAuthorizer(
            Api(transport, Random(1), manager="test"), "n1", ManualClock(now=1_700_000_000)
        )
        assert await callers.identify(None, "") is None
        assert await callers.identify(None, "Basic eDp5") is None
        assert await callers.identify(None, "Bearer made-up") is None
