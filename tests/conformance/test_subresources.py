"""Cases 43–45: status and scale."""

from __future__ import annotations

import pytest
from tests.kit.databases import Databases
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl

pytestmark = pytest.mark.conformance


async def test_case_43_a_status_write_touches_status_alone(dbs: Databases, http: Http) -> None:
    live = await dbs.create("a")
    body = {**live, "spec": {"engine": "mysql", "replicas": 7}, "status": {"phase": "Running", "zip": 1}}
    body["metadata"] = {**live["metadata"], "labels": {"k": "v"}, "finalizers": ["nav.example.io/hold"]}

    answer = await http.put(dbs.at("a", "status"), body)

    updated = answer.expect(200)
    assert updated["spec"] == live["spec"]
    assert updated["status"] == {"phase": "Running"}
    assert updated["metadata"]["generation"] == 1
    assert "labels" not in updated["metadata"]
    assert "finalizers" not in updated["metadata"]
    assert 'unknown field "status.zip"' in answer.warnings
    assert (await http.get(dbs.at("a", "status"))).expect(200) == updated


async def test_case_44_scale_is_a_view_of_replicas(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a", replicas=2)
    status = {"status": {"replicas": 1, "selector": "app=a"}}
    (await http.patch(dbs.at("a", "status"), status)).expect(200)

    scale = (await http.get(dbs.at("a", "scale"))).expect(200)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]

    scaled = (await http.patch(dbs.at("a", "scale"), {"spec": {"replicas": 5}})).expect(200)
    assert (scaled["kind"], scaled["spec"]) == ("Scale", {"replicas": 5})
    live = await dbs.read("a")
    assert live["spec"]["replicas"] == 5
    assert live["metadata"]["generation"] == 2

    stale = {**scale, "spec": {"replicas": 6}}
    assert (await http.put(dbs.at("a", "scale"), stale)).status == 409
    assert (await http.patch(dbs.at("a", "scale"), {"spec": {"replicas": -1}})).status == 422
    current = (await http.get(dbs.at("a", "scale"))).expect(200)
    assert (await http.put(dbs.at("a", "scale"), {**current, "spec": {"replicas": 6}})).expect(200)


@pytest.mark.kubectl
async def test_case_45_kubectl_scale_checks_the_current_size(dbs: Databases, kubectl: Kubectl) -> None:
    await dbs.create("kdb", replicas=6)

    arguments = ("scale", "db", "kdb", "-n", dbs.namespace)
    shown = await kubectl(*arguments, "--replicas=7", "--current-replicas=5")

    assert shown.code == 1
    assert shown.err == "error: Expected replicas to be 5, was 6\n"
    agreed = await kubectl(*arguments, "--replicas=7", "--current-replicas=6")
    assert agreed.ok() == "database.nav.example.io/kdb scaled\n"
    assert (await dbs.read("kdb"))["spec"]["replicas"] == 7
