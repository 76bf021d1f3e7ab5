"""Namespaces on a real server: what each is given, and what goes with it."""

from __future__ import annotations

from tests.runtime.conftest import Bench

from pilothouse.api.nouns import ConfigMap, Lease, Namespace, Secret, ServiceAccount
from pilothouse.api.objects import Tree
from pilothouse.controllers.namespaces import namespaces
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.service_accounts import service_accounts

SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
PEM = "-----BEGIN CERTIFICATE-----\n"


def a_secret(*finalizers: str) -> Tree:
    meta = {"name": "s", "namespace": "shop", "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta}


def test_each_namespace_is_given_an_account_and_certificates_again_and_again(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([service_accounts, root_certificates(PEM)])
        await bench.api.create(Namespace, SHOP)
        await bench.settle()
        first = await bench.api.get(ServiceAccount, "default", "shop")
        await bench.api.delete(ServiceAccount, "default", "shop")
        await bench.api.patch(ConfigMap, "kube-root-ca.crt", "shop", {"data": {"ca.crt": "forged", "x": "y"}})
        await bench.settle()
        assert (await bench.api.get(ServiceAccount, "default", "shop")).uid != first.uid
        assert (await bench.api.get(ConfigMap, "kube-root-ca.crt", "shop"))["data"] == {"ca.crt": PEM}
        before = bench.server.revision
        await bench.settle(600)
        assert bench.server.revision == before

    bench.run(scenario)


def test_a_namespace_takes_all_that_is_in_it_along(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([namespaces, service_accounts, root_certificates(PEM)])
        await bench.api.create(Namespace, SHOP)
        await bench.settle()
        lease = {
            "apiVersion": Lease.api_version,
            "kind": "Lease",
            "metadata": {"name": "l", "namespace": "shop"},
        }
        await bench.api.create(Lease, lease)
        await bench.api.delete(Namespace, "shop")
        await bench.settle()
        assert await bench.api.find(Namespace, "shop") is None
        for noun in (Lease, ServiceAccount, ConfigMap):
            assert not [one for one in (await bench.api.list(noun)).objects if one.namespace == "shop"]

    bench.run(scenario)


def test_what_keeps_a_namespace_is_told_until_it_is_gone(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([namespaces])
        await bench.api.create(Namespace, SHOP)
        await bench.api.create(Secret, a_secret("example.com/hold"))
        await bench.settle()
        await bench.api.delete(Namespace, "shop")
        await bench.settle()
        held = await bench.api.get(Namespace, "shop")
        assert held.status["phase"] == "Terminating"
        for kind, said in (
            ("NamespaceContentRemaining", "1 Secret"),
            ("NamespaceFinalizersRemaining", "1 example.com/hold"),
        ):
            condition = held.condition(kind)
            assert condition is not None
            assert condition["status"] == "True"
            assert said in condition["message"]
        before = bench.server.revision
        await bench.settle(600)
        assert bench.server.revision == before

        await bench.api.patch(Secret, "s", "shop", {"metadata": {"finalizers": None}})
        await bench.settle()
        assert await bench.api.find(Namespace, "shop") is None

    bench.run(scenario)
