"""Cases 61 and 63: what the garbage collector and the namespace controller ask of a server.

Both are the real ones, of kube-controller-manager, whatever server they are attached to; and again, on our server, our own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.test_deleting import HOLD, owner
from tests.kit.databases import Databases, database
from tests.kit.http import Http, Json
from tests.kit.kube import NAME, controller_manager
from tests.kit.kubectl import Kubectl
from tests.kit.managers import started
from tests.kit.processes import Process
from tests.kit.servers import Target
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module", autouse=True, params=[pytest.param("theirs", marks=pytest.mark.long), "ours"])
def controllers(
    request: pytest.FixtureRequest, target: Target, kinds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("controllers")
    if request.param == "theirs":
        with controller_manager(target, folder) as process:
            yield process
        return
    if target.name == NAME:
        pytest.skip("a real Kubernetes collects garbage itself, so these controllers of ours stay off")
    process = started(target.kubeconfig, folder, "--no-leader-elect", "--controllers=garbage,namespaces")
    try:
        yield process
    finally:
        process.end()


async def family(dbs: Databases) -> tuple[Json, Json]:
    """A parent, and a child that blocks its deletion."""
    parent = await dbs.create("parent")
    reference = {**owner("parent", parent["metadata"]["uid"]), "blockOwnerDeletion": True}
    child = await dbs.create("child", metadata={"ownerReferences": [reference]})
    return parent, child


async def gone(http: Http, path: str) -> None:
    async def is_gone() -> bool:
        return (await http.get(path)).status == 404

    await eventually(is_gone, seconds=60)


async def test_case_61_foreground_deletes_the_child_first(dbs: Databases, http: Http) -> None:
    _, child = await family(dbs)
    async with http.watch(dbs.path(), resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        marked = (await http.delete(dbs.at("parent"), {"propagationPolicy": "Foreground"})).expect(200)
        events = await watch.until("DELETED", "parent")

    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert [event.name for event in events if event.type == "DELETED"] == ["child", "parent"]


async def test_owners_in_a_ring_do_not_block_each_other(dbs: Databases, http: Http) -> None:
    names = ("a", "b", "c")
    uids = {name: (await dbs.create(name))["metadata"]["uid"] for name in names}
    for name, above in zip(names, ("c", "a", "b"), strict=True):
        reference = {**owner(above, uids[above]), "controller": True, "blockOwnerDeletion": True}
        patch = {"metadata": {"ownerReferences": [reference]}}
        (await http.patch(dbs.at(name), patch)).expect(200)
    (await http.delete(dbs.at("a"), {"propagationPolicy": "Foreground"})).expect(200)

    for name in names:
        await gone(http, dbs.at(name))


async def test_case_61_orphan_keeps_the_child_without_owner(dbs: Databases, http: Http) -> None:
    await family(dbs)
    marked = (await http.delete(dbs.at("parent"), {"propagationPolicy": "Orphan"})).expect(200)
    assert marked["metadata"]["finalizers"] == ["orphan"]

    await gone(http, dbs.at("parent"))
    assert "ownerReferences" not in (await dbs.read("child"))["metadata"]


async def test_case_61_background_deletes_the_parent_at_once(dbs: Databases, http: Http) -> None:
    await family(dbs)
    (await http.delete(dbs.at("parent"), {"propagationPolicy": "Background"})).expect(200)

    assert (await http.get(dbs.at("parent"))).status == 404
    await gone(http, dbs.at("child"))


async def test_case_61_a_child_of_nobody_is_collected(dbs: Databases, http: Http) -> None:
    reference = owner("never", "00000000-0000-0000-0000-00000000dead")
    (await http.post(dbs.path(), database("child", metadata={"ownerReferences": [reference]}))).expect(201)

    await gone(http, dbs.at("child"))


@pytest.mark.kubectl
@pytest.mark.parametrize(
    ("cascade", "survivors"), [("foreground", []), ("background", []), ("orphan", ["child"])]
)
async def test_case_61_kubectl_delete_cascades(
    dbs: Databases, kubectl: Kubectl, cascade: str, survivors: list[str]
) -> None:
    await family(dbs)

    (await kubectl("delete", "db", "parent", "-n", dbs.namespace, f"--cascade={cascade}")).ok()

    async def is_settled() -> bool:
        return await dbs.names() == survivors

    await eventually(is_settled, seconds=60)


async def test_case_63_a_namespace_ends_when_its_last_object_lets_go(dbs: Databases, http: Http) -> None:
    namespace = f"/api/v1/namespaces/{dbs.namespace}"
    await dbs.create("held", metadata={"finalizers": [HOLD]})

    terminating = (await http.delete(namespace)).expect(200)
    assert terminating["status"]["phase"] == "Terminating"
    refused = await http.post(dbs.path(), database("late"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.causes[0].reason == "NamespaceTerminating"

    async def says_why() -> bool:
        status = (await http.get(namespace)).expect(200)["status"]
        conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
        return conditions.get("NamespaceFinalizersRemaining") == "True"

    await eventually(says_why, seconds=60)
    (await http.patch(dbs.at("held"), {"metadata": {"finalizers": None}})).expect(200)
    await gone(http, namespace)


async def test_case_63_the_default_namespace_stays(http: Http) -> None:
    async def is_there() -> bool:
        return (await http.get("/api/v1/namespaces/default")).status == 200

    await eventually(is_there)
    answer = await http.delete("/api/v1/namespaces/default")
    assert (answer.status, answer.reason) == (403, "Forbidden")
