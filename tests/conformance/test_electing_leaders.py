"""Case 74: a Lease is held by one."""

from __future__ import annotations

import asyncio
import datetime
import re

import pytest
from tests.kit.databases import Databases
from tests.kit.http import Http, Json

pytestmark = pytest.mark.conformance


def lease(holder: str) -> Json:
    """A Lease as client-go writes it: times with six decimals."""
    moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": 0,
        },
    }


async def test_case_74_of_many_candidates_one_takes_the_lease(dbs: Databases, http: Http) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{dbs.namespace}/leases"
    candidates = [f"c{n}" for n in range(10)]

    created = await asyncio.gather(*(http.post(path, lease(candidate)) for candidate in candidates))
    assert sorted(answer.status for answer in created) == [201, *[409] * 9]
    first = next(answer.json for answer in created if answer.status == 201)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["spec"]["renewTime"])

    # The lease runs out: everyone saw the same version, and tries to take over from it.
    def takeover(candidate: str) -> Json:
        return {**first, "spec": {**lease(candidate)["spec"], "leaseTransitions": 1}}

    taken = await asyncio.gather(*(http.put(f"{path}/leader", takeover(c)) for c in candidates))
    assert sorted(answer.status for answer in taken) == [200, *[409] * 9]
    winner = next(answer.json for answer in taken if answer.status == 200)
    live = (await http.get(f"{path}/leader")).expect(200)
    assert live["spec"] == winner["spec"]

    renewed = {**live, "spec": {**live["spec"], "renewTime": lease("x")["spec"]["renewTime"]}}
    (await http.put(f"{path}/leader", renewed)).expect(200)
    stale = await http.put(f"{path}/leader", renewed)
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert "the object has been modified" in stale.message


async def test_a_lease_that_does_not_exist_is_made_by_an_update(dbs: Databases, http: Http) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{dbs.namespace}/leases/leader"
    (await http.put(path, lease("one"))).expect(201)
    again = await http.put(path, lease("two"))
    assert (again.status, [cause.field for cause in again.causes]) == (422, ["metadata.resourceVersion"])
