"""Requests made from the server's own OpenAPI documents, valid and not: none may break the server.

What the documents describe is what the server takes, so this walks every operation with bodies and parameters that
nobody thought of. Each answer is a success or a 4xx; each error is a Status.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from tests.cli.running import Server

OURS = [
    "apis/navigator.jetstack.io/v1beta1",
    "apis/autopilot.k0sproject.io/v1beta2",
    "apis/pilothouse.io/v1alpha1",
]


class Client:
    """The administrator, with a connection that is kept."""

    def __init__(self, server: Server) -> None:
        pki = server.kubeconfig.parent / "pki"
        self.url = server.url
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.cert = (str(pki / "admin.crt"), str(pki / "admin.key"))
        self.session.verify = str(pki / "ca.crt")

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.session.get(f"{self.url}/openapi/v3/{name}", timeout=60).json()
        return found

    def documents(self) -> list[str]:
        return sorted(self.session.get(f"{self.url}/openapi/v3", timeout=60).json()["paths"])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("fuzz")
    with Server(folder / "data", "--store", "memory") as server:
        yield Client(server)
        code, _, log = server.stop()
    assert code == 0
    assert "Traceback" not in log, log[-3000:]


def walk(client: Client, name: str, examples: int) -> int:
    """Try every operation of a document; how many there were."""
    walked = 0
    document = client.document(name)
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        described = document["paths"][operation.path][operation.method.lower()]
        attempt(client, operation, described.get("x-kubernetes-group-version-kind") or {}, examples)
        walked += 1
    return walked


def attempt(client: Client, operation: Any, named: dict[str, str], examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def tried(case: Any) -> None:
        if "namespace" in (case.path_parameters or {}):
            case.path_parameters["namespace"] = "default"
        if isinstance(case.body, dict) and "kind" in named and case.method != "DELETE":
            complete(case.body, named, (case.path_parameters or {}).get("name"))
        query = case.query or {}
        # A watch has no end to wait for, and a revision of the future is waited for; both are tried elsewhere.
        query.pop("watch", None)
        if str(query.get("resourceVersion", "")).isdecimal():
            query["resourceVersion"] = "0"
        answer = case.call(
            base_url=client.url, session=client.session, verify=client.session.verify, timeout=60
        )
        text = answer.content.decode()
        assert answer.status_code < 500, f"{case.method} {case.formatted_path}: {text[:500]}"
        if answer.status_code >= 400 and "page not found" not in text:
            assert json.loads(text)["kind"] == "Status"

    tried()


def complete(body: dict[str, Any], named: dict[str, str], name: str | None) -> None:
    """Without its type and name an object is refused before anyone looks at the rest."""
    body["apiVersion"] = "/".join(filter(None, (named["group"], named["version"])))
    body["kind"] = named["kind"]
    metadata = body.get("metadata")
    body["metadata"] = metadata = metadata if isinstance(metadata, dict) else {}
    metadata.pop("namespace", None)
    if name is None:
        metadata.pop("name", None)
        metadata["generateName"] = "fuzz-"
    else:
        metadata["name"] = name


@pytest.mark.parametrize("name", OURS)
def test_our_own_kinds(name, client):
    assert walk(client, name, examples=3) > 5


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_kind(client):
    for name in client.documents():
        assert walk(client, name, examples=5) > 0
