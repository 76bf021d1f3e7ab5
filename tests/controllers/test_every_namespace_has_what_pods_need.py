"""The default service account and the authority's certificates of each namespace."""

from __future__ import annotations

from typing import Any

from tests.kit.scheduling_objects import namespace, seen

from pilothouse.api.objects import Tree
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.runtime.intents import Create, PatchObject

PEM = "-----BEGIN CERTIFICATE-----\n"
certificates = root_certificates(PEM)


def going() -> Tree:
    tree = namespace("shop")
    return {**tree, "metadata": {**tree["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def within(kind: str, name: str, **fields: Any) -> Tree:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, **fields}


def test_a_namespace_gets_its_default_account() -> None:
    (create,) = seen(service_accounts, namespace("shop"), within("ServiceAccount", "other"))
    assert isinstance(create, Create)
    assert create.object["metadata"] == {"name": "default", "namespace": "shop"}
    assert seen(service_accounts, namespace("shop"), within("ServiceAccount", "default")) == []
    assert seen(service_accounts, going()) == []


def test_a_namespace_gets_the_certificates() -> None:
    (create,) = seen(certificates, namespace("shop"))
    assert isinstance(create, Create)
    assert create.object["metadata"]["name"] == "kube-root-ca.crt"
    assert create.object["data"] == {"ca.crt": PEM}
    assert seen(certificates, going()) == []


def test_certificates_that_were_changed_are_put_right() -> None:
    right = within("ConfigMap", "kube-root-ca.crt", data={"ca.crt": PEM})
    assert seen(certificates, namespace("shop"), right) == []
    wrong = within(
        "ConfigMap", "kube-root-ca.crt", data={"ca.crt": "forged", "more": "x"}, binaryData={"b": "eA=="}
    )
    (patch,) = seen(certificates, namespace("shop"), wrong)
    assert isinstance(patch, PatchObject)
    assert patch.fields == {"data": {"ca.crt": PEM, "more": None}, "binaryData": None}
