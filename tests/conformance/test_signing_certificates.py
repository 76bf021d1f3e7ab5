"""Approved requests get their certificate, or are told why not.

Pilothouse's API server signs by itself; beside a kube-apiserver the signers of kube-controller-manager do it. They agree
on what is signed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import uuid
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.kit import kube
from tests.kit.http import Http, Json
from tests.kit.kube import controller_manager
from tests.kit.kubectl import Kubectl
from tests.kit.requests import key_pem, new_key, request_for
from tests.kit.servers import Target
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

API = "certificates.k8s.io/v1"
REQUESTS = f"/apis/{API}/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
NODE_SERVING = "kubernetes.io/kubelet-serving"
CLIENT_USAGES = ("client auth", "digital signature")
SERVER_USAGES = ("server auth", "digital signature")
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture(scope="module", autouse=True)
def signers(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if target.name != kube.NAME:
        yield
        return
    authority = target.access.ca
    flags = (
        f"--cluster-signing-cert-file={authority}",
        f"--cluster-signing-key-file={authority.with_suffix('.key')}",
    )
    names = ("certificatesigningrequest-signing-controller",)
    with controller_manager(target, tmp_path_factory.mktemp("signers"), controllers=names, flags=flags):
        yield


@pytest.fixture
async def node_a(http: Http) -> AsyncIterator[None]:
    """A Node with names and addresses: our signer certifies a node's own and no others."""
    addresses = [
        {"type": "Hostname", "address": "a"},
        {"type": "InternalDNS", "address": "a.example.com"},
        {"type": "InternalIP", "address": "10.0.0.1"},
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    (await http.post("/api/v1/nodes", {**node, "status": {"addresses": addresses}})).expect(201)
    yield
    (await http.delete("/api/v1/nodes/a")).expect(200)


def csr(signer: str, pem: bytes, usages: tuple[str, ...], **spec: Any) -> Json:
    encoded = b64encode(pem).decode()
    return {
        "apiVersion": API,
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"s-{uuid.uuid4().hex[:8]}"},
        "spec": {"request": encoded, "signerName": signer, "usages": list(usages), **spec},
    }


async def approve(http: Http, request: Json) -> Json:
    """Create and approve a request; how it looks once something has become of it."""
    live = (await http.post(REQUESTS, request)).expect(201)
    path = f"{REQUESTS}/{live['metadata']['name']}"
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": ""}
    (await http.put(f"{path}/approval", {**live, "status": {"conditions": [approved]}})).expect(200)

    async def settled() -> Json | None:
        found = (await http.get(path)).expect(200)
        return found if found["status"].get("certificate") or "Failed" in types(found) else None

    return await eventually(settled)


def types(request: Json) -> list[str]:
    return [each["type"] for each in request["status"].get("conditions") or []]


def certificate(request: Json) -> x509.Certificate:
    return x509.load_pem_x509_certificate(b64decode(request["status"]["certificate"]))


async def test_a_certificate_lets_its_owner_in(http: Http, tmp_path: Path) -> None:
    key = new_key()
    signed = await approve(http, csr(CLIENT, request_for("jane", "dev", "ops", key=key), CLIENT_USAGES))
    (tmp_path / "jane.crt").write_bytes(b64decode(signed["status"]["certificate"]))
    (tmp_path / "jane.key").write_bytes(key_pem(key))
    access = dataclasses.replace(
        http.target.access, cert=tmp_path / "jane.crt", key=tmp_path / "jane.key", token=None
    )
    async with Http.to(dataclasses.replace(http.target, access=access)) as jane:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        user = (await jane.post(WHO, body)).expect(201)["status"]["userInfo"]
    assert user["username"] == "jane"
    assert user["groups"] == ["dev", "ops", "system:authenticated"]


@pytest.mark.usefixtures("node_a")
async def test_a_certificate_is_for_what_was_asked_for(http: Http) -> None:
    pem = request_for("system:node:a", "system:nodes", dns=["a.example.com"], addresses=["10.0.0.1"])
    made = certificate(await approve(http, csr(NODE_SERVING, pem, SERVER_USAGES, expirationSeconds=3600)))
    extensions = made.extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, False, False)
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.example.com"]
    now = datetime.datetime.now(datetime.UTC)
    assert now < made.not_valid_after_utc <= now + datetime.timedelta(hours=1)


NODE = ("system:node:a", "system:nodes")
SAN = {"dns": ["a"]}
CASES: dict[str, tuple[str, tuple[str, ...], dict[str, Any], tuple[str, ...], bool]] = {
    "client": (CLIENT, ("jane",), {}, CLIENT_USAGES, True),
    "client with key encipherment": (CLIENT, ("jane",), {}, (*CLIENT_USAGES, "key encipherment"), True),
    "client with names": (CLIENT, ("jane",), SAN, CLIENT_USAGES, True),
    "client without client auth": (CLIENT, ("jane",), {}, ("digital signature",), False),
    "client that would serve": (CLIENT, ("jane",), {}, (*CLIENT_USAGES, "server auth"), False),
    "client that would sign": (CLIENT, ("jane",), {}, (*CLIENT_USAGES, "cert sign"), False),
    "node": (NODE_CLIENT, NODE, {}, CLIENT_USAGES, True),
    "node with key encipherment": (NODE_CLIENT, NODE, {}, (*CLIENT_USAGES, "key encipherment"), True),
    "node without signature": (NODE_CLIENT, NODE, {}, ("client auth",), False),
    "node that would serve": (NODE_CLIENT, NODE, {}, SERVER_USAGES, False),
    "node of another group": (NODE_CLIENT, ("system:node:a", "dev"), {}, CLIENT_USAGES, False),
    "node of two groups": (NODE_CLIENT, (*NODE, "dev"), {}, CLIENT_USAGES, False),
    "node of no group": (NODE_CLIENT, ("system:node:a",), {}, CLIENT_USAGES, False),
    "node with a person's name": (NODE_CLIENT, ("jane", "system:nodes"), {}, CLIENT_USAGES, False),
    "node with names": (NODE_CLIENT, NODE, SAN, CLIENT_USAGES, False),
    "node with e-mail": (NODE_CLIENT, NODE, {"emails": ["a@b.c"]}, CLIENT_USAGES, False),
    "node with URI": (NODE_CLIENT, NODE, {"uris": ["https://a.b"]}, CLIENT_USAGES, False),
    "serving": (NODE_SERVING, NODE, SAN, SERVER_USAGES, True),
    "serving an address": (NODE_SERVING, NODE, {"addresses": ["10.0.0.1"]}, SERVER_USAGES, True),
    "serving nothing": (NODE_SERVING, NODE, {}, SERVER_USAGES, False),
    "serving as a client": (NODE_SERVING, NODE, SAN, CLIENT_USAGES, False),
    "serving as both": (NODE_SERVING, NODE, SAN, (*SERVER_USAGES, "client auth"), False),
    "serving e-mail": (NODE_SERVING, NODE, {**SAN, "emails": ["a@b.c"]}, SERVER_USAGES, False),
    "serving as a person": (NODE_SERVING, ("jane", "system:nodes"), SAN, SERVER_USAGES, False),
}


@pytest.mark.usefixtures("node_a")
async def test_what_is_signed_by_whom(http: Http) -> None:
    async def is_signed(name: str) -> bool:
        signer, subject, names, usages, _ = CASES[name]
        found = await approve(http, csr(signer, request_for(*subject, **names), usages))
        if "Failed" in types(found):
            (failed,) = [each for each in found["status"]["conditions"] if each["type"] == "Failed"]
            assert failed["reason"] == "SignerValidationFailure"
            assert failed["message"]
        return "certificate" in found["status"]

    outcomes = await asyncio.gather(*map(is_signed, CASES))
    assert dict(zip(CASES, outcomes, strict=True)) == {name: case[-1] for name, case in CASES.items()}


async def test_a_key_that_is_too_small_is_not_vouched_for(http: Http, target: Target) -> None:
    small = rsa.generate_private_key(65537, 1024)
    found = await approve(http, csr(CLIENT, request_for("jane", key=small), CLIENT_USAGES))
    failed = [each["message"] for each in found["status"]["conditions"] if each["type"] == "Failed"]
    if target.name == kube.NAME:
        assert not failed
    else:
        assert failed == ["an RSA key of 1024 bits is too small; at least 2048"]


async def test_other_signers_are_left_to_others(http: Http) -> None:
    mine = csr("example.com/mine", request_for("jane"), CLIENT_USAGES)
    live = (await http.post(REQUESTS, mine)).expect(201)
    path = f"{REQUESTS}/{live['metadata']['name']}"
    approved = {"type": "Approved", "status": "True", "reason": "Test"}
    (await http.put(f"{path}/approval", {**live, "status": {"conditions": [approved]}})).expect(200)
    # What is approved later has been signed, so this one was looked at.
    await approve(http, csr(CLIENT, request_for("jane"), CLIENT_USAGES))
    assert "certificate" not in (await http.get(path)).expect(200)["status"]


@pytest.mark.kubectl
async def test_kubectl_approves_and_denies(http: Http, kubectl: Kubectl) -> None:
    wanted, unwanted = (csr(CLIENT, request_for(name), CLIENT_USAGES) for name in ("jane", "mallory"))
    for request in (wanted, unwanted):
        (await http.post(REQUESTS, request)).expect(201)
    good, bad = wanted["metadata"]["name"], unwanted["metadata"]["name"]
    assert "approved" in (await kubectl("certificate", "approve", good)).ok()
    assert "denied" in (await kubectl("certificate", "deny", bad)).ok()

    async def shown(name: str) -> str:
        return (await kubectl("get", "csr", name)).rows()[1][-1]

    async def issued() -> bool:
        return await shown(good) == "Approved,Issued"

    await eventually(issued)
    assert await shown(bad) == "Denied"
    again = await kubectl("certificate", "approve", bad)
    assert (again.code, "already Denied" in again.err + again.out) == (1, True)
