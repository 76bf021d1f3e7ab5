"""Requests made from our own OpenAPI documents get answers that the documents promise.

Every operation of every group and version is tried over HTTP: an answer is one of those that are documented and has the
documented shape, or it is a 4xx Status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from tests.fuzz.effort import QUICK, long
from tests.kit.ours import PilothouseServer

from pilothouse.api.registry import resources

DOCUMENTS = sorted(
    {
        f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
        for resource in resources()
        for kind in resource.kinds
        if kind.served
    }
)
PROTOBUF = "application/vnd.kubernetes.protobuf"
every_document = pytest.mark.parametrize("document", DOCUMENTS)


@schemathesis.serializer(PROTOBUF)
def as_protobuf(_: Any, value: Any) -> bytes:
    """What can be made from a JSON schema is no protobuf; the server has to notice."""
    return b"k8s\0" + str(value).encode(errors="replace")


class Client:
    """An administrator's session."""

    def __init__(self, server: PilothouseServer) -> None:
        access = server.target.access
        self._session = requests.Session()
        # Else a bundle of certificates that the environment names would take the place of the server's own.
        self._session.trust_env = False
        self._session.verify = str(access.ca)
        self._session.cert = (str(access.cert), str(access.key))
        self.url = access.url

    def document(self, name: str) -> dict[str, Any]:
        answer = self._session.get(f"{self.url}/openapi/v3/{name}", timeout=30)
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    def send(self, case: schemathesis.Case) -> requests.Response:
        return self._session.request(**{**case.as_transport_kwargs(base_url=self.url), "timeout": 30})

    def close(self) -> None:
        self._session.close()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    server = PilothouseServer(tmp_path_factory.mktemp("server"), "memory")
    made = Client(server)
    try:
        yield made
    finally:
        made.close()
        server.close()


def keep(client: Client, document: str, effort: settings) -> int:
    """Try every operation of a document; how many there were."""
    schema = schemathesis.openapi.from_dict(client.document(document))
    operations = [result.ok() for result in schema.get_all_operations()]
    for operation in operations:

        @effort
        @given(case=operation.as_strategy(), here=st.booleans())
        def attempt(case: schemathesis.Case, here: bool) -> None:
            if "namespace" in case.path_parameters and here:
                case.path_parameters["namespace"] = "default"
            # A watch has no end to wait for; it has tests of its own.
            case.query.pop("watch", None)
            check(case, client.send(case))

        attempt()
    return len(operations)


def check(case: schemathesis.Case, answer: requests.Response) -> None:
    said = f"{case.method} {answer.url} {str(case.body)[:1000]}: {answer.status_code} {answer.text[:1000]}"
    if answer.status_code == 504:
        # A revision that has not come: the one failure of a server's that a client can ask for.
        assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge", said
        return
    assert answer.status_code < 500, said
    if answer.status_code >= 400:
        if answer.headers["Content-Type"].startswith("application/json"):
            assert answer.json()["kind"] == "Status", said
        return
    assert str(answer.status_code) in case.operation.definition.raw["responses"], said
    case.validate_response(answer, checks=[CHECKS.get_one("response_schema_conformance")])


@every_document
def test_each_operation_keeps_its_promise(client: Client, document: str) -> None:
    assert keep(client, document, settings(QUICK, max_examples=2)) > 0


@pytest.mark.long
@every_document
def test_each_operation_keeps_its_promise_for_long(client: Client, document: str) -> None:
    assert keep(client, document, long(100)) > 0
