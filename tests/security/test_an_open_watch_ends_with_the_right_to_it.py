"""Whoever is confined to what its pods need may have opened a watch while that was so."""

from __future__ import annotations

import pytest
from tests.kit.sample_installation import SampleInstallation, node

MERGE = "application/merge-patch+json"


def change(shop: SampleInstallation, plural: str, name: str, value: str) -> None:
    body = {"stringData": {"p": value}} if plural == "secrets" else {"data": {"a": value}}
    shop.send("PATCH", shop.at(plural, name), body, type=MERGE).expect(200)


@pytest.mark.parametrize("initial", ["", "resourceVersion=0&"], ids=["from now", "from a state"])
def test_a_node_is_shown_no_secret_that_its_pods_no_longer_refer_to(
    shop: SampleInstallation, initial: str
) -> None:
    name = f"guarded-{len(initial)}"
    shop.make("shop", "secrets", name, {"stringData": {"p": "first"}})
    shop.pod("shop", f"v-{len(initial)}", "n1", secret=name)
    query = f"{initial}fieldSelector=metadata.name%3D{name}&timeoutSeconds=3600"
    with shop.watching(shop.at("secrets"), query, node("n1")) as watch:
        change(shop, "secrets", name, "second")
        shop.wait(lambda: len(watch.events) == 2)
        shop.send("DELETE", shop.at("pods", f"v-{len(initial)}"), query="gracePeriodSeconds=0").expect(200)
        shop.refused(shop.send("GET", shop.at("secrets", name), user=node("n1")))
        change(shop, "secrets", name, "third")
        shop.wait(watch.task.done)
        assert len(watch.events) == 2


def test_a_node_whose_watch_was_ended_finds_out_that_it_may_not(shop: SampleInstallation) -> None:
    shop.make("shop", "configmaps", "guarded", {"data": {"a": "1"}})
    volumes = [{"name": "c", "configMap": {"name": "guarded"}}]
    shop.pod("shop", "reader", "n1", volumes=volumes)
    query = "fieldSelector=metadata.name%3Dguarded"
    with shop.watching(shop.at("configmaps"), query, node("n1")) as watch:
        shop.send("DELETE", shop.at("pods", "reader"), query="gracePeriodSeconds=0").expect(200)
        change(shop, "configmaps", "guarded", "2")
        shop.wait(watch.task.done)
    shop.refused(shop.send("GET", shop.at("configmaps"), query=f"watch=1&{query}", user=node("n1")))


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
def test_a_pilot_is_shown_nothing_once_its_pod_is_gone(shop: SampleInstallation, plural: str) -> None:
    cluster = {"secrets": "demo", "configmaps": "logs"}[plural]
    pilot = shop.pilot("shop", f"es-{cluster}-0")
    name = f"{cluster}-password" if plural == "secrets" else f"{cluster}-config"
    query = f"labelSelector=navigator.jetstack.io%2Felasticsearch-cluster-name%3D{cluster}"
    with shop.watching(shop.at(plural), query, pilot) as watch:
        before = len(watch.events)
        change(shop, plural, name, "second")
        shop.wait(lambda: len(watch.events) == before + 1)
        # The Pilot stays, as it does when its pod is replaced.
        shop.send("DELETE", shop.at("pods", f"es-{cluster}-0"), query="gracePeriodSeconds=0").expect(200)
        change(shop, plural, name, "third")
        shop.wait(watch.task.done)
        assert len(watch.events) == before + 1


def test_others_go_on(shop: SampleInstallation) -> None:
    """A watch of one who is still allowed gets every change."""
    pilot = shop.pilot("shop", "es-demo-1")
    query = "labelSelector=navigator.jetstack.io%2Felasticsearch-cluster-name%3Ddemo"
    with shop.watching(shop.at("secrets"), query, pilot) as watch:
        before = len(watch.events)
        for number in range(3):
            change(shop, "secrets", "demo-password", f"again-{number}")
        shop.wait(lambda: len(watch.events) == before + 3)
        assert not watch.task.done()
