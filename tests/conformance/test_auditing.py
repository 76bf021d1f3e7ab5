"""Case 69: a line for each request, with as much as the policy wants told.

What a server under test records is said in `tests.kit.servers.AUDIT_POLICY`.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.kit.http import Http
from tests.kit.kubeconfig import Access
from tests.kit.servers import Server, Target
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance

MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
Record = dict[str, Any]


class Log:
    """The records of requests that are made with an audit id of the test's own."""

    def __init__(self, http: Http, path: Path) -> None:
        self.http = http
        self.path = path

    async def of(
        self, method: str, path: str, body: object = None, *, lines: int = 1, **query: str
    ) -> list[Record]:
        """What is recorded of one request."""
        mark = str(uuid.uuid4())
        await self.http.send(method, path, body, headers={"Audit-ID": mark}, **query)
        return await self.marked(mark, lines=lines)

    async def marked(self, mark: str, *, lines: int = 1) -> list[Record]:
        async def found() -> list[Record] | None:
            text = self.path.read_text().splitlines() if self.path.exists() else []
            records = [json.loads(line) for line in text if mark in line]
            return records if len(records) >= lines else None

        return await eventually(found)


@pytest.fixture
def log(http: Http, server: Server) -> Log:
    return Log(http, server.audit_log)


def config_map(name: str) -> Record:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}


async def test_case_69_a_line_per_request(log: Log, ns: str) -> None:
    (record,) = await log.of("GET", f"/api/v1/namespaces/{ns}/serviceaccounts/none", fieldManager="m")

    assert record["kind"] == "Event"
    assert record["apiVersion"] == "audit.k8s.io/v1"
    assert record["level"] == "Metadata"
    assert record["stage"] == "ResponseComplete"
    assert record["requestURI"] == f"/api/v1/namespaces/{ns}/serviceaccounts/none?fieldManager=m"
    assert record["verb"] == "get"
    assert record["user"]["username"] == "admin"
    assert "system:masters" in record["user"]["groups"]
    assert record["sourceIPs"] == ["127.0.0.1"]
    assert record["userAgent"] == "conformance/1"
    assert record["objectRef"] == {
        "resource": "serviceaccounts",
        "namespace": ns,
        "name": "none",
        "apiVersion": "v1",
    }
    assert record["responseStatus"]["code"] == 404
    assert record["responseStatus"]["reason"] == "NotFound"
    assert record["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert MICROS.fullmatch(record["requestReceivedTimestamp"])
    assert MICROS.fullmatch(record["stageTimestamp"])
    assert "requestObject" not in record
    assert "responseObject" not in record


async def test_case_69_objects_are_told_at_the_level_for_it(log: Log, ns: str) -> None:
    (record,) = await log.of("POST", f"/api/v1/namespaces/{ns}/configmaps", config_map("a"))

    assert record["level"] == "RequestResponse"
    assert record["verb"] == "create"
    assert record["objectRef"]["name"] == "a"
    assert record["responseStatus"]["code"] == 201
    assert record["requestObject"]["data"] == {"k": "v"}
    assert record["responseObject"]["data"] == {"k": "v"}
    assert record["responseObject"]["metadata"]["name"] == "a"
    assert "managedFields" not in record["responseObject"]["metadata"]


async def test_case_69_an_update_tells_which_object_it_was_made_against(
    http: Http, log: Log, ns: str
) -> None:
    path = f"/api/v1/namespaces/{ns}/configmaps"
    made = (await http.post(path, config_map("b"))).expect(201)

    (record,) = await log.of("PUT", f"{path}/b", {**made, "data": {"k": "w"}})

    assert record["verb"] == "update"
    assert record["objectRef"]["uid"] == made["metadata"]["uid"]
    assert record["objectRef"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert record["responseObject"]["data"] == {"k": "w"}


async def test_case_69_verbs_are_those_of_the_api(log: Log, ns: str) -> None:
    path = f"/api/v1/namespaces/{ns}/configmaps"

    verbs = [
        (await log.of("GET", path))[0]["verb"],
        (await log.of("PATCH", f"{path}/none", {}))[0]["verb"],
        (await log.of("DELETE", f"{path}/none"))[0]["verb"],
        (await log.of("DELETE", path))[0]["verb"],
    ]

    assert verbs == ["list", "patch", "delete", "deletecollection"]


async def test_case_69_a_watch_is_told_when_it_starts_and_when_it_ends(log: Log, ns: str) -> None:
    records = await log.of(
        "GET", f"/api/v1/namespaces/{ns}/configmaps", lines=2, watch="1", timeoutSeconds="1"
    )

    assert [record["stage"] for record in records] == ["ResponseStarted", "ResponseComplete"]
    assert {record["verb"] for record in records} == {"watch"}
    assert {record["responseStatus"]["code"] for record in records} == {200}


async def test_case_69_the_first_rule_that_matches_decides(log: Log, ns: str) -> None:
    untold, told = str(uuid.uuid4()), str(uuid.uuid4())
    path = f"/api/v1/namespaces/{ns}/serviceaccounts/none"

    await log.http.send("DELETE", path, headers={"Audit-ID": untold})
    await log.http.send("GET", "/apis", headers={"Audit-ID": untold})
    await log.http.send("GET", path, headers={"Audit-ID": told})

    await log.marked(told)
    assert untold not in log.path.read_text()


async def test_case_69_a_failed_authentication_is_told(target: Target, log: Log, ns: str) -> None:
    mark = str(uuid.uuid4())
    stranger = Target(
        target.name, Access(target.url, target.access.ca, token="no-such-token"), target.kubeconfig
    )
    async with Http.to(stranger) as client:
        answer = await client.get(f"/api/v1/namespaces/{ns}/configmaps", headers={"Audit-ID": mark})
    assert answer.status == 401

    (record,) = await log.marked(mark)

    assert record["responseStatus"]["code"] == 401
    assert record["user"] == {}
    assert "no-such-token" not in json.dumps(record)


async def test_case_69_a_refusal_is_told_with_the_decision(target: Target, log: Log, ns: str) -> None:
    mark = str(uuid.uuid4())
    bob = Target(target.name, Access(target.url, target.access.ca, token="bob-token"), target.kubeconfig)
    async with Http.to(bob) as client:
        await client.get(f"/api/v1/namespaces/{ns}/configmaps", headers={"Audit-ID": mark})

    (record,) = await log.marked(mark)

    assert record["user"]["username"] == "bob"
    assert record["responseStatus"]["code"] == 403
    assert record["annotations"]["authorization.k8s.io/decision"] == "forbid"


async def test_case_69_who_acts_as_whom_is_told(target: Target, log: Log, ns: str) -> None:
    mark = str(uuid.uuid4())
    headers = {"Audit-ID": mark, "Impersonate-User": "carol", "Impersonate-Group": "ops"}
    async with Http.to(target) as client:
        await client.get(f"/api/v1/namespaces/{ns}/configmaps", headers=headers)

    (record,) = await log.marked(mark)

    assert record["user"]["username"] == "admin"
    assert record["impersonatedUser"]["username"] == "carol"
    assert "ops" in record["impersonatedUser"]["groups"]
