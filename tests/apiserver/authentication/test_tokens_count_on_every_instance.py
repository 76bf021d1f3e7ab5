"""A token made on one instance is good on another at once, however far that one is behind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from tests.kit.etcd import EtcdServer
from tests.kit.http import Http
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.servers import Target

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"
ROUNDS = 20

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    folder = tmp_path_factory.mktemp("instances")
    etcd = EtcdServer.start(folder / "etcd")
    servers: list[PilothouseServer] = []
    try:
        servers += [PilothouseServer(folder / name, "etcd", etcd=etcd) for name in ("one", "two")]
        yield servers[0].target, servers[1].target
    finally:
        for server in servers:
            server.close()
        etcd.stop()


async def test_a_token_is_good_at_once(instances: tuple[Target, Target]) -> None:
    one, two = instances
    async with Http.to(one) as here, Http.to(two) as there:
        for number in range(ROUNDS):
            name = f"robot-{number}"
            (await here.post(ACCOUNTS, {"metadata": {"name": name}})).expect(201)
            spec = {"serviceAccountName": name, "containers": [{"name": "c", "image": "i"}]}
            (await here.post(PODS, {"metadata": {"name": name}, "spec": spec})).expect(201)
            bound = {"boundObjectRef": {"kind": "Pod", "name": name}}
            minted = (await here.post(f"{ACCOUNTS}/{name}/token", {"spec": bound})).expect(201)
            token = minted["status"]["token"]
            access = dataclasses.replace(two.access, cert=None, key=None, token=token)
            async with Http.to(dataclasses.replace(two, access=access)) as robot:
                assert (await robot.get("/apis")).status == 200
            reviewed = (await there.post(REVIEW, {"spec": {"token": token}})).expect(201)
            assert reviewed["status"]["authenticated"], reviewed


async def test_a_token_of_something_deleted_is_good_nowhere(instances: tuple[Target, Target]) -> None:
    one, two = instances
    async with Http.to(one) as here, Http.to(two) as there:
        (await here.post(ACCOUNTS, {"metadata": {"name": "short"}})).expect(201)
        minted = (await here.post(f"{ACCOUNTS}/short/token", {"spec": {}})).expect(201)
        token = {"spec": {"token": minted["status"]["token"]}}
        (await here.delete(f"{ACCOUNTS}/short")).expect(200)
        for http in (here, there):
            # A read brings an instance up to the present.
            assert (await http.get(f"{ACCOUNTS}/short")).status == 404
            assert "authenticated" not in (await http.post(REVIEW, token)).expect(201)["status"]
