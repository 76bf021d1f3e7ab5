"""A token as it is used: against a server process, again and again over one connection, which has ways of its own to be quick."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kit.http import Http
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.sample_installation import IMAGE, LABEL, NAVIGATOR, PILOT, POOL
from tests.kit.servers import Target

MERGE = "application/merge-patch+json"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    server = PilothouseServer(tmp_path / "server", "memory")
    yield server.target
    server.close()


@pytest.fixture
async def admin(target: Target) -> AsyncIterator[Http]:
    async with Http.to(target) as client:
        yield client


async def pilot_token(admin: Http) -> str:
    """The token of a pod whose Pilot the cluster demo controls, besides which there is the cluster logs."""
    version = NAVIGATOR.removeprefix("/apis/")
    kind = {"apiVersion": version, "kind": "ElasticsearchCluster"}
    spec = {"version": "8.17.0", "pilotImage": IMAGE, "image": IMAGE, "nodePools": [POOL]}
    path = f"{NAVIGATOR}/namespaces/default"
    uids = {}
    for name in ("demo", "logs"):
        cluster = {**kind, "metadata": {"name": name}, "spec": spec}
        uids[name] = (await admin.post(f"{path}/elasticsearchclusters", cluster)).expect(201)["metadata"][
            "uid"
        ]
        secret = {"metadata": {"name": name, "labels": {LABEL: name}}, "stringData": {"p": "s3cret"}}
        (await admin.post(SECRETS, secret)).expect(201)
    pod = {"metadata": {"name": "es-demo-0"}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    (await admin.post(PODS, pod)).expect(201)
    owner = {**kind, "name": "demo", "uid": uids["demo"], "controller": True}
    pilot = {**PILOT, "metadata": {"name": "es-demo-0", "ownerReferences": [owner]}}
    (await admin.post(f"{path}/pilots", pilot)).expect(201)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "es-demo-0"}
    answer = await admin.post(f"{ACCOUNTS}/default/token", {"spec": {"boundObjectRef": bound}})
    return str(answer.expect(201)["status"]["token"])


async def test_a_connection_that_was_allowed_once_is_judged_each_time(target: Target, admin: Http) -> None:
    token = await pilot_token(admin)
    access = dataclasses.replace(target.access, cert=None, key=None, token=token)
    async with Http.to(dataclasses.replace(target, access=access)) as pilot:
        for _ in range(3):
            for client, name, status in ((admin, "logs", 200), (pilot, "demo", 200), (pilot, "logs", 403)):
                assert (await client.get(f"{SECRETS}/{name}")).status == status
        patch = {"metadata": {"labels": {LABEL: "logs"}}}
        (await admin.patch(f"{SECRETS}/demo", patch)).expect(200)
        assert (await pilot.get(f"{SECRETS}/demo")).status == 403
        (await admin.delete(f"{PODS}/es-demo-0", gracePeriodSeconds="0")).expect(200)
        assert (await pilot.get(f"{SECRETS}/logs")).status == 401


async def test_nodes_are_told_where_ranges_lie_and_pilots_and_strangers_are_not(
    target: Target, admin: Http
) -> None:
    page = "/pilothouse/v1/network"
    assert (await admin.get(page)).expect(200) == {
        "clusterCidrs": ["10.44.0.0/16"],
        "serviceCidrs": ["127.96.0.0/16"],
    }
    node = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}
    assert (await admin.send("GET", page, headers=node)).status == 200
    stranger = {"Impersonate-User": "alice"}
    assert (await admin.send("GET", page, headers=stranger)).status == 403
    token = await pilot_token(admin)
    access = dataclasses.replace(target.access, cert=None, key=None, token=token)
    async with Http.to(dataclasses.replace(target, access=access)) as pilot:
        assert (await pilot.get(page)).status == 403


async def test_a_node_is_where_it_calls_from(target: Target, admin: Http) -> None:
    """From the server's own machine: it may be at loopback, and nowhere beside the cluster."""
    node = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}
    made = await admin.send("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}}, headers=node)
    made.expect(201)
    for address, status in (("203.0.113.7", 403), ("127.0.0.1", 200)):
        body = {"status": {"addresses": [{"type": "InternalIP", "address": address}]}}
        answer = await admin.send("PATCH", "/api/v1/nodes/n1/status", body, type=MERGE, headers=node)
        assert answer.status == status, answer.body
