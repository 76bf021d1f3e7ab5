"""Cases 43–45: status and scale."""

from __future__ import annotations

import pytest
from tests.conformance.test_workloads import body as workload
from tests.conformance.test_workloads import path as workload_path
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


@pytest.mark.parametrize("plural", ["replicasets", "daemonsets", "jobs", "cronjobs", "deployments"])
async def test_labels_and_annotations_come_with_the_status_of_a_built_in_kind(
    http: Http, ns: str, plural: str
) -> None:
    (await http.post(workload_path(ns, plural), workload(plural))).expect(201)

    said = {"labels": {"l": "1"}, "annotations": {"n": "1"}}
    patched = await http.patch(workload_path(ns, plural, "a", "status"), {"metadata": said})

    metadata = patched.expect(200)["metadata"]
    assert metadata["annotations"]["n"] == "1"
    # Kubernetes leaves out the labels of one kind alone.
    assert ("l" in (metadata.get("labels") or {})) is (plural != "deployments")
    (entry,) = (each for each in metadata["managedFields"] if each.get("subresource") == "status")
    assert "f:n" in entry["fieldsV1"]["f:metadata"]["f:annotations"]


async def test_labels_do_not_come_with_the_status_of_a_custom_kind(dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    patched = await http.patch(dbs.at("a", "status"), {"metadata": {"labels": {"l": "1"}}})
    assert "labels" not in patched.expect(200)["metadata"]


async def test_a_role_is_one_of_rbac_unless_it_is_said(http: Http, ns: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"
    for name, group in (("absent", {}), ("empty", {"apiGroup": ""})):
        body = {"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": "view", **group}}
        created = (await http.post(path, body)).expect(201)
        assert created["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"


async def test_events_are_selected_by_who_reports_them(http: Http, ns: str) -> None:
    about = {"kind": "Pod", "namespace": ns, "name": "p"}
    old = {"metadata": {"name": "old"}, "involvedObject": about, "source": {"component": "one"}}
    new = {
        "metadata": {"name": "new"},
        "regarding": about,
        "reportingController": "two",
        "reportingInstance": "i",
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    core = f"/api/v1/namespaces/{ns}/events"
    grouped = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
    (await http.post(core, old)).expect(201)
    (await http.post(grouped, new)).expect(201)

    async def names(path: str, selector: str) -> list[str]:
        listed = (await http.get(path, fieldSelector=selector)).expect(200)
        return [each["metadata"]["name"] for each in listed["items"]]

    assert await names(core, "source=one") == ["old"]
    assert await names(core, "source=two") == ["new"]
    assert await names(core, "reportingComponent=two") == ["new"]
    assert await names(grouped, "reportingController=two") == ["new"]
    assert (await http.get(core, fieldSelector="reportingController=two")).status == 400
    assert (await http.get(grouped, fieldSelector="source=one")).status == 400


async def test_a_year_keeps_its_zeros(http: Http, ns: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    early = "0007-06-05T04:03:02.500000Z"
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "renewTime": early}}
    created = (await http.post(path, lease)).expect(201)
    read = (await http.get(f"{path}/a")).expect(200)
    assert created["spec"]["renewTime"] == read["spec"]["renewTime"] == early
    (await http.put(f"{path}/a", read)).expect(200)
