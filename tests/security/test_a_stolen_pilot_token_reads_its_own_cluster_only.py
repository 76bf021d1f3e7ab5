"""The account has every right that RBAC can give; see the fixture."""

from __future__ import annotations

import pytest
from tests.kit.sample_installation import LABEL, NAVIGATOR, PILOT, SampleInstallation

from pilothouse.apiserver.server.messages import User

OF_THE_CLUSTER = f"labelSelector={LABEL}%3Ddemo"


def names(answer: object) -> list[str]:
    assert isinstance(answer, dict)
    return sorted(item["metadata"]["name"] for item in answer["items"])


@pytest.mark.parametrize(
    ("plural", "name"),
    [
        ("pilots", "es-demo-0"),
        ("pilots", "es-demo-1"),
        ("elasticsearchclusters", "demo"),
        ("secrets", "demo-password"),
        ("configmaps", "demo-config"),
        ("leases", "pilot-es-demo-0"),
        ("leases", "pilot-es-demo-1"),
        ("pods", "es-demo-0"),
    ],
)
def test_it_reads_what_is_of_its_cluster(
    shop: SampleInstallation, pilot: User, plural: str, name: str
) -> None:
    shop.send("GET", shop.at(plural, name), user=pilot).expect(200)
    by_name = shop.send("GET", shop.at(plural), query=f"fieldSelector=metadata.name%3D{name}", user=pilot)
    assert names(by_name.expect(200)) == [name]


@pytest.mark.parametrize(
    ("plural", "name"),
    [
        ("pilots", "es-logs-0"),
        ("elasticsearchclusters", "logs"),
        ("secrets", "logs-password"),
        ("secrets", "unrelated"),
        ("secrets", "web-password"),
        ("secrets", "nowhere"),
        ("configmaps", "logs-config"),
        ("configmaps", "unrelated"),
        ("leases", "pilot-es-logs-0"),
        ("pods", "es-demo-1"),
        ("pods", "web"),
        ("serviceaccounts", "es-demo"),
    ],
)
def test_it_reads_nothing_else_in_its_namespace(
    shop: SampleInstallation, pilot: User, plural: str, name: str
) -> None:
    shop.refused(shop.send("GET", shop.at(plural, name), user=pilot))
    selected = f"fieldSelector=metadata.name%3D{name}"
    shop.refused(shop.send("GET", shop.at(plural), query=selected, user=pilot))
    shop.refused(shop.send("GET", shop.at(plural), query=f"watch=1&{selected}", user=pilot))
    shop.refused(shop.send("GET", shop.at(plural, name).replace("/v1/", "/v1/watch/"), user=pilot))


@pytest.mark.parametrize("plural", ["pilots", "secrets", "configmaps", "leases", "elasticsearchclusters"])
def test_it_reads_nothing_of_the_cluster_of_the_same_name_elsewhere(
    shop: SampleInstallation, pilot: User, plural: str
) -> None:
    names = {"pilots": "es-demo-0", "elasticsearchclusters": "demo", "leases": "pilot-es-demo-0"}
    name = names.get(plural, "demo-password")
    for path in (shop.at(plural, name, namespace="bank"), shop.at(plural, namespace="bank")):
        said = shop.refused(shop.send("GET", path, query=OF_THE_CLUSTER, user=pilot))
        assert "outside its namespace shop" in said


@pytest.mark.parametrize("plural", ["pilots", "secrets", "configmaps"])
def test_it_lists_with_the_label_of_its_cluster(shop: SampleInstallation, pilot: User, plural: str) -> None:
    listed = shop.send("GET", shop.at(plural), query=OF_THE_CLUSTER, user=pilot)
    assert {name.removeprefix("es-").split("-")[0] for name in names(listed.expect(200))} == {"demo"}
    narrower = f"{OF_THE_CLUSTER},tier%20in%20(a,b)"
    assert names(shop.send("GET", shop.at(plural), query=narrower, user=pilot).expect(200)) == []
    assert shop.send("GET", shop.at(plural), query=f"watch=1&{OF_THE_CLUSTER}", user=pilot).status == 200


@pytest.mark.parametrize(
    "selector",
    [
        "",
        f"labelSelector={LABEL}",
        f"labelSelector={LABEL}%3Dlogs",
        f"labelSelector={LABEL}!%3Dnone",
        f"labelSelector={LABEL}%20in%20(demo,logs)",
        f"labelSelector={LABEL}%20notin%20(logs)",
        "labelSelector=app%3Ddemo",
        "labelSelector=%2C%2C",
        f"labelSelector=x&labelSelector={LABEL}%3Ddemo",
        "fieldSelector=metadata.namespace%3Dshop",
        "fieldSelector=metadata.name!%3Dlogs-password",
        "limit=1",
    ],
)
@pytest.mark.parametrize("plural", ["pilots", "secrets", "configmaps", "leases"])
def test_wide_selectors_are_refused_and_told_which_would_do(
    shop: SampleInstallation, pilot: User, plural: str, selector: str
) -> None:
    for query in (selector, f"watch=1&{selector}", f"watch=1&sendInitialEvents=true&{selector}"):
        said = shop.refused(shop.send("GET", shop.at(plural), query=query, user=pilot))
        assert f"ask with labelSelector={LABEL}=demo" in said


def test_it_lists_nothing_across_namespaces(shop: SampleInstallation, pilot: User) -> None:
    for path in ("/api/v1/secrets", "/api/v1/configmaps", f"{NAVIGATOR}/pilots", "/api/v1/watch/secrets"):
        shop.refused(shop.send("GET", path, query=OF_THE_CLUSTER, user=pilot))


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes/n1",
        "/api/v1/namespaces/shop",
        "/api/v1/namespaces",
        "/api/v1/namespaces/shop/events",
        "/api/v1/namespaces/shop/services",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/pilothouse.io/v1alpha1/namespaces/shop/decisions",
        "/metrics",
        "/metrics/objects",
        "/pilothouse/v1/audit",
        "/logs",
    ],
)
def test_it_sees_nothing_of_the_rest(shop: SampleInstallation, pilot: User, path: str) -> None:
    shop.refused(shop.send("GET", path, user=pilot))


def test_discovery_and_questions_about_itself_stay_open(shop: SampleInstallation, pilot: User) -> None:
    for path in ("/api", "/apis", "/api/v1", "/openapi/v3", "/version"):
        assert shop.send("GET", path, user=pilot).status == 200, path
    me = shop.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user=pilot).expect(201)
    assert me["status"]["userInfo"]["username"] == pilot.name


def test_whoever_waits_for_their_pilot_may_watch_for_it_and_nothing_else(shop: SampleInstallation) -> None:
    early = shop.pilot("shop", "early")
    waits = "fieldSelector=metadata.name%3Dearly"
    assert names(shop.send("GET", shop.at("pilots"), query=waits, user=early).expect(200)) == []
    assert shop.send("GET", shop.at("pilots"), query=f"watch=1&{waits}", user=early).status == 200
    assert shop.send("GET", shop.at("pilots", "early"), user=early).status == 404
    for path in (shop.at("pilots"), shop.at("pilots", "es-demo-0"), shop.at("secrets", "demo-password")):
        shop.refused(shop.send("GET", path, user=early))
    said = shop.refused(
        shop.send("POST", shop.at("leases"), {"metadata": {"name": "pilot-early"}}, user=early)
    )
    assert "there is no Pilot early yet" in said


def test_a_pod_without_a_pilot_is_a_service_account_like_any_other(shop: SampleInstallation) -> None:
    web = shop.bearer(shop.token("shop", "web", "web"))
    assert "RBAC" not in shop.refused(shop.send("GET", shop.at("secrets", "unrelated"), user=web))
    shop.grant_everything(web)
    shop.send("GET", shop.at("secrets", "unrelated"), user=web).expect(200)


def test_a_pilot_that_no_cluster_controls_has_itself_only(shop: SampleInstallation) -> None:
    shop.pod("shop", "alone", "n1", account="es-demo", labels={LABEL: "demo"})
    shop.make("shop", "pilots", "alone", PILOT, labels={LABEL: "demo"})
    alone = shop.pilot("shop", "alone")
    shop.send("GET", shop.at("pilots", "alone"), user=alone).expect(200)
    said = shop.refused(shop.send("GET", shop.at("secrets", "demo-password"), user=alone))
    assert "not controlled by a cluster" in said
    shop.refused(shop.send("GET", shop.at("secrets"), query=OF_THE_CLUSTER, user=alone))
