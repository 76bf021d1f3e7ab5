from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kit.sample_installation import LABEL, SampleInstallation

from pilothouse.meta.errors import StatusError


@pytest.fixture
def fresh() -> Iterator[SampleInstallation]:
    with SampleInstallation() as made:
        yield made


def refused(shop: SampleInstallation, token: str) -> None:
    with pytest.raises(StatusError) as problem:
        shop.bearer(token)
    assert problem.value.code == 401


def test_a_token_of_a_pod_that_is_gone_opens_nothing(fresh: SampleInstallation) -> None:
    token = fresh.token("shop", "es-demo", "es-demo-0")
    assert fresh.bearer(token).name == "system:serviceaccount:shop:es-demo"
    fresh.send("DELETE", fresh.at("pods", "es-demo-0"), query="gracePeriodSeconds=0").expect(200)
    refused(fresh, token)


def test_nor_does_it_once_a_pod_of_the_same_name_is_there(fresh: SampleInstallation) -> None:
    token = fresh.token("shop", "es-demo", "es-demo-0")
    fresh.send("DELETE", fresh.at("pods", "es-demo-0"), query="gracePeriodSeconds=0").expect(200)
    fresh.pod("shop", "es-demo-0", "n1", account="es-demo", labels={LABEL: "demo"})
    refused(fresh, token)


def test_nor_once_its_account_is_gone(fresh: SampleInstallation) -> None:
    token = fresh.token("shop", "es-demo", "es-demo-0")
    fresh.send("DELETE", fresh.at("serviceaccounts", "es-demo")).expect(200)
    refused(fresh, token)


def test_nor_with_another_audience(fresh: SampleInstallation) -> None:
    refused(fresh, fresh.token("shop", "es-demo", "es-demo-0", audiences=["vault"]))


def test_nor_with_a_changed_claim(fresh: SampleInstallation) -> None:
    head, claims, signature = fresh.token("shop", "es-demo", "es-demo-0").split(".")
    other = fresh.token("shop", "es-logs", "es-logs-0").split(".")
    refused(fresh, f"{head}.{other[1]}.{signature}")
    refused(fresh, f"{head}.{claims}.")


def test_a_token_of_the_account_that_no_pod_binds_is_worth_nothing(fresh: SampleInstallation) -> None:
    """What a pilot may do comes with its pod; the account itself holds no role."""
    user = fresh.bearer(fresh.token("shop", "es-demo"))
    for path in (fresh.at("secrets", "demo-password"), fresh.at("pilots", "es-demo-0"), fresh.at("leases")):
        fresh.refused(fresh.send("GET", path, user=user))


def test_a_pod_that_is_no_pilot_has_nothing_of_the_account_either(fresh: SampleInstallation) -> None:
    fresh.pod("shop", "mole", "n1", account="es-demo", labels={LABEL: "demo"})
    user = fresh.bearer(fresh.token("shop", "es-demo", "mole"))
    fresh.refused(fresh.send("GET", fresh.at("secrets", "demo-password"), user=user))


def test_what_it_reads_ends_when_its_pilot_changes_hands(fresh: SampleInstallation) -> None:
    user = fresh.pilot("shop", "es-demo-0")
    fresh.send("GET", fresh.at("secrets", "demo-password"), user=user).expect(200)
    fresh.send("DELETE", fresh.at("pilots", "es-demo-0")).expect(200)
    fresh.refused(fresh.send("GET", fresh.at("secrets", "demo-password"), user=user))


def test_what_it_reads_ends_when_the_label_is_taken_off(fresh: SampleInstallation) -> None:
    user = fresh.pilot("shop", "es-demo-0")
    patch = {"metadata": {"labels": None}}
    path = fresh.at("secrets", "demo-password")
    fresh.send("PATCH", path, patch, type="application/merge-patch+json").expect(200)
    fresh.refused(fresh.send("GET", path, user=user))
