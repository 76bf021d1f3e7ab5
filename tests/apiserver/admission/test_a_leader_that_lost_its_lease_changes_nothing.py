"""A write made under a lease counts only while the lease is where the writer thinks it is."""

from __future__ import annotations

import asyncio

import pytest
from tests.kit.databases import Databases, database
from tests.kit.http import Http, Json

FENCE = "Pilothouse-Fence"


def leases(dbs: Databases) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{dbs.namespace}/leases"


async def elected(dbs: Databases, http: Http, holder: str) -> Json:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0}
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": spec,
    }
    return (await http.post(leases(dbs), body)).expect(201)


async def taken_over(dbs: Databases, http: Http, holder: str) -> None:
    live = (await http.get(f"{leases(dbs)}/leader")).expect(200)
    live["spec"] |= {"holderIdentity": holder, "leaseTransitions": live["spec"]["leaseTransitions"] + 1}
    (await http.put(f"{leases(dbs)}/leader", live)).expect(200)


def under(dbs: Databases, transitions: int) -> dict[str, str]:
    return {FENCE: f"{dbs.namespace}/leader/{transitions}"}


async def test_a_leader_writes_while_it_leads(dbs: Databases, http: Http) -> None:
    await elected(dbs, http, "one")
    (await http.post(dbs.path(), database("a"), headers=under(dbs, 0))).expect(201)
    await http.patch(dbs.at("a"), {"spec": {"replicas": 2}}, headers=under(dbs, 0))
    assert (await http.get(dbs.at("a"))).expect(200)["spec"]["replicas"] == 2


async def test_a_paused_leader_that_wakes_after_a_takeover_is_refused_every_write(
    dbs: Databases, http: Http
) -> None:
    await elected(dbs, http, "one")
    before = (await http.post(dbs.path(), database("a"), headers=under(dbs, 0))).expect(201)
    await taken_over(dbs, http, "two")

    late = under(dbs, 0)
    changed = {**before, "spec": {**before["spec"], "replicas": 7}}
    scale = {"spec": {"replicas": 7}}
    answers = [
        await http.post(dbs.path(), database("b"), headers=late),
        await http.put(dbs.at("a"), changed, headers=late),
        await http.patch(dbs.at("a"), {"spec": {"replicas": 7}}, headers=late),
        await http.patch(dbs.at("a", "scale"), scale, headers=late),
        await http.patch(dbs.at("a", "status"), {"status": {"phase": "Lost"}}, headers=late),
        await http.delete(dbs.at("a"), headers=late),
        await http.delete(dbs.path(), headers=late),
        await http.apply(dbs.at("b"), database("b"), "late", headers=late),
        await http.apply(dbs.at("a"), database("a", replicas=7), "late", force="true", headers=late),
    ]

    assert [(answer.status, answer.reason) for answer in answers] == [(409, "Fenced")] * len(answers)
    assert (await http.get(dbs.at("a"))).expect(200) == before
    assert (await http.get(dbs.at("b"))).status == 404
    (await http.patch(dbs.at("a"), {"spec": {"replicas": 3}}, headers=under(dbs, 1))).expect(200)


async def test_it_moves_no_pod_and_ends_no_namespace(dbs: Databases, http: Http) -> None:
    await elected(dbs, http, "one")
    namespace = f"/api/v1/namespaces/{dbs.namespace}"
    container = {"name": "main", "image": "busybox"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    (await http.post(f"{namespace}/serviceaccounts", account)).expect(201)
    (await http.post(f"{namespace}/pods", pod)).expect(201)
    before = [(await http.get(path)).expect(200) for path in (namespace, f"{namespace}/pods/p")]
    await taken_over(dbs, http, "two")

    late = under(dbs, 0)
    named = {"metadata": {"name": "p"}}
    binding = {"apiVersion": "v1", "kind": "Binding", **named, "target": {"kind": "Node", "name": "n1"}}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", **named}
    answers = [
        await http.post(f"{namespace}/pods/p/binding", binding, headers=late),
        await http.post(f"{namespace}/pods/p/eviction", eviction, headers=late),
        await http.put(f"{namespace}/finalize", {**before[0], "spec": {"finalizers": []}}, headers=late),
        await http.delete(namespace, headers=late),
    ]

    assert [(answer.status, answer.reason) for answer in answers] == [(409, "Fenced")] * len(answers)
    assert [(await http.get(path)).expect(200) for path in (namespace, f"{namespace}/pods/p")] == before


async def test_renewals_of_the_lease_do_not_stop_its_holder(dbs: Databases, http: Http) -> None:
    await elected(dbs, http, "one")
    await dbs.create("a")

    async def renew() -> None:
        for n in range(20):
            patch = {"metadata": {"annotations": {"renewed": str(n)}}}
            (await http.patch(f"{leases(dbs)}/leader", patch)).expect(200)

    async def work() -> list[int]:
        answers = []
        for n in range(20):
            patch = {"metadata": {"labels": {"round": str(n)}}}
            answers.append((await http.patch(dbs.at("a"), patch, headers=under(dbs, 0))).status)
        return answers

    _, statuses = await asyncio.gather(renew(), work())
    assert statuses == [200] * 20


async def test_a_lease_that_is_gone_fences_too(dbs: Databases, http: Http) -> None:
    answer = await http.post(dbs.path(), database("a"), headers=under(dbs, 0))
    assert (answer.status, answer.reason) == (409, "Fenced")


async def test_a_lease_that_was_made_again_is_not_the_one_that_was_deleted(
    dbs: Databases, http: Http
) -> None:
    first = await elected(dbs, http, "one")
    mine = {FENCE: f"{under(dbs, 0)[FENCE]}/{first['metadata']['uid']}"}
    (await http.post(dbs.path(), database("a"), headers=mine)).expect(201)
    await http.delete(f"{leases(dbs)}/leader")
    second = await elected(dbs, http, "two")
    late = await http.post(dbs.path(), database("b"), headers=mine)
    assert (late.status, late.reason) == (409, "Fenced")
    theirs = {FENCE: f"{under(dbs, 0)[FENCE]}/{second['metadata']['uid']}"}
    (await http.post(dbs.path(), database("b"), headers=theirs)).expect(201)


@pytest.mark.parametrize(
    "text", ["", "a", "a/b", "a/b/c", "a/b/-1", "/b/1", "a//1", "a/b/1/2", "a/b/" + "9" * 40]
)
async def test_a_fence_that_cannot_be_read_is_a_bad_request(dbs: Databases, http: Http, text: str) -> None:
    answer = await http.post(dbs.path(), database("a"), headers={FENCE: text})
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert FENCE in answer.message
