from __future__ import annotations

import asyncio
import datetime
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.kit.core import ADMIN

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authorization.rbac import default_roles
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.base.clock import SystemClock
from pilothouse.base.uids import Uids
from pilothouse.meta.kind import Object
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.store.memory import MemoryStore

API = "/apis/rbac.authorization.k8s.io/v1"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
Ask = Callable[..., Awaitable[Any]]


async def during(store: MemoryStore, work: Callable[[Ask], Awaitable[None]]) -> None:
    """Run a server on the store for as long as the work takes."""
    core = RequestHandler(
        store,
        resources(),
        authenticator=Authenticator(),
        clock=SystemClock(),
        random=random.Random(1),
        uids=Uids(),
        refusals=refused_fields,
        signing_key=SigningKey.generate(),
        authority=lambda: Authority.make("unused", datetime.datetime.now(datetime.UTC)),
    )

    async def ask(method: str, path: str, body: object = None) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = json.dumps(body).encode() if body is not None else b""
        request = Request(method, API + path, body=data, user=ADMIN, headers={"Content-Type": kind})
        answer = await core.answer(request)
        assert isinstance(answer, Response)
        assert answer.status < 300, answer.body
        return json.loads(bytes(answer.body))

    async with core.running():
        await work(ask)


async def test_a_second_start_changes_nothing() -> None:
    store = MemoryStore()

    async def nothing(ask: Ask) -> None:
        assert (await ask("GET", "/clusterroles/admin"))["rules"]

    await during(store, nothing)
    before = store.current
    await during(store, nothing)
    assert store.current == before


async def test_what_is_missing_comes_back_and_what_was_added_stays() -> None:
    store = MemoryStore()
    added = {"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]}

    async def spoil(ask: Ask) -> None:
        await ask("DELETE", "/clusterroles/system:basic-user")
        await ask("DELETE", "/clusterrolebindings/system:discovery")
        await ask(
            "PATCH", "/clusterroles/system:auth-delegator", {"rules": [added], "metadata": {"labels": None}}
        )
        await ask(
            "PATCH", "/clusterrolebindings/system:monitoring", {"subjects": [{"kind": "User", "name": "me"}]}
        )
        await ask("PATCH", "/clusterroles/view", {"aggregationRule": None, "rules": []})

    async def check(ask: Ask) -> None:
        assert len((await ask("GET", "/clusterroles/system:basic-user"))["rules"]) == 2
        await ask("GET", "/clusterrolebindings/system:discovery")
        delegator = await ask("GET", "/clusterroles/system:auth-delegator")
        assert delegator["rules"][0] == added
        granted = {resource for rule in delegator["rules"][1:] for resource in rule["resources"]}
        assert granted == {"tokenreviews", "subjectaccessreviews"}
        assert delegator["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
        monitoring = await ask("GET", "/clusterrolebindings/system:monitoring")
        assert [each["name"] for each in monitoring["subjects"]] == ["me", "system:monitoring"]
        assert (await ask("GET", "/clusterroles/view"))["rules"]

    await during(store, spoil)
    await during(store, check)


async def test_what_is_marked_as_ones_own_is_left_alone() -> None:
    store = MemoryStore()
    own = {"metadata": {"annotations": {AUTOUPDATE: "false"}}}

    async def spoil(ask: Ask) -> None:
        await ask("PATCH", "/clusterroles/system:discovery", {**own, "rules": []})
        await ask("PATCH", "/clusterrolebindings/system:discovery", {**own, "subjects": []})

    async def check(ask: Ask) -> None:
        assert not (await ask("GET", "/clusterroles/system:discovery")).get("rules")
        assert not (await ask("GET", "/clusterrolebindings/system:discovery")).get("subjects")

    await during(store, spoil)
    await during(store, check)


async def test_a_binding_to_another_role_is_made_anew() -> None:
    store = MemoryStore()
    other = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}

    async def spoil(ask: Ask) -> None:
        await ask("DELETE", "/clusterrolebindings/cluster-admin")
        body = {"metadata": {"name": "cluster-admin"}, "roleRef": other, "subjects": []}
        await ask("POST", "/clusterrolebindings", body)

    async def check(ask: Ask) -> None:
        assert (await ask("GET", "/clusterrolebindings/cluster-admin"))["roleRef"]["name"] == "cluster-admin"

    await during(store, spoil)
    await during(store, check)


async def test_servers_that_start_at_once_make_one_set() -> None:
    store = MemoryStore()
    names: list[list[str]] = []

    async def look(ask: Ask) -> None:
        listed = await ask("GET", "/clusterroles")
        names.append([each["metadata"]["name"] for each in listed["items"]])

    await asyncio.gather(*(during(store, look) for _ in range(3)))
    assert names[0] == sorted(each["metadata"]["name"] for each in default_roles.cluster_roles())
    assert names[0] == names[1] == names[2]


def rules(declared: list[Object]) -> list[tuple[str, dict[str, list[str]]]]:
    return [(each["metadata"]["name"], rule) for each in declared for rule in each.get("rules", ())]


# What Kubernetes' own roles name beside what is served: rights that are not resources, or not yet.
UNSERVED = {
    ("", "bindings"),
    ("", "endpoints/restricted"),
    # What a node's own server asks after when somebody calls it.
    *(("", f"nodes/{each}") for each in ("configz", "healthz", "log", "metrics", "pods", "stats")),
    ("", "pods/finalizers"),
    ("", "services/finalizers"),
    ("apps", "statefulsets/finalizers"),
    ("certificates.k8s.io", "certificatesigningrequests/nodeclient"),
    ("certificates.k8s.io", "certificatesigningrequests/selfnodeclient"),
    ("certificates.k8s.io", "signers"),
}


def test_roles_name_only_what_is_served() -> None:
    served = {("*", "*"), ("*", "*/scale"), *UNSERVED}
    for resource in KindCatalog(resources()):
        kind = resource.kinds[0]
        names = [kind.plural, *(f"{kind.plural}/{each.name}" for each in kind.subresources)]
        names += [f"{kind.plural}/status"] if kind.status else []
        names += [f"{kind.plural}/scale"] if kind.scale else []
        served |= {(kind.group, name) for name in names}
    declared = [*default_roles.cluster_roles(), *default_roles.roles()]
    named = {
        (group, resource)
        for _, rule in rules(declared)
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
    }
    assert named <= served
    assert named >= UNSERVED


@pytest.mark.parametrize(
    "listed",
    [
        default_roles.cluster_roles,
        default_roles.cluster_bindings,
        default_roles.roles,
        default_roles.bindings,
    ],
)
def test_each_is_declared_once(listed: Callable[[], list[Object]]) -> None:
    names = [each["metadata"]["name"] for each in listed()]
    assert len(names) == len(set(names))


def test_bindings_bind_roles_that_exist() -> None:
    cluster = {each["metadata"]["name"] for each in default_roles.cluster_roles()}
    local = {each["metadata"]["name"] for each in default_roles.roles()}
    assert {each["roleRef"]["name"] for each in default_roles.cluster_bindings()} <= cluster
    assert {each["roleRef"]["name"] for each in default_roles.bindings()} <= local
