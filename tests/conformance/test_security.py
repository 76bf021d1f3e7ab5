"""Cases 65–68: who gets in, what roles allow, questions about rights, acting as somebody else."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from tests.kit.databases import Databases, database
from tests.kit.http import Answer, Http, Json
from tests.kit.kubectl import Kubectl
from tests.kit.rbac_objects import (
    SELF_ACCESS,
    SUBJECT_ACCESS,
    access_review,
    bind,
    place,
    role,
    rule,
    self_review,
)
from tests.kit.servers import Target
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

NAV = "nav.example.io"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHO_AM_I = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
SELF_REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}


def bearer(target: Target, token: str | None) -> Target:
    """The target as whoever has a token sees it, or as nobody."""
    access = dataclasses.replace(target.access, cert=None, key=None, token=token)
    return dataclasses.replace(target, access=access)


@pytest.fixture
async def alice(target: Target) -> AsyncIterator[Http]:
    async with Http.to(bearer(target, "alice-token")) as client:
        yield client


@contextlib.asynccontextmanager
async def granted(http: Http, *objects: Json) -> AsyncIterator[None]:
    """Roles and bindings, gone again after the block."""
    for obj in objects:
        (await http.post(place(obj), obj)).expect(201)
    try:
        yield
    finally:
        for obj in objects:
            await http.delete(f"{place(obj)}/{obj['metadata']['name']}")


async def counts(http: Http, user: str, verb: str, what: str, **more: Any) -> None:
    """Wait until a right that was granted counts."""

    async def is_allowed() -> bool:
        body = {**REVIEW, **access_review(user, verb, what, **more)}
        answer = (await http.post(SUBJECT_ACCESS, body)).expect(201)
        return bool(answer["status"]["allowed"])

    await eventually(is_allowed)


async def test_case_65_a_bad_token_is_nobody(target: Target, kinds: None) -> None:
    async with Http.to(bearer(target, "wrong")) as client:
        answer = await client.get("/api/v1/namespaces")
    assert (answer.status, answer.reason, answer.message) == (401, "Unauthorized", "Unauthorized")


async def test_case_65_without_a_token_one_is_anonymous(target: Target, kinds: None) -> None:
    async with Http.to(bearer(target, None)) as client:
        answer = await client.get("/api/v1/namespaces")
        public = await client.get("/version")
        discovery = await client.get("/apis")
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" '
        'in API group "" at the cluster scope'
    )
    assert public.status == 200
    assert discovery.message == 'forbidden: User "system:anonymous" cannot get path "/apis"'


async def test_case_65_without_a_role_one_is_told_what_one_may_not(dbs: Databases, alice: Http) -> None:
    listed = await alice.get(dbs.path())
    assert (listed.status, listed.reason) == (403, "Forbidden")
    assert listed.message == (
        'databases.nav.example.io is forbidden: User "alice" cannot list resource "databases" '
        f'in API group "nav.example.io" in the namespace "{dbs.namespace}"'
    )
    assert listed.json["details"] == {"group": NAV, "kind": "databases"}
    everywhere = await alice.get(f"/apis/{NAV}/v1/databases")
    assert everywhere.message == (
        'databases.nav.example.io is forbidden: User "alice" cannot list resource "databases" '
        'in API group "nav.example.io" at the cluster scope'
    )
    status = await alice.put(dbs.at("a", "status"), database("a"))
    assert status.message == (
        'databases.nav.example.io "a" is forbidden: User "alice" cannot update resource "databases/status" '
        f'in API group "nav.example.io" in the namespace "{dbs.namespace}"'
    )


@pytest.mark.usefixtures("dbs")
async def test_case_65_whoever_is_known_discovers(alice: Http) -> None:
    for path in ("/api", "/apis", f"/apis/{NAV}/v1", "/openapi/v3", "/version", "/healthz"):
        assert (await alice.get(path)).status == 200, path
    assert (await alice.get("/metrics")).status == 403


async def test_case_66_a_role_allows_what_it_says(dbs: Databases, http: Http, alice: Http) -> None:
    ns = dbs.namespace
    await dbs.create("p0")
    await dbs.create("p1")
    reads = role(
        ns,
        "reads",
        rule("get list watch patch", "databases", NAV),
        rule("update", "databases/status", NAV, names="p0"),
    )
    async with granted(http, reads, bind(ns, "reads", "Role/reads", "User/alice")):
        await counts(http, "alice", "list", "databases", group=NAV, namespace=ns)

        assert (await alice.get(dbs.path())).status == 200
        created = await alice.apply(dbs.at("new"), database("new"), "alice")
        assert (created.status, created.reason) == (403, "Forbidden")
        assert 'cannot create resource "databases"' in created.message
        assert (await alice.delete(dbs.at("p0"))).status == 403
        statuses = []
        for name in ("p0", "p1"):
            body = {**(await dbs.read(name)), "status": {"phase": "Running"}}
            statuses.append((await alice.put(dbs.at(name, "status"), body)).status)
        assert statuses == [200, 403]


async def test_case_66_nobody_hands_on_what_they_lack(dbs: Databases, http: Http, alice: Http) -> None:
    ns = dbs.namespace
    writes = role(
        ns,
        "writes-roles",
        rule("create update get patch", "roles rolebindings", "rbac.authorization.k8s.io"),
        rule("get", "databases", NAV),
    )
    async with granted(http, writes, bind(ns, "writes", "Role/writes-roles", "User/alice")):
        await counts(http, "alice", "get", "databases", group=NAV, namespace=ns)

        fine = role(ns, "fine", rule("get", "databases", NAV))
        assert (await alice.post(place(fine), fine)).status == 201
        more = role(ns, "more", rule("get delete list", "databases", NAV))
        refused = await alice.post(place(more), more)
        assert (refused.status, refused.reason) == (403, "Forbidden")
        assert refused.message == (
            'roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" '
            '(groups=["dev" "ops" "system:authenticated"]) is attempting to grant RBAC permissions '
            "not currently held:\n"
            '{APIGroups:["nav.example.io"], Resources:["databases"], Verbs:["delete" "list"]}'
        )
        bound = bind(ns, "up", "ClusterRole/cluster-admin", "User/alice")
        refused = await alice.post(place(bound), bound)
        assert refused.status == 403
        assert '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}' in refused.message
        assert '{NonResourceURLs:["*"], Verbs:["*"]}' in refused.message
        early = bind(ns, "early", "Role/later", "User/alice")
        answer = await alice.post(place(early), early)
        assert (answer.status, answer.reason) == (404, "NotFound")
        assert answer.message.endswith('.rbac.authorization.k8s.io "later" not found')


@pytest.mark.kubectl
async def test_case_67_kubectl_tells_who_one_is_and_what_one_may(dbs: Databases, kubectl: Kubectl) -> None:
    who = (await kubectl("auth", "whoami")).ok()
    assert "Username" in who
    assert "system:masters" in who
    assert "system:authenticated" in who
    asked = ("auth", "can-i", "create", "db", "-n", dbs.namespace)
    yes = await kubectl(*asked)
    assert (yes.code, yes.out) == (0, "yes\n")
    no = await kubectl(*asked, "--as=alice")
    assert (no.code, no.out) == (1, "no\n")
    rules = (await kubectl("auth", "can-i", "--list", "--as=alice", "-n", dbs.namespace)).ok()
    assert "selfsubjectaccessreviews.authorization.k8s.io" in rules
    assert "[/openapi/*]" in rules


@pytest.mark.kubectl
async def test_case_67_kubectl_makes_and_reconciles_roles(
    dbs: Databases, http: Http, kubectl: Kubectl, tmp_path: Path
) -> None:
    here = ("-n", dbs.namespace)
    (
        await kubectl(
            "create", "role", "reads", "--verb=get,list", "--resource=databases.nav.example.io", *here
        )
    ).ok()
    (await kubectl("create", "rolebinding", "reads", "--role=reads", "--user=alice", *here)).ok()
    await counts(http, "alice", "list", "databases", group=NAV, namespace=dbs.namespace)
    assert (await kubectl("auth", "can-i", "list", "db", "--as=alice", *here)).out == "yes\n"
    assert (
        await kubectl("auth", "can-i", "list", "db", "--subresource=status", "--as=alice", *here)
    ).code == 1
    more = tmp_path / "role.json"
    more.write_text(json.dumps(role(dbs.namespace, "reads", rule("delete", "databases", NAV))))
    (await kubectl("auth", "reconcile", "-f", str(more), *here)).ok()
    await counts(http, "alice", "delete", "databases", group=NAV, namespace=dbs.namespace)
    await counts(http, "alice", "list", "databases", group=NAV, namespace=dbs.namespace)


async def test_case_67_a_user_is_told_who_they_are(alice: Http) -> None:
    answer = (await alice.post(WHO, WHO_AM_I)).expect(201)
    info = answer["status"]["userInfo"]
    assert (info["username"], info["uid"]) == ("alice", "u-alice")
    assert info["groups"] == ["dev", "ops", "system:authenticated"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/"}},
    ],
)
async def test_case_67_a_question_is_about_one_thing(http: Http, spec: dict[str, Any]) -> None:
    answer = await http.post(SELF_ACCESS, {**SELF_REVIEW, "spec": spec})
    assert (answer.status, answer.reason) == (422, "Invalid")


async def test_case_67_an_answer_says_why(dbs: Databases, http: Http, alice: Http) -> None:
    ns = dbs.namespace
    asked = {**SELF_REVIEW, **self_review("get", "databases", group=NAV, namespace=ns)}
    before = (await alice.post(SELF_ACCESS, asked)).expect(201)
    assert before["status"] == {"allowed": False}
    async with granted(
        http, role(ns, "r", rule("get", "databases", NAV)), bind(ns, "b", "Role/r", "Group/dev")
    ):
        await counts(http, "x", "get", "databases", groups=["dev"], group=NAV, namespace=ns)
        after = (await alice.post(SELF_ACCESS, asked)).expect(201)
    assert after["status"] == {
        "allowed": True,
        "reason": f'RBAC: allowed by RoleBinding "b/{ns}" of Role "r" to Group "dev"',
    }


async def acting(http: Http, *headers: tuple[str, str]) -> Answer:
    return await http.send("POST", WHO, WHO_AM_I, headers=CIMultiDict(headers))


async def test_case_68_an_administrator_acts_as_a_service_account(http: Http) -> None:
    answer = await acting(http, ("Impersonate-User", "system:serviceaccount:t:robot"))
    info = answer.expect(201)["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:t:robot"
    assert info["groups"] == ["system:serviceaccounts", "system:serviceaccounts:t", "system:authenticated"]


async def test_case_68_an_administrator_acts_as_anyone(http: Http) -> None:
    answer = await acting(
        http,
        ("Impersonate-User", "carol"),
        ("Impersonate-Group", "one"),
        ("Impersonate-Group", "two"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Extra-Acme.com%2Fscopes", "read"),
    )
    assert answer.expect(201)["status"]["userInfo"] == {
        "username": "carol",
        "uid": "42",
        "groups": ["one", "two", "system:authenticated"],
        "extra": {"acme.com/scopes": ["read"]},
    }


async def test_case_68_without_the_right_one_is_oneself(alice: Http) -> None:
    answer = await acting(alice, ("Impersonate-User", "system:serviceaccount:t:robot"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'serviceaccounts "robot" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" '
        'in API group "" in the namespace "t"'
    )
    user = await acting(alice, ("Impersonate-User", "bob"))
    assert user.message == (
        'users "bob" is forbidden: User "alice" cannot impersonate resource "users" '
        'in API group "" at the cluster scope'
    )


async def test_case_68_a_group_needs_a_user(http: Http, target: Target) -> None:
    answer = await acting(http, ("Impersonate-Group", "dev"))
    # Kubernetes takes a client's mistake for its own; see docs/authorization.md.
    assert answer.status == (500 if target.name == "kube" else 400)
