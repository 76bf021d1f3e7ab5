"""Whatever the policy, and whatever becomes of the request: secret material is in no line of the log.

Requests go through the server's own core, so that its answers and its messages of refusal are the real ones.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.apiserver.audit.scenes import EVERYTHING, asked, record, sight
from tests.kit.core import ADMIN, CoreServer

from pilothouse.apiserver.server.messages import Response

SECRETS = "/api/v1/namespaces/default/secrets"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/robot/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

# Long enough that no other text of a record holds it by chance.
material = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=12, max_size=40).map(
    lambda text: f"hush{text}"
)


@pytest.fixture(scope="module")
def server() -> Iterator[CoreServer]:
    with CoreServer() as running:
        robot = {"metadata": {"name": "robot"}}
        running.send("POST", "/api/v1/namespaces/default/serviceaccounts", robot).expect(201)
        yield running


def told(
    server: CoreServer, method: str, path: str, body: object, *, type: str = "application/json"
) -> tuple[int, str]:
    """The status of an answer, and the text of the record of everything there is to tell about it."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = server.send(method, path, data, type=type, query="fieldManager=m" if type == APPLY else "")
    request = asked(
        method, path, body=data, user=ADMIN, headers={"Content-Type": type, "Authorization": "Bearer"}
    )
    seen = sight(request, Response(answer.status, answer.body, answer.content_type or "application/json"))
    return answer.status, json.dumps(record(EVERYTHING, seen))


def hidden(text: str, secret: str) -> bool:
    forms = (secret, base64.b64encode(secret.encode()).decode().rstrip("="))
    return not any(form in text for form in forms)


def secret_object(secret: str, flaw: str, name: str) -> dict[str, Any]:
    """A Secret that holds the material, in its place or, by mistake, in another."""
    encoded = base64.b64encode(secret.encode()).decode()
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    match flaw:
        case "none":
            return {**whole, "data": {"k": encoded}, "stringData": {"s": secret}}
        case "not base64":
            return {**whole, "data": {"k": secret + "!"}}
        case "a list":
            return {**whole, "data": [secret]}
        case "a text":
            return {**whole, "data": secret}
        case "a number's place":
            return {**whole, "immutable": secret}
        case "the type":
            return {**whole, "type": secret, "data": {"k": encoded}}
        case "an annotation":
            last = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": {"k": encoded}})}
            return {**whole, "metadata": {"name": name, "annotations": last}, "data": {"k": encoded}}
        case "an unknown field":
            return {**whole, "dta": {"k": encoded, "s": secret}}
    raise ValueError(flaw)


FLAWS = (
    "none",
    "not base64",
    "a list",
    "a text",
    "a number's place",
    "the type",
    "an annotation",
    "an unknown field",
)
_bounded = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_bounded
@given(secret=material, flaw=st.sampled_from(FLAWS), number=st.integers(0, 5))
def test_of_secrets_that_are_written(server: CoreServer, secret: str, flaw: str, number: int) -> None:
    body = secret_object(secret, flaw, f"s{number}")
    at = f"{SECRETS}/s{number}"

    for method, path, sent, media in (
        ("POST", SECRETS, body, "application/json"),
        ("POST", SECRETS, json.dumps(body).encode() + b"}", "application/json"),
        ("PUT", at, body, "application/json"),
        ("PATCH", at, body, MERGE),
        ("PATCH", at, body, APPLY),
        ("PATCH", at, [{"op": "test", "path": "/data/k", "value": secret}], "application/json-patch+json"),
        ("GET", at, b"", "application/json"),
        ("GET", SECRETS, b"", "application/json"),
        ("DELETE", at, b"", "application/json"),
    ):
        status, text = told(server, method, path, sent, type=media)
        assert hidden(text, secret), f"{method} {path} ({status}): {text}"


@_bounded
@given(
    secret=material,
    flaw=st.sampled_from(FLAWS),
    path=st.sampled_from(
        [
            "/api/v1/namespaces/default/configmaps",
            "/api/v1/namespaces/default/pods",
            "/apis/apps/v1/namespaces/default/statefulsets",
            "/api/v1/namespaces",
            "/api/v1/namespaces/default/nowhere",
            "/somewhere/else",
        ]
    ),
    wrapped=st.booleans(),
)
def test_of_secrets_that_are_sent_to_the_wrong_place(
    server: CoreServer, secret: str, flaw: str, path: str, wrapped: bool
) -> None:
    body = secret_object(secret, flaw, "stray")
    sent = {"apiVersion": "v1", "kind": "List", "items": [body]} if wrapped else body

    status, text = told(server, "POST", path, sent)

    assert status >= 400
    assert hidden(text, secret), text


@_bounded
@given(secret=material, audience=st.sampled_from([None, ["a"], "a", 7]))
def test_of_tokens_that_are_reviewed(server: CoreServer, secret: str, audience: Any) -> None:
    body: dict[str, Any] = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": secret},
    }
    if audience is not None:
        body["spec"]["audiences"] = audience

    _, text = told(server, "POST", REVIEWS, body)

    assert hidden(text, secret), text


def test_of_tokens_that_are_given(server: CoreServer) -> None:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    answer = server.send("POST", TOKEN, body).expect(201)
    request = asked("POST", TOKEN, body=json.dumps(body).encode(), user=ADMIN)
    seen = sight(request, Response(201, json.dumps(answer).encode()))

    text = json.dumps(record(EVERYTHING, seen))

    assert len(answer["status"]["token"]) > 100
    assert answer["status"]["token"] not in text
    assert answer["status"]["token"].split(".")[2] not in text
    assert '"code": 201' in text


@_bounded
@given(
    secret=material,
    scheme=st.sampled_from(["Bearer ", "Basic ", "", "bearer"]),
    status=st.sampled_from([200, 401, 403]),
)
def test_of_credentials(secret: str, scheme: str, status: int) -> None:
    headers = {"Authorization": scheme + secret, "Cookie": secret, "X-Remote-Extra-Token": secret}

    text = json.dumps(record(EVERYTHING, sight(asked(headers=headers), status=status)))

    assert hidden(text, secret)


def test_what_is_not_secret_is_told(server: CoreServer) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "open"},
        "data": {"k": "plain words"},
    }

    _, text = told(server, "POST", "/api/v1/namespaces/default/configmaps", body)

    assert text.count("plain words") == 2
