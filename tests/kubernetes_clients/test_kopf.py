"""Case 70: an operator written with kopf does its work against the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.databases import Databases
from tests.kit.http import Http
from tests.kit.processes import Process
from tests.kit.servers import Server, Target
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.conformance, pytest.mark.clients]

OPERATOR = Path(__file__).parent / "operators" / "growing.py"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


@pytest.fixture
def operator(target: Target, ns: str, tmp_path: Path) -> Iterator[Process]:
    argv = [sys.executable, "-m", "kopf", "run", "--standalone", "--verbose", "-n", ns, str(OPERATOR)]
    env = {"KUBECONFIG": str(target.kubeconfig), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    process = Process.start("kopf", argv, log=tmp_path / "kopf.log", env=env)
    yield process
    process.end(seconds=5)


async def status_becomes(dbs: Databases, name: str, phase: str, replicas: int) -> None:
    async def has_become() -> bool:
        status = (await dbs.read(name)).get("status", {})
        return (status.get("phase"), status.get("replicas")) == (phase, replicas)

    await eventually(has_become, seconds=60)


async def test_case_70_a_kopf_operator_sees_creation_update_and_deletion(
    operator: Process, dbs: Databases, http: Http
) -> None:
    await dbs.create("a", replicas=2)
    await status_becomes(dbs, "a", "Created", 2)
    live = await dbs.read("a")
    assert live["metadata"]["finalizers"] == [FINALIZER]
    assert live["metadata"]["generation"] == 1

    (await http.patch(dbs.at("a"), {"spec": {"replicas": 5}})).expect(200)
    await status_becomes(dbs, "a", "Scaled", 5)

    async def greeted() -> bool:
        events = (await http.get(f"/api/v1/namespaces/{dbs.namespace}/events")).expect(200)["items"]
        return any(
            event["reason"] == "Greeted" and event["involvedObject"]["name"] == "a" for event in events
        )

    await eventually(greeted)
    (await http.delete(dbs.at("a"))).expect(200)

    async def is_gone() -> bool:
        return (await http.get(dbs.at("a"))).status == 404

    await eventually(is_gone, seconds=60)
    assert f"farewell {dbs.namespace}/a" in operator.output()


async def test_case_54_a_kopf_operator_goes_on_after_the_server_was_away(
    operator: Process, dbs: Databases, lasting: Server
) -> None:
    before = await dbs.revision()
    await dbs.create("a")
    await status_becomes(dbs, "a", "Created", 1)

    lasting.forget_history(dbs.path(), before)
    lasting.restart()

    async def is_served() -> bool:
        return (await dbs.http.get(dbs.at("a"))).status == 200

    await eventually(is_served)
    await dbs.create("b", replicas=3)
    await status_becomes(dbs, "b", "Created", 3)
