"""Service accounts' tokens: for whom, bound to what, and what a review says of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.kit.http import Answer, Http, Json
from tests.kit.kubectl import Kubectl
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

AUTHENTICATION = "authentication.k8s.io/v1"
EXTRA = "authentication.kubernetes.io/"


@pytest.fixture
async def robot(http: Http, ns: str) -> str:
    """The path of a service account."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    (await http.post(f"/api/v1/namespaces/{ns}/serviceaccounts", account)).expect(201)
    return f"/api/v1/namespaces/{ns}/serviceaccounts/robot"


async def request(http: Http, account: str, metadata: Json | None = None, **spec: Any) -> Answer:
    body = {"apiVersion": AUTHENTICATION, "kind": "TokenRequest", "spec": spec, "metadata": metadata or {}}
    return await http.post(f"{account}/token", body)


async def mint(http: Http, account: str, **spec: Any) -> str:
    return str((await request(http, account, **spec)).expect(201)["status"]["token"])


async def review(http: Http, token: str, *audiences: str) -> Json:
    body = {
        "apiVersion": AUTHENTICATION,
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    }
    answer = (await http.post(f"/apis/{AUTHENTICATION}/tokenreviews", body)).expect(201)
    found: Json = answer["status"]
    return found


async def whoami(http: Http, token: str) -> Json:
    access = dataclasses.replace(http.target.access, cert=None, key=None, token=token)
    body = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    async with Http.to(dataclasses.replace(http.target, access=access)) as bearer:
        answer = (await bearer.post(f"/apis/{AUTHENTICATION}/selfsubjectreviews", body)).expect(201)
    found: Json = answer["status"]["userInfo"]
    return found


async def make_pod(http: Http, ns: str, **spec: Any) -> Json:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}], **spec},
    }
    return (await http.post(f"/api/v1/namespaces/{ns}/pods", pod)).expect(201)


async def test_a_review_is_for_the_audiences_asked_about(http: Http, robot: str) -> None:
    token = await mint(http, robot, audiences=["vault", "db"])
    good = await review(http, token, "other", "db")
    assert (good["authenticated"], good["audiences"]) == (True, ["db"])
    for bad in (await review(http, token), await review(http, token, "other")):
        assert "authenticated" not in bad
        assert bad["error"].startswith(
            '[invalid bearer token, token audiences ["vault" "db"] is invalid for the target audiences ["'
        )


async def test_a_static_token_is_for_the_server_alone(http: Http) -> None:
    assert (await review(http, "alice-token"))["user"]["username"] == "alice"
    assert await review(http, "alice-token", "vault") == {"user": {}, "error": "invalid bearer token"}


async def test_a_token_tells_its_pod_and_node(http: Http, robot: str, ns: str) -> None:
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{ns}"}}
    node = (await http.post("/api/v1/nodes", node)).expect(201)
    pod = await make_pod(http, ns, nodeName=f"node-{ns}")
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
    user = await whoami(http, await mint(http, robot, boundObjectRef=bound))
    number = user["extra"].pop(f"{EXTRA}credential-id")
    assert number[0].startswith("JTI=")
    assert user["extra"] == {
        f"{EXTRA}pod-name": ["p"],
        f"{EXTRA}pod-uid": [pod["metadata"]["uid"]],
        f"{EXTRA}node-name": [f"node-{ns}"],
        f"{EXTRA}node-uid": [node["metadata"]["uid"]],
    }
    (await http.delete(f"/api/v1/nodes/node-{ns}")).expect(200)


async def test_a_token_ends_with_its_pod(http: Http, robot: str, ns: str) -> None:
    await make_pod(http, ns)
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    token = await mint(http, robot, boundObjectRef=bound)
    assert (await review(http, token))["authenticated"]
    (await http.delete(f"/api/v1/namespaces/{ns}/pods/p", gracePeriodSeconds=0)).expect(200)

    async def refused() -> bool:
        return "authenticated" not in await review(http, token)

    await eventually(refused)  # Kubernetes remembers a good token for ten seconds


async def test_a_token_can_be_bound_to_a_node(http: Http, robot: str, ns: str) -> None:
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{ns}"}}
    node = (await http.post("/api/v1/nodes", node)).expect(201)
    bound = {"apiVersion": "v1", "kind": "Node", "name": f"node-{ns}"}
    user = await whoami(http, await mint(http, robot, boundObjectRef=bound))
    assert user["extra"][f"{EXTRA}node-uid"] == [node["metadata"]["uid"]]
    assert f"{EXTRA}pod-name" not in user["extra"]
    (await http.delete(f"/api/v1/nodes/node-{ns}")).expect(200)


async def test_what_a_token_can_not_be_bound_to(http: Http, robot: str, ns: str) -> None:
    await make_pod(http, ns)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    (await http.post(f"/api/v1/namespaces/{ns}/secrets", secret)).expect(201)
    answers = [
        await request(
            http, robot, boundObjectRef={"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}
        )
        for kind, name, uid in (
            ("Pod", "absent", ""),
            ("Pod", "p", "00000000-0000-0000-0000-000000000000"),
            ("Secret", "s", "00000000-0000-0000-0000-000000000000"),
            ("ConfigMap", "c", ""),
        )
    ]
    assert [answer.status for answer in answers] == [404, 409, 409, 400]
    assert "does not match the UID in record" in answers[1].message
    assert "cannot bind token to object of type" in answers[3].message
    other = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other"}}
    accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
    (await http.post(accounts, other)).expect(201)
    mine = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    answer = await request(http, f"{accounts}/other", boundObjectRef=mine)
    assert answer.status == 400
    assert answer.message == (
        'cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.'
    )


async def test_a_request_that_names_another_account_is_refused(http: Http, robot: str) -> None:
    answer = await request(http, robot, {"name": "somebody"})
    assert (answer.status, [cause.field for cause in answer.causes]) == (422, ["metadata.name"])


@pytest.mark.parametrize("seconds", [599, (1 << 32) + 1])
async def test_a_token_has_a_shortest_and_a_longest_time(http: Http, robot: str, seconds: int) -> None:
    answer = await request(http, robot, expirationSeconds=seconds)
    assert (answer.status, [cause.field for cause in answer.causes]) == (422, ["spec.expirationSeconds"])


@pytest.mark.kubectl
async def test_kubectl_makes_tokens(http: Http, robot: str, ns: str, kubectl: Kubectl) -> None:
    await make_pod(http, ns)
    bound = ("--bound-object-kind=Pod", "--bound-object-name=p", "--duration=20m")
    token = (await kubectl("create", "token", "robot", "-n", ns, *bound)).ok().strip()
    user = await whoami(http, token)
    assert user["username"] == f"system:serviceaccount:{ns}:robot"
    assert user["extra"][f"{EXTRA}pod-name"] == ["p"]
    short = await kubectl("create", "token", "robot", "-n", ns, "--duration=1m")
    assert (short.code, "less than 10 minutes" in short.err) == (1, True)
