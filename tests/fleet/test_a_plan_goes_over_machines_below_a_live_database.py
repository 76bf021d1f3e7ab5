"""A plan updates three machines below a live Elasticsearch, while its configuration rolls and a machine is drained by hand.

What takes a node of the database down spends from one disruption budget: never are two of them down at once, and no acknowledged
document is lost. A gate on the database's health holds the next machine, or rolls the wave back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.fleet.updated_databases import (
    SECONDS,
    UpdatedDatabases,
    has_ended,
    is_whole,
    targets,
    updated_databases,
)
from tests.kit.network_namespaces import missing
from tests.kit.real_elasticsearch import ANY_DISK
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ElasticsearchCluster, Node, Pod
from pilothouse.api.objects import Object
from pilothouse.client.api import Api

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

GREEN = {
    "name": "demo-is-green",
    "apiVersion": ElasticsearchCluster.api_version,
    "kind": "ElasticsearchCluster",
    "namespace": "default",
    "objectName": "demo",
    "expression": "self.status.health == 'Green'",
}
IN_PLACE = {"strategy": "none"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpdatedDatabases]:
    with updated_databases(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.fixture
async def api(fleet: UpdatedDatabases) -> AsyncIterator[Api]:
    async with fleet.api() as api:
        await fleet.until(fleet.cluster, is_whole, api)
        yield api


async def uids(api: Api) -> set[str]:
    return {pod.uid for pod in (await api.list(Pod, "default")).objects}


async def going(seen: list[str]) -> bool:
    return "one down" in seen


async def replicas(fleet: UpdatedDatabases, api: Api, count: int) -> None:
    """An index of which a database of three nodes has not enough, or has all, copies."""
    health = "Green" if count < 3 else "Yellow"
    if count < 3:
        await fleet.ask(api, "DELETE", "/wide")
    else:
        await fleet.ask(api, "PUT", "/wide", {"settings": {"number_of_replicas": count}})
    await fleet.until(fleet.cluster, lambda cluster: cluster.status.get("health") == health, api)


async def test_never_two_nodes_are_down_and_no_acknowledged_document_is_lost(
    fleet: UpdatedDatabases, api: Api
) -> None:
    before, pods = await fleet.cluster(api), await uids(api)
    async with fleet.watched() as seen, fleet.written() as acknowledged:
        await fleet.run_plan(api, "v2.0.0")
        await eventually(lambda: going(seen), seconds=SECONDS)
        config = {"config": {**ANY_DISK, "search.max_buckets": 12345}}
        await api.patch(ElasticsearchCluster, "demo", "default", {"spec": config})
        drain = ("drain", "m3", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
        async with fleet.kubectl.started(*drain) as draining:
            out, err = await draining.communicate()
            assert draining.returncode == 0, (out, err)
        (await fleet.kubectl("uncordon", "m3")).ok()
        plan = await fleet.until(fleet.plan, has_ended, api)
        after = await fleet.until(fleet.cluster, is_whole, api)
    assert plan.status["state"] == "Completed", plan.status
    assert fleet.versions() == ["v2.0.0"] * 3
    assert b"evicting pod default/es-demo-data-" in out + err
    assert not pods & await uids(api)
    settings = (await fleet.ask(api, "GET", "/_nodes/settings"))["nodes"].values()
    assert [each["settings"]["search"]["max_buckets"] for each in settings] == ["12345"] * 3
    assert not any(node.spec.get("unschedulable") for node in (await api.list(Node)).objects)
    assert after.status["clusterUUID"] == before.status["clusterUUID"]
    assert len(acknowledged) > 100


async def test_a_gate_on_its_health_holds_the_next_machine(fleet: UpdatedDatabases, api: Api) -> None:
    await fleet.run_plan(api, "v3.0.0", gates=[GREEN], drain=IN_PLACE)
    await fleet.until(fleet.plan, lambda plan: "startedTime" in targets(plan).get("m1", ()), api)
    await fleet.pause(api, True)
    await replicas(fleet, api, 3)
    await fleet.pause(api, False)

    def is_held(plan: Object) -> bool:
        return (plan.condition("Progressing") or {}).get("reason") == "GateClosed"

    held = await fleet.until(fleet.plan, is_held, api)
    assert "gate demo-is-green: " in (held.condition("Progressing") or {})["message"]
    # It is looked at again, and is still shut.
    answered = held.status["answers"]["number"]
    held = await fleet.until(
        fleet.plan, lambda plan: plan.at("status", "answers", "number", default=0) > answered, api
    )
    began = {name for name, target in targets(held).items() if target.get("startedTime")}
    assert began == {"m1"}
    assert "v3.0.0" not in fleet.versions()[1:]
    await replicas(fleet, api, 1)
    plan = await fleet.until(fleet.plan, has_ended, api)
    assert plan.status["state"] == "Completed", plan.status
    assert fleet.versions() == ["v3.0.0"] * 3


async def test_a_gate_that_closes_rolls_the_wave_back(fleet: UpdatedDatabases, api: Api) -> None:
    before = fleet.versions()
    gate = {**GREEN, "when": "during"}
    await fleet.run_plan(api, "v4.0.0", gates=[gate], drain=IN_PLACE, onFailure="rollback")
    await fleet.until(fleet.plan, lambda plan: "startedTime" in targets(plan).get("m1", ()), api)
    await fleet.pause(api, True)
    await fleet.until(fleet.plan, lambda plan: targets(plan)["m1"]["state"] == "SignalCompleted", api)
    assert fleet.versions() == ["v4.0.0", *before[1:]]
    await replicas(fleet, api, 3)
    await fleet.pause(api, False)
    plan = await fleet.until(fleet.plan, has_ended, api)
    assert plan.status["state"] == "ApplyFailed"
    failure = plan.condition("Failed") or {}
    assert failure["reason"] == "WorkerFailed"
    assert "worker m2: gate demo-is-green: " in failure["message"]
    states = {name: target["state"] for name, target in targets(plan).items()}
    assert states["m1"] == "SignalRolledBack"
    assert states["m2"] in ("SignalRolledBack", "SignalApplyFailed")
    assert states["m3"] == "SignalPending"
    assert fleet.versions() == before
    await replicas(fleet, api, 1)
