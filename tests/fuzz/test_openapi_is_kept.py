"""Requests made by schemathesis from our own OpenAPI documents: answered as documented, or refused without effect.

Every operation of every group and version is tried over HTTP, and each request is sent by four askers, one after the
other: nobody, somebody with a wrong token, somebody known who has no role, and an administrator.

* No answer is a 5xx, none is waited for for long, and the server's log holds no traceback.
* Whoever may not is told so, and what they sent leaves the store as it was.
* The administrator gets an answer that is documented and has the documented shape; or a 4xx Status, which leaves the
  store as it was, too.

Making a request takes schemathesis twenty times as long as answering one, which is why each is sent to all askers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok
from tests.fuzz.effort import QUICK, long
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.run_report import Tell

from pilothouse.api.registry import resources

DOCUMENTS = sorted(
    {
        f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"
        for resource in resources()
        for kind in resource.kinds
        if kind.served
    }
)
LONG = long(450)
LEAST = 20_000
"""How many requests the long run makes, all documents together."""
PROTOBUF = "application/vnd.kubernetes.protobuf"
STRANGERS = {"nobody": "", "an impostor": "Bearer wrong", "alice": "Bearer alice-token"}
ADMIN = "the administrator"
ASKERS = (*STRANGERS, ADMIN)
PATIENCE = 30
every_document = pytest.mark.parametrize("document", DOCUMENTS)
Case = schemathesis.Case[Any]


@schemathesis.serializer(PROTOBUF)
def as_protobuf(_: Any, value: Any) -> bytes:
    """What can be made from a JSON schema is no protobuf; the server has to notice."""
    return b"k8s\0" + str(value).encode(errors="replace")


class Client:
    """The askers, each with a connection that is kept."""

    def __init__(self, server: PilothouseServer) -> None:
        access = server.target.access
        self.url = access.url
        self.sent = 0
        self._sessions = {asker: requests.Session() for asker in ASKERS}
        self._authority = str(access.ca)
        self._credential = (str(access.cert), str(access.key))

    def document(self, name: str) -> dict[str, Any]:
        answer = self._get(f"/openapi/v3/{name}")
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    def send(self, asker: str, prepared: requests.PreparedRequest) -> requests.Response:
        self.sent += 1
        return self._send(asker, prepared)

    def repeat(self, prepared: requests.PreparedRequest) -> None:
        """The administrator once more, to see what is written by it."""
        self._send(ADMIN, prepared)

    def revision(self) -> str:
        """The store's: it moves with every write and nothing else."""
        return str(self._get("/api/v1/namespaces?limit=1").json()["metadata"]["resourceVersion"])

    def leaves_no_trace(self, act: Callable[[], None]) -> bool:
        """Whether nothing is written while something is done.

        What an earlier request has led to may come in between, once; what the act itself writes it writes again.
        """
        for _ in range(3):
            before = self.revision()
            act()
            if self.revision() == before:
                return True
        return False

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()

    def _get(self, path: str) -> requests.Response:
        return self._send(ADMIN, requests.Request("GET", self.url + path).prepare())

    def _send(self, asker: str, prepared: requests.PreparedRequest) -> requests.Response:
        if authorization := STRANGERS.get(asker):
            prepared = prepared.copy()
            prepared.headers["Authorization"] = authorization
        return self._sessions[asker].send(
            prepared,
            timeout=PATIENCE,
            verify=self._authority,
            cert=self._credential if asker == ADMIN else None,
            allow_redirects=False,
        )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("server")
    server = PilothouseServer(folder, "memory")
    made = Client(server)
    try:
        yield made
    finally:
        made.close()
        server.close()
    assert "Traceback" not in (folder / "apiserver-1.log").read_text()


def keep(client: Client, document: str, effort: settings) -> tuple[int, int]:
    """Try every operation of a document: how many there were, and how many requests were sent."""
    described = client.document(document)
    operations = []
    for each in schemathesis.openapi.from_dict(described).get_all_operations():
        assert isinstance(each, Ok), each
        operations.append(each.ok())
    before = client.sent
    for operation in operations:
        about = described["paths"][operation.path][operation.method.lower()]
        cases = cases_of(client, operation, about.get("x-kubernetes-group-version-kind") or {}, effort)
        turn_away(client, [prepared for _, prepared in cases])
        for case, prepared in cases:
            serve(client, case, prepared)
    return len(operations), client.sent - before


def cases_of(
    client: Client, operation: Any, named: dict[str, str], effort: settings
) -> list[tuple[Case, requests.PreparedRequest]]:
    """Requests for an operation."""
    found = []

    @effort
    @given(case=operation.as_strategy(), here=st.booleans(), whole=st.booleans())
    def collect(case: Case, here: bool, whole: bool) -> None:
        if here and "namespace" in case.path_parameters:
            case.path_parameters["namespace"] = "default"
        if whole and named.get("kind") and isinstance(case.body, dict) and case.method != "DELETE":
            complete(case.body, named, case.path_parameters.get("name"))
        # A watch has no end to wait for, and a revision of the future is waited for; both have tests of their own.
        case.query.pop("watch", None)
        if str(case.query.get("resourceVersion", "")).isdecimal():
            case.query["resourceVersion"] = "0"
        known = case.as_transport_kwargs(base_url=client.url)
        found.append((case, requests.Request(**without_transport(known)).prepare()))

    collect()
    return found


def without_transport(known: dict[str, Any]) -> dict[str, Any]:
    """What makes the request, without how it is sent."""
    names = ("method", "url", "headers", "files", "data", "json", "params", "cookies")
    return {name: known[name] for name in names if name in known}


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


def turn_away(client: Client, sent: list[requests.PreparedRequest]) -> None:
    """Those who may not are told so, and change nothing."""

    def attempt() -> None:
        for prepared in sent:
            for asker in STRANGERS:
                answer = client.send(asker, prepared)
                assert answer.status_code < 500, told(asker, prepared, answer)
                if asker != "alice":
                    # Alice may at least ask about herself.
                    assert answer.status_code >= 400, told(asker, prepared, answer)

    assert client.leaves_no_trace(attempt), f"refused, but written: {[each.url for each in sent]}"


def serve(client: Client, case: Case, prepared: requests.PreparedRequest) -> None:
    """The administrator gets what is documented, or a refusal that changes nothing."""
    before = client.revision()
    answer = client.send(ADMIN, prepared)
    said = told(ADMIN, prepared, answer)
    assert answer.status_code < 500, said
    if answer.status_code < 400:
        assert str(answer.status_code) in case.operation.definition.raw["responses"], said
        conforms: Any = CHECKS.get_one("response_schema_conformance")
        case.validate_response(answer, checks=[conforms])
        return
    if answer.headers["Content-Type"].startswith("application/json"):
        assert answer.json()["kind"] == "Status", said
    if client.revision() != before:
        assert client.leaves_no_trace(lambda: client.repeat(prepared)), f"refused, but written: {said}"


def told(asker: str, prepared: requests.PreparedRequest, answer: requests.Response) -> str:
    sent = f"{prepared.method} {prepared.url} {str(prepared.body)[:1000]}"
    return f"{asker}: {sent}: {answer.status_code} {answer.text[:1000]}"


@every_document
def test_each_operation_keeps_its_promise(client: Client, document: str) -> None:
    operations, sent = keep(client, document, settings(QUICK, max_examples=2))
    assert sent >= operations * len(ASKERS)


@pytest.mark.long
@every_document
def test_each_operation_keeps_its_promise_for_long(client: Client, document: str, tell: Tell) -> None:
    operations, sent = keep(client, document, LONG)
    tell(f"{sent} requests to {operations} operations")
    assert sent >= operations * LONG.max_examples * len(ASKERS)


@pytest.mark.long
def test_the_long_run_is_long(client: Client) -> None:
    """Each document's run says that it sent its part; together they are enough."""
    operations = sum(
        len(list(schemathesis.openapi.from_dict(client.document(each)).get_all_operations()))
        for each in DOCUMENTS
    )
    assert operations * LONG.max_examples * len(ASKERS) >= LEAST
