"""Two servers on one etcd: whoever is asked tells what happened on both, in order of time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.etcd import EtcdServer
from tests.kit.http import Http
from tests.kit.kubeconfig import Access
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.servers import Target
from tests.kit.waiting import eventually

pytestmark = pytest.mark.etcd

AUDIT = "/pilothouse/v1/audit"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PilothouseServer]]:
    folder = tmp_path_factory.mktemp("pair")
    etcd = EtcdServer.start(folder / "etcd")
    with contextlib.ExitStack() as stack:
        stack.callback(etcd.stop)
        servers = []
        for name in ("one", "two"):
            server = PilothouseServer(folder / name, "etcd", etcd=etcd)
            stack.callback(server.close)
            servers.append(server)
        yield servers


@pytest.fixture
async def both(pair: list[PilothouseServer]) -> AsyncIterator[list[Http]]:
    async with Http.to(pair[0].target) as one, Http.to(pair[1].target) as two:
        yield [one, two]


def names(lines: bytes) -> list[str]:
    records = [json.loads(line) for line in lines.splitlines()]
    return [record["objectRef"]["name"] for record in records if record["kind"] == "Event"]


def servers_of(lines: bytes) -> set[str]:
    return {json.loads(line)["annotations"]["pilothouse.io/instance"] for line in lines.splitlines()}


async def test_either_tells_what_happened_on_both_in_order(both: list[Http]) -> None:
    for number in range(20):
        await both[number % 2].get(f"/api/v1/namespaces/default/configmaps/order-{number}")

    for client in both:
        answer = await client.get(AUDIT, object="configmaps", namespace="default")

        found = [name for name in names(answer.body) if name.startswith("order-")]
        assert answer.warnings == []
        assert found == [f"order-{number}" for number in range(20)]
        assert len(servers_of(answer.body)) == 2


async def test_questions_are_put_to_both(both: list[Http]) -> None:
    for number in range(4):
        await both[number % 2].get(f"/api/v1/namespaces/default/configmaps/which-{number}")

    by_name = await both[0].get(AUDIT, object="cm/which-3")
    newest = await both[1].get(AUDIT, object="configmaps", limit=3)
    by_user = await both[0].get(AUDIT, user="nobody")
    alone = await both[1].get(AUDIT, object="configmaps", local="true")

    assert names(by_name.body) == ["which-3"]
    assert names(newest.body) == ["which-1", "which-2", "which-3"]
    assert by_user.body == b""
    assert len(servers_of(alone.body)) == 1


async def test_followers_see_what_happens_on_both(both: list[Http]) -> None:
    await both[1].get("/api/v1/namespaces/default/configmaps/past")
    url = both[0].url(AUDIT, {"follow": "true", "object": "configmaps", "limit": 1})
    async with both[0]._session.get(url) as answer:
        lines = answer.content
        past = [json.loads(await asyncio.wait_for(lines.readline(), 30)) for _ in range(2)]
        for number in range(10):
            await both[number % 2].get(f"/api/v1/namespaces/default/configmaps/live-{number}")
        live = [json.loads(await asyncio.wait_for(lines.readline(), 30)) for _ in range(10)]

    assert past[0]["objectRef"]["name"] == "past"
    assert (past[1]["kind"], past[1]["status"]) == ("Status", "Success")
    assert [record["objectRef"]["name"] for record in live] == [f"live-{number}" for number in range(10)]


async def test_only_those_with_the_right_may_ask(pair: list[PilothouseServer], both: list[Http]) -> None:
    target = pair[0].target
    alice = Target("alice", Access(target.url, target.access.ca, token="alice-token"), target.kubeconfig)
    async with Http.to(alice) as client:
        assert (await client.get(AUDIT)).status == 403
        binding = {
            "metadata": {"name": "alice-reads-audit"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "pilothouse:audit-reader",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        (await both[0].post(bindings, binding)).expect(201)

        async def allowed() -> bool:
            return (await client.get(AUDIT)).status == 200

        await eventually(allowed)


async def test_a_question_that_is_not_understood_is_refused(both: list[Http]) -> None:
    refused = await both[0].get(AUDIT, sinc="1h")
    written = await both[0].send("DELETE", AUDIT)

    assert (refused.status, refused.message[:24]) == (400, "unknown parameter 'sinc'")
    assert written.status == 405


async def test_an_instance_that_can_not_be_asked_is_told_of(tmp_path: Path) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    with contextlib.ExitStack() as stack:
        stack.callback(etcd.stop)
        first = PilothouseServer(tmp_path / "one", "etcd", etcd=etcd)
        stack.callback(first.close)
        second = PilothouseServer(tmp_path / "two", "etcd", etcd=etcd)
        stack.callback(second.close)
        second.process.kill()
        async with Http.to(first.target) as client:
            await client.get("/api/v1/namespaces/default/configmaps/kept")
            answer = await client.get(AUDIT, object="configmaps")

    assert names(answer.body) == ["kept"]
    (warning,) = answer.warnings
    assert f"at {second.target.url} are missing" in warning


async def test_an_instance_that_was_stopped_is_told_of_until_it_is_back(tmp_path: Path) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    with contextlib.ExitStack() as stack:
        stack.callback(etcd.stop)
        first = PilothouseServer(tmp_path / "one", "etcd", etcd=etcd)
        stack.callback(first.close)
        second = PilothouseServer(tmp_path / "two", "etcd", etcd=etcd)
        stack.callback(second.close)
        async with Http.to(first.target) as client:
            assert (await client.get(AUDIT)).warnings == []
            second.process.end()
            (warning,) = (await client.get(AUDIT)).warnings
            second.revive()
            assert (await client.get(AUDIT)).warnings == []

    assert f"last at {second.target.url}, are missing: it is not running" in warning


async def test_following_survives_the_restart_of_a_peer(tmp_path: Path) -> None:
    etcd = EtcdServer.start(tmp_path / "etcd")
    with contextlib.ExitStack() as stack:
        stack.callback(etcd.stop)
        first = PilothouseServer(tmp_path / "one", "etcd", etcd=etcd)
        stack.callback(first.close)
        second = PilothouseServer(tmp_path / "two", "etcd", etcd=etcd)
        stack.callback(second.close)
        async with Http.to(first.target) as client, Http.to(second.target) as other:
            url = client.url(AUDIT, {"follow": "true", "object": "configmaps", "limit": 1})
            async with client._session.get(url) as answer:
                told = [json.loads(await asyncio.wait_for(answer.content.readline(), 30))]
                await other.get("/api/v1/namespaces/default/configmaps/before")
                told.append(json.loads(await asyncio.wait_for(answer.content.readline(), 30)))
                second.restart()
                await other.get("/api/v1/namespaces/default/configmaps/after")
                while told[-1].get("objectRef", {}).get("name") != "after":
                    told.append(json.loads(await asyncio.wait_for(answer.content.readline(), 60)))

    records = [each["objectRef"]["name"] for each in told if each["kind"] == "Event"]
    assert records == ["before", "after"]
    failures = [each["message"] for each in told if each.get("status") == "Failure"]
    assert any(f"at {second.target.url} may be missing" in message for message in failures)
