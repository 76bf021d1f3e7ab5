from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
from tests.apiserver.authentication.conftest import Bank
from tests.kit.requests import request_for

from pilothouse.apiserver.authentication.authenticator import UntrustedError
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.errors import StatusError

TOKEN = "abcdef.0123456789abcdef"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def make(bank: Bank, *, type: str = "bootstrap.kubernetes.io/token", **more: str) -> None:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    encoded = {name: b64encode(value.encode()).decode() for name, value in data.items() if value}
    bank.make(SECRETS, {"metadata": {"name": "bootstrap-token-abcdef"}, "type": type, "data": encoded})


def spec_for(node: str) -> dict[str, Any]:
    return {
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["client auth", "digital signature"],
        "request": b64encode(request_for(f"system:node:{node}", "system:nodes")).decode(),
    }


def ask(bank: Bank, name: str, *, node: str = "") -> dict[str, Any]:
    """Ask with the token for a certificate, and have it approved: what becomes of that."""
    spec = spec_for(node or name)
    user = bank.server.bearer(TOKEN)
    made = bank.server.send("POST", REQUESTS, {"metadata": {"name": name}, "spec": spec}, user=user).expect(
        201
    )
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    bank.server.send("PUT", f"{REQUESTS}/{name}/approval", made).expect(200)
    bank.server.settle()
    return dict(bank.server.send("GET", f"{REQUESTS}/{name}", user=user).expect(200))


def failure(request: dict[str, Any]) -> str:
    [failed] = [each for each in request["status"]["conditions"] if each["type"] == "Failed"]
    return str(failed["message"])


def test_its_bearer_is_a_bootstrapper_who_may_ask_for_a_certificate_and_nothing_else(bank: Bank) -> None:
    make(bank, auth_extra_groups="system:bootstrappers:rack-7")
    user = bank.user(TOKEN)
    assert user.name == "system:bootstrap:abcdef"
    assert user.groups == ("system:bootstrappers", "system:bootstrappers:rack-7", "system:authenticated")
    for path in ("/api/v1/nodes", "/api/v1/pods", f"{SECRETS}/bootstrap-token-abcdef"):
        assert bank.server.send("GET", path, user=user).status == 403


def test_its_bearer_reads_its_own_request_and_no_other(bank: Bank) -> None:
    make(bank)
    others = {"metadata": {"name": "others"}, "spec": spec_for("b")}
    bank.server.send("POST", REQUESTS, others).expect(201)
    ask(bank, "a")
    user = bank.server.bearer(TOKEN)
    assert bank.server.send("GET", f"{REQUESTS}/a", user=user).status == 200
    for path in (f"{REQUESTS}/others", f"{REQUESTS}/nobodys", REQUESTS):
        refused = bank.server.send("GET", path, user=user)
        assert refused.status == 403
        assert "reads the certificate requests that were made with it" in refused.message


def test_one_certificate_is_signed_and_no_second_one(bank: Bank) -> None:
    make(bank)
    first = ask(bank, "a")
    assert b"BEGIN CERTIFICATE" in b64decode(first["status"]["certificate"])
    second = ask(bank, "b")
    assert "certificate" not in second["status"]
    assert (
        failure(second)
        == "bootstrap token abcdef: it was used for the request a, and a token is valid for one request"
    )


@pytest.mark.parametrize("node", ["a", "b"], ids=["another key", "another node"])
def test_a_request_that_took_the_name_of_the_first_gets_nothing(bank: Bank, node: str) -> None:
    make(bank)
    assert "certificate" in ask(bank, "a")["status"]
    bank.delete(f"{REQUESTS}/a")
    again = ask(bank, "a", node=node)
    assert "certificate" not in again["status"]
    assert "a token is valid for one request" in failure(again)


def test_a_token_for_one_node_is_for_no_other(bank: Bank) -> None:
    make(bank, node_name="db-3")
    user = bank.server.bearer(TOKEN)
    body = {"metadata": {"name": "csr"}, "spec": spec_for("db-4")}
    refused = bank.server.send("POST", REQUESTS, body, user=user)
    assert refused.status == 403
    assert "the bootstrap token is for the node db-3; join with --name db-3" in refused.message
    assert b"BEGIN CERTIFICATE" in b64decode(ask(bank, "db-3")["status"]["certificate"])


def test_a_token_that_is_bound_after_the_request_counts_too(bank: Bank) -> None:
    make(bank)
    user = bank.server.bearer(TOKEN)
    made = bank.server.send(
        "POST", REQUESTS, {"metadata": {"name": "a"}, "spec": spec_for("a")}, user=user
    ).expect(201)
    merge = "application/merge-patch+json"
    bound = {"data": {"node-name": b64encode(b"b").decode()}}
    bank.server.send("PATCH", f"{SECRETS}/bootstrap-token-abcdef", bound, type=merge).expect(200)
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    bank.server.send("PUT", f"{REQUESTS}/a/approval", made).expect(200)
    bank.server.settle()
    answered = bank.server.send("GET", f"{REQUESTS}/a").expect(200)
    assert failure(answered) == "bootstrap token abcdef: it is for the node b"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"signerName": "kubernetes.io/kube-apiserver-client"}, "spec.signerName"),
        ({"signerName": "kubernetes.io/kubelet-serving"}, "spec.signerName"),
        ({"signerName": "example.com/mine"}, "spec.signerName"),
        ({"usages": ["client auth", "digital signature", "server auth"]}, "the usages must be"),
        ({"usages": ["any"]}, "the usages must be"),
    ],
)
def test_a_token_asks_for_a_nodes_certificate_and_no_other(
    bank: Bank, spec: dict[str, Any], why: str
) -> None:
    make(bank)
    body = {"metadata": {"name": "csr"}, "spec": {**spec_for("a"), **spec}}
    refused = bank.server.send("POST", REQUESTS, body, user=bank.server.bearer(TOKEN))
    assert refused.status == 403
    assert why in refused.message


def test_after_its_use_there_is_time_to_fetch_the_certificate_and_no_more(bank: Bank) -> None:
    make(bank)
    ask(bank, "a")
    bank.clock.advance(200)
    assert bank.user(TOKEN).name == "system:bootstrap:abcdef"
    bank.clock.advance(101)
    assert bank.why_not(TOKEN) == "bootstrap token abcdef: it has been used"


def test_a_token_that_is_withdrawn_meanwhile_gets_nothing_signed(bank: Bank) -> None:
    make(bank)
    spec = {
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["client auth", "digital signature"],
        "request": b64encode(request_for("system:node:a", "system:nodes")).decode(),
    }
    user = bank.server.bearer(TOKEN)
    made = bank.server.send("POST", REQUESTS, {"metadata": {"name": "a"}, "spec": spec}, user=user).expect(
        201
    )
    bank.delete(f"{SECRETS}/bootstrap-token-abcdef")
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}
    bank.server.send("PUT", f"{REQUESTS}/a/approval", made).expect(200)
    bank.server.settle()
    answered = bank.server.send("GET", f"{REQUESTS}/a").expect(200)
    assert failure(answered) == "the bootstrap token abcdef was withdrawn"


def test_it_ends_when_it_says_so(bank: Bank) -> None:
    make(bank, expiration=format_time(bank.clock.now() + 60))
    bank.clock.advance(59)
    assert bank.user(TOKEN).name == "system:bootstrap:abcdef"
    bank.clock.advance(1)
    assert "it expired at 2023-11-14T22:14:20Z" in bank.why_not(TOKEN)


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ({"usage_bootstrap_authentication": ""}, "it is not for authentication"),
        ({"usage_bootstrap_authentication": "false"}, "it is not for authentication"),
        ({"auth_extra_groups": "system:masters"}, "auth-extra-groups has 'system:masters'"),
        ({"expiration": "tomorrow"}, "its expiration 'tomorrow' is not an RFC 3339 time"),
        ({"token_secret": "0123456789abcdeg"}, "invalid bearer token"),
        ({"token_id": "fedcba"}, "invalid bearer token"),
        ({"type": "Opaque"}, "invalid bearer token"),
    ],
)
def test_what_is_wrong_with_its_secret_keeps_its_bearer_out(
    bank: Bank, secret: dict[str, str], why: str
) -> None:
    make(bank, **secret)
    with pytest.raises(UntrustedError, match=why.replace("'", ".")):
        bank.server.authenticator.review(TOKEN)
    with pytest.raises(StatusError):
        bank.server.bearer(TOKEN)


def test_nobody_gets_in_with_a_token_that_is_nowhere(bank: Bank) -> None:
    with pytest.raises(StatusError) as refusal:
        bank.server.bearer(TOKEN)
    assert refusal.value.code == 401
