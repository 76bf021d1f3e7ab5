"""Deployments, ReplicaSets, DaemonSets, Jobs, CronJobs and PodTemplates: defaults, faults, scale, status and columns."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit import kube
from tests.kit.http import TABLE, Http, Json

pytestmark = pytest.mark.conformance

POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
SELECTED = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
ONCE = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
BODIES: dict[str, tuple[str, str, Json]] = {
    "deployments": ("apps/v1", "Deployment", {"spec": SELECTED}),
    "replicasets": ("apps/v1", "ReplicaSet", {"spec": SELECTED}),
    "daemonsets": ("apps/v1", "DaemonSet", {"spec": SELECTED}),
    "jobs": ("batch/v1", "Job", {"spec": ONCE}),
    "cronjobs": ("batch/v1", "CronJob", {"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": ONCE}}}),
    "podtemplates": ("v1", "PodTemplate", {"template": TEMPLATE}),
}


def path(ns: str, plural: str, *more: str) -> str:
    version = BODIES[plural][0]
    return "/".join([f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{ns}/{plural}", *more])


def body(plural: str, **spec: Any) -> Json:
    version, kind, parts = BODIES[plural]
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **parts}
    return {**made, "spec": {**made["spec"], **spec}} if spec else made


async def create(http: Http, ns: str, plural: str, **spec: Any) -> Json:
    return (await http.post(path(ns, plural), body(plural, **spec))).expect(201)


def within(whole: Any, part: Any) -> bool:
    """Whether all that is in one is in the other."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(within(whole.get(key), part[key]) for key in part)
    return bool(whole == part)


@pytest.mark.parametrize(
    ("plural", "defaults"),
    [
        (
            "deployments",
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                },
                "template": {"spec": {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}},
            },
        ),
        ("replicasets", {"replicas": 1, "template": {"spec": {"restartPolicy": "Always"}}}),
        (
            "daemonsets",
            {
                "revisionHistoryLimit": 10,
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                },
            },
        ),
        (
            "jobs",
            {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "manualSelector": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
        (
            "cronjobs",
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": {"spec": {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}}},
            },
        ),
    ],
)
async def test_defaults(http: Http, ns: str, plural: str, defaults: Json) -> None:
    created = await create(http, ns, plural)
    assert within(created["spec"], defaults), created["spec"]
    assert created["metadata"]["generation"] == 1


async def test_a_job_selects_its_own_pods(http: Http, ns: str) -> None:
    job = await create(http, ns, "jobs")
    uid = job["metadata"]["uid"]
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    }


@pytest.mark.parametrize(
    ("plural", "spec", "reason", "field"),
    [
        ("deployments", {"replicas": -1}, "FieldValueInvalid", "spec.replicas"),
        ("deployments", {"selector": {}}, "FieldValueInvalid", "spec.selector"),
        (
            "deployments",
            {"selector": {"matchLabels": {"x": "y"}}},
            "FieldValueInvalid",
            "spec.template.metadata.labels",
        ),
        (
            "deployments",
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "FieldValueForbidden",
            "spec.strategy.rollingUpdate",
        ),
        (
            "deployments",
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "FieldValueInvalid",
            "spec.strategy.rollingUpdate.maxUnavailable",
        ),
        ("deployments", {"progressDeadlineSeconds": 0}, "FieldValueInvalid", "spec.progressDeadlineSeconds"),
        (
            "replicasets",
            {"template": {**TEMPLATE, "spec": {**POD, "restartPolicy": "Never"}}},
            "FieldValueNotSupported",
            "spec.template.spec.restartPolicy",
        ),
        ("daemonsets", {"minReadySeconds": -1}, "FieldValueInvalid", "spec.minReadySeconds"),
        ("jobs", {"template": {"spec": POD}}, "FieldValueRequired", "spec.template.spec.restartPolicy"),
        ("jobs", {"completionMode": "Indexed", "parallelism": 1}, "FieldValueRequired", "spec.completions"),
        ("jobs", {"backoffLimit": -1}, "FieldValueInvalid", "spec.backoffLimit"),
        ("jobs", {"backoffLimitPerIndex": 1}, "FieldValueInvalid", "spec.backoffLimitPerIndex"),
        ("cronjobs", {"schedule": ""}, "FieldValueRequired", "spec.schedule"),
        ("cronjobs", {"schedule": "* * * *"}, "FieldValueInvalid", "spec.schedule"),
        ("cronjobs", {"schedule": "61 * * * *"}, "FieldValueInvalid", "spec.schedule"),
        ("cronjobs", {"schedule": "TZ=UTC 1 * * * *"}, "FieldValueInvalid", "spec.schedule"),
        ("cronjobs", {"timeZone": "Nowhere/At_All"}, "FieldValueInvalid", "spec.timeZone"),
        ("cronjobs", {"concurrencyPolicy": "Never"}, "FieldValueNotSupported", "spec.concurrencyPolicy"),
    ],
)
async def test_faults(http: Http, ns: str, plural: str, spec: Json, reason: str, field: str) -> None:
    answer = await http.post(path(ns, plural), body(plural, **spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert (reason, field) in [(cause.reason, cause.field) for cause in answer.causes], answer.causes


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
async def test_a_selector_is_for_good(http: Http, ns: str, plural: str) -> None:
    await create(http, ns, plural)
    labels = {"app": "b"}
    patch = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
    answer = await http.patch(path(ns, plural, "a"), patch)
    assert answer.status == 422
    assert [(cause.reason, cause.field) for cause in answer.causes] == [
        ("FieldValueInvalid", "spec.selector")
    ]


async def test_what_a_job_runs_is_for_good(http: Http, ns: str) -> None:
    await create(http, ns, "jobs")
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}
    answer = await http.patch(path(ns, "jobs", "a"), image)
    assert answer.status == 422
    assert "spec.template" in [cause.field for cause in answer.causes]
    assert (await http.patch(path(ns, "jobs", "a"), {"spec": {"parallelism": 3}})).status == 200


@pytest.mark.parametrize("plural", ["deployments", "replicasets"])
async def test_scale(http: Http, ns: str, plural: str) -> None:
    await create(http, ns, plural)
    at = path(ns, plural, "a", "scale")
    scale = (await http.get(at)).expect(200)
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "app=a"})
    (await http.patch(at, {"spec": {"replicas": 4}})).expect(200)
    live = (await http.get(path(ns, plural, "a"))).expect(200)
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (4, 2)


@pytest.mark.parametrize(
    ("plural", "status"),
    [
        ("deployments", {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
        ("replicasets", {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}),
        ("jobs", {"active": 1}),
        ("cronjobs", {"lastScheduleTime": "2026-01-01T00:00:00Z"}),
    ],
)
async def test_status(http: Http, ns: str, plural: str, status: Json) -> None:
    await create(http, ns, plural)
    at = path(ns, plural, "a", "status")
    patched = (await http.patch(at, {"status": status, "spec": {"replicas": 9}})).expect(200)
    assert within(patched["status"], status)
    assert patched["spec"].get("replicas") != 9
    assert patched["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("plural", "names", "cells"),
    [
        ("deployments", "Name Ready Up-to-date Available", ["a", "0/1", 0, 0]),
        ("replicasets", "Name Desired Current Ready", ["a", 1, 0, 0]),
        (
            "daemonsets",
            "Name Desired Current Ready Up-to-date Available Node,Selector",
            ["a", 0, 0, 0, 0, 0, "<none>"],
        ),
        ("jobs", "Name Status Completions Duration", ["a", "Running", "0/1", ""]),
        (
            "cronjobs",
            "Name Schedule Timezone Suspend Active Last,Schedule",
            ["a", "*/5 * * * *", "<none>", "False", 0, "<none>"],
        ),
        ("podtemplates", "Name Containers Images Pod,Labels", ["a", "c", "i", "app=a"]),
    ],
)
async def test_columns(http: Http, ns: str, plural: str, names: str, cells: list[Any]) -> None:
    await create(http, ns, plural)
    table = (await http.get(path(ns, plural), accept=TABLE)).expect(200)
    shown = [each["name"] for each in table["columnDefinitions"]]
    wanted = [name.replace(",", " ") for name in names.split()]
    assert shown[: len(wanted)] == wanted
    assert table["rows"][0]["cells"][: len(cells)] == cells
    if plural != "podtemplates":
        assert shown[len(wanted) :] == ["Age", "Containers", "Images", "Selector"]
        assert table["rows"][0]["cells"][-3:-1] == ["c", "i"]


@pytest.mark.parametrize("plural", sorted(BODIES))
async def test_only_ours_says_that_nothing_comes_of_it(http: Http, ns: str, plural: str) -> None:
    answer = await http.post(path(ns, plural), body(plural))
    created = answer.expect(201)
    unattended = http.target.name != kube.NAME and plural != "podtemplates"

    assert any("no controller" in text for text in answer.warnings) is unattended
    conditions = (created.get("status") or {}).get("conditions") or []
    said = [each for each in conditions if each["reason"] == "NoController"]
    assert bool(said) is (unattended and plural != "cronjobs")
    for each in said:
        assert (each["type"], each["status"]) == ("Reconciled", "False")
        assert "no controller" in each["message"]
