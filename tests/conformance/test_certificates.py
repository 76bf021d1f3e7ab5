"""Requests for certificates: who asked, who may approve, who may sign, and what is fixed once it is said."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from tests.kit.http import Answer, Http, Json
from tests.kit.rbac_objects import bind, cluster_role, place, rule
from tests.kit.requests import request_for
from tests.kit.servers import Target
from tests.kit.waiting import eventually

from pilothouse.pki.authority import Authority

pytestmark = pytest.mark.conformance

GROUP = "certificates.k8s.io"
REQUESTS = f"/apis/{GROUP}/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "Test", "message": "yes"}
DENIED = {"type": "Denied", "status": "True", "reason": "Test", "message": "no"}


def csr(signerName: str = "example.com/mine", *organizations: str, **spec: Any) -> Json:
    pem = request_for("jane", *organizations)
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"r-{uuid.uuid4().hex[:8]}"},
        "spec": {
            "request": b64encode(pem).decode(),
            "signerName": signerName,
            "usages": ["client auth", "digital signature"],
            **spec,
        },
    }


async def judge(http: Http, request: Json, *conditions: Json) -> Answer:
    path = f"{REQUESTS}/{request['metadata']['name']}"
    live = (await http.get(path)).expect(200)
    return await http.put(f"{path}/approval", {**live, "status": {"conditions": list(conditions)}})


async def outcome(http: Http, request: Json, status: Json) -> Answer:
    path = f"{REQUESTS}/{request['metadata']['name']}"
    live = (await http.get(path)).expect(200)
    return await http.put(f"{path}/status", {**live, "status": {**(live.get("status") or {}), **status}})


def types(request: Json) -> list[str]:
    return [each["type"] for each in (request.get("status") or {}).get("conditions") or []]


@pytest.fixture
async def alice(http: Http) -> AsyncIterator[Http]:
    """Someone who may write all there is of requests, and nothing on signers."""
    name = f"writes-requests-{uuid.uuid4().hex[:8]}"
    writes = cluster_role(
        name,
        rule(
            "create get update patch",
            "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status",
            GROUP,
        ),
    )
    bound = bind("", name, f"ClusterRole/{name}", "User/alice")
    for obj in (writes, bound):
        (await http.post(place(obj), obj)).expect(201)
    access = dataclasses.replace(http.target.access, cert=None, key=None, token="alice-token")
    async with Http.to(dataclasses.replace(http.target, access=access)) as client:

        async def counts() -> bool:
            return (await client.get(f"{REQUESTS}/none")).status == 404

        await eventually(counts)
        yield client
    for obj in (writes, bound):
        await http.delete(f"{place(obj)}/{name}")


async def test_a_request_says_who_made_it_whatever_it_claims(alice: Http) -> None:
    made = (await alice.post(REQUESTS, csr(username="root", groups=["system:masters"]))).expect(201)
    assert made["spec"]["username"] == "alice"
    assert made["spec"]["uid"] == "u-alice"
    assert made["spec"]["groups"] == ["dev", "ops", "system:authenticated"]
    path = f"{REQUESTS}/{made['metadata']['name']}"
    made["spec"]["username"] = "root"
    changed = (await alice.put(path, made)).expect(200)
    assert changed["spec"]["username"] == "alice"


async def test_approving_takes_the_right_to_the_signer(http: Http, alice: Http) -> None:
    request = (await alice.post(REQUESTS, csr())).expect(201)
    for verdict in (APPROVED, DENIED):
        refused = await judge(alice, request, verdict)
        assert (refused.status, refused.reason) == (403, "Forbidden")
        assert 'user not permitted to approve requests with signerName "example.com/mine"' in refused.message
    assert types((await judge(http, request, APPROVED)).expect(200)) == ["Approved"]


@pytest.mark.parametrize("signer", ["example.com/mine", "example.com/*"])
async def test_the_right_may_be_to_all_signers_of_a_domain(http: Http, alice: Http, signer: str) -> None:
    name = f"approves-{uuid.uuid4().hex[:8]}"
    approves = cluster_role(name, rule("approve", "signers", GROUP, names=signer))
    bound = bind("", name, f"ClusterRole/{name}", "User/alice")
    for obj in (approves, bound):
        (await http.post(place(obj), obj)).expect(201)
    request = (await alice.post(REQUESTS, csr())).expect(201)

    async def approved() -> bool:
        return (await judge(alice, request, APPROVED)).status == 200

    await eventually(approved)
    elsewhere = (await alice.post(REQUESTS, csr("other.example.org/mine"))).expect(201)
    assert (await judge(alice, elsewhere, APPROVED)).status == 403
    for obj in (approves, bound):
        await http.delete(f"{place(obj)}/{name}")


async def test_signing_takes_the_right_to_the_signer(http: Http, alice: Http) -> None:
    request = (await alice.post(REQUESTS, csr())).expect(201)
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "Test"}]}
    refused = await outcome(alice, request, failed)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert 'user not permitted to sign requests with signerName "example.com/mine"' in refused.message
    assert types((await outcome(http, request, failed)).expect(200)) == ["Failed"]


async def test_a_verdict_stays(http: Http) -> None:
    request = (await http.post(REQUESTS, csr())).expect(201)
    approved = (await judge(http, request, APPROVED)).expect(200)
    (condition,) = approved["status"]["conditions"]
    assert condition["lastUpdateTime"]
    assert condition["lastTransitionTime"]
    withdrawn = await judge(http, request)
    assert withdrawn.status == 422
    assert 'may not remove a condition of type "Approved"' in withdrawn.message
    both = await judge(http, request, APPROVED, DENIED)
    assert (both.status, "mutually exclusive" in both.message) == (422, True)
    unsure = await judge(http, request, {**APPROVED, "status": "Unknown"})
    assert (unsure.status, [cause.field for cause in unsure.causes]) == (422, ["status.conditions[0].status"])


async def test_a_verdict_is_given_in_one_place(http: Http) -> None:
    request = (await http.post(REQUESTS, csr(status={"conditions": [APPROVED]}))).expect(201)
    assert types(request) == []
    path = f"{REQUESTS}/{request['metadata']['name']}"
    written = (await http.put(path, {**request, "status": {"conditions": [APPROVED]}})).expect(200)
    assert types(written) == []
    approval = (await http.put(f"{path}/approval", {**written, "status": {"certificate": "Zm9v"}})).expect(
        200
    )
    assert "certificate" not in approval["status"]


async def test_masters_are_not_made_by_certificate(http: Http) -> None:
    answer = await http.post(REQUESTS, csr(CLIENT, "system:masters"))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert f"use of {CLIENT} signer with system:masters group is not allowed" in answer.message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"signerName": "kubernetes.io/legacy-unknown"}, "spec.signerName"),
        ({"signerName": "mine"}, "spec.signerName"),
        ({"usages": []}, "spec.usages"),
        ({"usages": ["everything"]}, "spec.usages[0]"),
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
        ({"request": b64encode(b"hello").decode()}, "spec.request"),
        (
            {
                "request": b64encode(
                    b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"
                ).decode()
            },
            "spec.request",
        ),
    ],
    ids=["legacy", "undomained", "unused", "unknown", "short", "text", "empty"],
)
async def test_what_can_not_be_asked_for(http: Http, spec: Json, field: str) -> None:
    answer = await http.post(REQUESTS, csr(**spec))
    assert (answer.status, {cause.field for cause in answer.causes}) == (422, {field})


async def test_who_may_sign_may_not_approve(http: Http) -> None:
    request = (await http.post(REQUESTS, csr())).expect(201)
    added = await outcome(http, request, {"conditions": [APPROVED]})
    assert (added.status, 'may not add a condition of type "Approved"' in added.message) == (422, True)
    (await judge(http, request, APPROVED)).expect(200)
    dropped = await outcome(http, request, {"conditions": []})
    assert (dropped.status, 'may not remove a condition of type "Approved"' in dropped.message) == (422, True)
    reworded = await outcome(http, request, {"conditions": [{**APPROVED, "message": "changed"}]})
    assert reworded.expect(200)["status"]["conditions"][0]["message"] == "yes"


async def test_what_is_signed_is_a_certificate_and_stays(http: Http) -> None:
    request = (await http.post(REQUESTS, csr())).expect(201)
    refused = await outcome(http, request, {"certificate": b64encode(b"foo").decode()})
    assert (refused.status, [cause.field for cause in refused.causes]) == (422, ["status.certificate"])
    made = Authority.make("mine", datetime.datetime.now(datetime.UTC)).certificate
    (await outcome(http, request, {"certificate": b64encode(made).decode()})).expect(200)
    for other in (b64encode(made + made).decode(), ""):
        changed = await outcome(http, request, {"certificate": other})
        assert (changed.status, "may not modify existing certificate" in changed.message) == (422, True)


async def test_a_certificate_is_known_by_its_digest(http: Http) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await http.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    certificate = x509.load_pem_x509_certificate(shown(http.target))
    digest = certificate.fingerprint(hashes.SHA256()).hex()
    extra = answer.expect(201)["status"]["userInfo"]["extra"]
    assert extra == {"authentication.kubernetes.io/credential-id": [f"X509SHA256={digest}"]}


def shown(target: Target) -> bytes:
    """The certificate of whoever uses a target."""
    assert target.access.cert is not None
    return target.access.cert.read_bytes()


async def test_the_administrators_key_is_in_the_form_that_every_client_reads(http: Http) -> None:
    access = http.target.access
    assert access.key is not None
    assert access.key.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await http.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert "system:masters" in answer.expect(201)["status"]["userInfo"]["groups"]
