"""The account has every right that RBAC can give; see the fixture. Nothing that is refused is written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.sample_installation import LABEL, PILOT, SampleInstallation

from pilothouse.apiserver.server.messages import User

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
READY: Json = {"conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": ""}]}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def about(kind: str, name: str, namespace: str = "shop", **more: Any) -> Json:
    return {
        "metadata": {"generateName": "said-"},
        "involvedObject": {"kind": kind, "name": name, "namespace": namespace},
        "reason": "Said",
        "message": "so",
        **more,
    }


# What it is for


def test_it_writes_the_status_of_its_own_pilot(shop: SampleInstallation, pilot: User) -> None:
    path = shop.at("pilots", "es-demo-0", sub="status")
    shop.send("PATCH", path, {"status": READY}, type=MERGE, user=pilot).expect(200)
    whole = {**shop.read("pilots", "es-demo-0"), "status": READY}
    shop.send("PUT", path, whole, user=pilot).expect(200)
    applied = {**PILOT, "metadata": {"name": "es-demo-0"}, "status": READY}
    applied.pop("spec")
    shop.send("PATCH", path, applied, type=APPLY, query="fieldManager=p&force=1", user=pilot).expect(200)


@pytest.mark.parametrize("name", ["pilot-es-demo-0", "demo-leader"])
def test_it_holds_its_own_lease_and_may_lead(shop: SampleInstallation, pilot: User, name: str) -> None:
    shop.send("DELETE", shop.at("leases", name))
    cluster = shop.read("elasticsearchclusters", "demo")
    owner = {"apiVersion": cluster["apiVersion"], "kind": cluster["kind"], "name": "demo"}
    owner["uid"] = cluster["metadata"]["uid"]
    metadata = {"name": name, "labels": {LABEL: "demo"}, "ownerReferences": [owner]}
    made = shop.send("POST", shop.at("leases"), {"metadata": metadata}, user=pilot).expect(201)
    renewed = {**made, "spec": {"holderIdentity": "es-demo-0", "leaseTransitions": 1}}
    shop.send("PUT", shop.at("leases", name), renewed, user=pilot).expect(200)
    patch = {"spec": {"leaseDurationSeconds": 15}}
    shop.send("PATCH", shop.at("leases", name), patch, type=MERGE, user=pilot).expect(200)


def test_a_lease_may_be_made_by_applying_it(shop: SampleInstallation, pilot: User) -> None:
    shop.send("DELETE", shop.at("leases", "demo-leader"))
    lease: Json = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "demo-leader"},
    }
    query = "fieldManager=p"
    shop.send("PATCH", shop.at("leases", "demo-leader"), lease, type=APPLY, query=query, user=pilot).expect(
        201
    )
    lease["metadata"]["name"] = "logs-leader"
    shop.refused(
        shop.send("PATCH", shop.at("leases", "logs-leader"), lease, type=APPLY, query=query, user=pilot)
    )


@pytest.mark.parametrize(
    ("kind", "name"), [("Pilot", "es-demo-0"), ("Pod", "es-demo-0"), ("ElasticsearchCluster", "demo")]
)
def test_it_tells_events_about_its_own(shop: SampleInstallation, pilot: User, kind: str, name: str) -> None:
    made = shop.send("POST", shop.at("events"), about(kind, name), user=pilot).expect(201)
    path = shop.at("events", made["metadata"]["name"])
    shop.send("PATCH", path, {"count": 2}, type=MERGE, user=pilot).expect(200)


# What an attacker would try


@pytest.mark.parametrize("name", ["es-demo-1", "es-logs-0"])
def test_it_writes_no_other_pilot(shop: SampleInstallation, pilot: User, name: str) -> None:
    before = shop.read("pilots", name)
    for sub in ("", "status"):
        path = shop.at("pilots", name, sub=sub)
        shop.refused(shop.send("PATCH", path, {"status": READY}, type=MERGE, user=pilot))
        shop.refused(shop.send("PUT", path, {**before, "status": READY}, user=pilot))
    assert shop.read("pilots", name) == before


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"decommission": True}},
        {"metadata": {"labels": {LABEL: "logs"}}},
        {"metadata": {"ownerReferences": None}},
        {"metadata": {"finalizers": ["example.io/stay"]}},
        {"status": READY},
    ],
)
def test_it_changes_nothing_of_its_pilot_but_the_status(
    shop: SampleInstallation, pilot: User, patch: Json
) -> None:
    before = shop.read("pilots", "es-demo-0")
    shop.refused(shop.send("PATCH", shop.at("pilots", "es-demo-0"), patch, type=MERGE, user=pilot))
    assert shop.read("pilots", "es-demo-0") == before
    through_status = {**patch, "status": {"lastStartedTime": "2030-01-01T00:00:00Z"}}
    shop.send(
        "PATCH", shop.at("pilots", "es-demo-0", sub="status"), through_status, type=MERGE, user=pilot
    ).expect(200)
    after = shop.read("pilots", "es-demo-0")
    assert after.get("spec") == before.get("spec")
    for field in ("labels", "ownerReferences", "finalizers"):
        assert after["metadata"].get(field) == before["metadata"].get(field)


def test_it_makes_and_deletes_no_pilot(shop: SampleInstallation, pilot: User) -> None:
    body = {**PILOT, "metadata": {"name": "es-demo-9"}}
    shop.refused(shop.send("POST", shop.at("pilots"), body, user=pilot))
    shop.refused(shop.send("DELETE", shop.at("pilots", "es-demo-0"), user=pilot))


@pytest.mark.parametrize("name", ["pilot-es-demo-1", "pilot-es-logs-0", "logs-leader", "another"])
def test_it_writes_no_lease_of_another(shop: SampleInstallation, pilot: User, name: str) -> None:
    revision = shop.revision
    shop.refused(shop.send("POST", shop.at("leases"), {"metadata": {"name": name}}, user=pilot))
    shop.refused(shop.send("POST", shop.at("leases"), {"metadata": {"generateName": "pilot-"}}, user=pilot))
    patch = {"spec": {"holderIdentity": "thief"}}
    shop.refused(shop.send("PATCH", shop.at("leases", name), patch, type=MERGE, user=pilot))
    shop.refused(shop.send("DELETE", shop.at("leases", name), user=pilot))
    assert shop.revision == revision


@pytest.mark.parametrize(
    "patch",
    [
        {"labels": {LABEL: "logs"}},
        {"finalizers": ["example.io/stay"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1"}]},
    ],
)
def test_it_gives_its_leases_no_labels_owners_or_finalizers(
    shop: SampleInstallation, pilot: User, patch: Json
) -> None:
    shop.send("DELETE", shop.at("leases", "demo-leader"))
    body = {"metadata": {"name": "demo-leader", **patch}}
    said = shop.refused(shop.send("POST", shop.at("leases"), body, user=pilot))
    assert f"metadata.{next(iter(patch))}" in said
    path = shop.at("leases", "pilot-es-demo-0")
    said = shop.refused(shop.send("PATCH", path, {"metadata": patch}, type=MERGE, user=pilot))
    assert f"metadata.{next(iter(patch))}: may not be changed" in said


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        ("Pilot", "es-demo-1", "shop"),
        ("Pod", "web", "shop"),
        ("ElasticsearchCluster", "logs", "shop"),
        ("Node", "n1", "shop"),
        ("Pilot", "es-demo-0", "bank"),
    ],
)
def test_it_tells_no_events_about_others(
    shop: SampleInstallation, pilot: User, kind: str, name: str, namespace: str
) -> None:
    shop.refused(
        shop.send("POST", shop.at("events", namespace=namespace), about(kind, name, namespace), user=pilot)
    )
    regarding = {"kind": kind, "name": name, "namespace": namespace}
    newer = {
        "metadata": {"generateName": "said-"},
        "regarding": regarding,
        "reason": "Said",
        "action": "Say",
        "type": "Normal",
        "reportingController": "x.io/pilot",
        "reportingInstance": "x",
        "eventTime": "2030-01-01T00:00:00.000000Z",
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    shop.refused(shop.send("POST", path, newer, user=pilot))


def test_it_rewrites_no_event_about_another(shop: SampleInstallation, pilot: User) -> None:
    made = shop.send("POST", shop.at("events"), about("Pod", "web")).expect(201)
    path = shop.at("events", made["metadata"]["name"])
    shop.refused(shop.send("PATCH", path, {"message": "all is well"}, type=MERGE, user=pilot))
    shop.refused(shop.send("DELETE", path, user=pilot))


def test_it_mints_no_tokens(shop: SampleInstallation, pilot: User) -> None:
    for account in ("es-demo", "es-logs", "web", "default"):
        path = shop.at("serviceaccounts", account, sub="token")
        shop.refused(shop.send("POST", path, {"spec": {}}, user=pilot))


@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "admin"},
        {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"},
        {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"},
        {"Impersonate-User": "system:serviceaccount:shop:es-demo"},
    ],
)
def test_it_becomes_nobody_else(shop: SampleInstallation, pilot: User, headers: dict[str, str]) -> None:
    said = shop.refused(shop.send("GET", shop.at("secrets"), user=pilot, headers=headers))
    assert "cannot impersonate" in said


@pytest.mark.parametrize("sub", ["exec", "attach", "portforward", "log", "ephemeralcontainers", "proxy"])
def test_it_enters_no_pod(shop: SampleInstallation, pilot: User, sub: str) -> None:
    for name in ("es-demo-0", "es-demo-1", "web"):
        for method in ("GET", "POST"):
            shop.refused(shop.send(method, shop.at("pods", name, sub=sub), user=pilot))


def test_it_makes_no_pods_to_be_somebody_else_in(shop: SampleInstallation, pilot: User) -> None:
    spec = {"serviceAccountName": "web", "containers": [{"name": "main", "image": "x:1"}]}
    pod = {"metadata": {"name": "mole"}, "spec": spec}
    shop.refused(shop.send("POST", shop.at("pods"), pod, user=pilot))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    sets = {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": template}
    shop.refused(
        shop.send("POST", shop.at("statefulsets"), {"metadata": {"name": "mole"}, "spec": sets}, user=pilot)
    )
    shop.refused(shop.send("POST", shop.at("pods", "es-demo-0", sub="binding"), {}, user=pilot))
    shop.refused(shop.send("POST", shop.at("pods", "es-demo-1", sub="eviction"), {}, user=pilot))
    unlabelled = {"metadata": {"labels": None}}
    shop.refused(shop.send("PATCH", shop.at("pods", "es-demo-0"), unlabelled, type=MERGE, user=pilot))


def test_it_binds_no_roles(shop: SampleInstallation, pilot: User) -> None:
    subject = {"kind": "ServiceAccount", "name": "es-demo", "namespace": "shop"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": "mine"}, "roleRef": reference, "subjects": [subject]}
    shop.refused(shop.send("POST", f"{RBAC}/clusterrolebindings", body, user=pilot))
    shop.refused(shop.send("POST", shop.at("rolebindings"), body, user=pilot))
    role = {"metadata": {"name": "mine"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
    shop.refused(shop.send("POST", f"{RBAC}/clusterroles", role, user=pilot))
    shop.refused(shop.send("POST", shop.at("roles"), role, user=pilot))


def test_it_deletes_no_collections(shop: SampleInstallation, pilot: User) -> None:
    revision = shop.revision
    for plural in ("pilots", "leases", "secrets", "configmaps", "pods", "events"):
        for query in ("", f"labelSelector={LABEL}%3Ddemo", "fieldSelector=metadata.name%3Dpilot-es-demo-0"):
            shop.refused(shop.send("DELETE", shop.at(plural), query=query, user=pilot))
    assert shop.revision == revision


def test_it_writes_no_secrets_even_of_its_cluster(shop: SampleInstallation, pilot: User) -> None:
    for plural, name in (("secrets", "demo-password"), ("configmaps", "demo-config")):
        patch = {"metadata": {"labels": {"a": "b"}}}
        shop.refused(shop.send("PATCH", shop.at(plural, name), patch, type=MERGE, user=pilot))
        shop.refused(shop.send("DELETE", shop.at(plural, name), user=pilot))
        body = {"metadata": {"name": "mine", "labels": {LABEL: "demo"}}}
        shop.refused(shop.send("POST", shop.at(plural), body, user=pilot))


def test_it_asks_about_nobody_elses_rights_or_tokens(shop: SampleInstallation, pilot: User) -> None:
    review = {"spec": {"user": "admin", "nonResourceAttributes": {"verb": "get", "path": "/"}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    shop.refused(shop.send("POST", path, review, user=pilot))
    token = {"spec": {"token": "guess"}}
    shop.refused(shop.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", token, user=pilot))


def test_fences_tell_it_nothing_about_the_leases_of_others(shop: SampleInstallation, pilot: User) -> None:
    path = shop.at("pilots", "es-demo-0", sub="status")
    for lease in ("shop/pilot-es-logs-0", "shop/nowhere", "kube-system/controller-manager"):
        fenced = {"Pilothouse-Fence": f"{lease}/0"}
        said = shop.refused(
            shop.send("PATCH", path, {"status": READY}, type=MERGE, headers=fenced, user=pilot)
        )
        assert 'cannot get resource "leases"' in said
    own = {"Pilothouse-Fence": "shop/pilot-es-demo-1/0"}
    shop.send("PATCH", path, {"status": READY}, type=MERGE, headers=own, user=pilot).expect(200)
    stale = {"Pilothouse-Fence": "shop/pilot-es-demo-1/7"}
    answer = shop.send("PATCH", path, {"status": READY}, type=MERGE, headers=stale, user=pilot)
    assert (answer.status, answer.json["reason"]) == (409, "Fenced")


def test_dry_runs_are_refused_alike(shop: SampleInstallation, pilot: User) -> None:
    body = {"metadata": {"name": "mine", "labels": {LABEL: "demo"}}}
    shop.refused(shop.send("POST", shop.at("secrets"), body, query="dryRun=All", user=pilot))
    shop.refused(
        shop.send("POST", shop.at("leases"), {"metadata": {"name": "other"}}, query="dryRun=All", user=pilot)
    )
