"""Namespaces on a real server: what each is given, and what goes with it."""

from __future__ import annotations

from tests.api.navigator.clusters import elasticsearch
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import (
    ConfigMap,
    ElasticsearchCluster,
    Lease,
    Namespace,
    Secret,
    ServiceAccount,
)
from pilothouse.api.navigator.validation.clusters import PROTECTION
from pilothouse.api.objects import Object, Tree
from pilothouse.api.registry import resources
from pilothouse.controllers.namespaces import PROTECTABLE, namespaces
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.runtime.intents import DeleteAll
from pilothouse.runtime.snapshot import Snapshot, StaticView

SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
PEM = "-----BEGIN CERTIFICATE-----\n"
PROTECTED = {PROTECTION: "true"}


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


def a_cluster(name: str) -> Tree:
    return {
        "apiVersion": ElasticsearchCluster.api_version,
        "kind": "ElasticsearchCluster",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": elasticsearch(),
    }


def test_nothing_goes_while_something_in_the_namespace_is_protected(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.api.create(Namespace, SHOP)
        await bench.api.create(Secret, a_secret())
        for name in ("a", "b"):
            await bench.api.create(ElasticsearchCluster, a_cluster(name))
        # The server refuses to begin with something protected; what is protected right after is for the controller to find.
        await bench.api.delete(Namespace, "shop")
        await bench.api.patch(ElasticsearchCluster, "b", "shop", {"metadata": {"annotations": PROTECTED}})
        bench.manage([namespaces])
        await bench.settle()
        for noun, name in ((Secret, "s"), (ElasticsearchCluster, "a"), (ElasticsearchCluster, "b")):
            assert not (await bench.api.get(noun, name, "shop")).deleting
        kept = await bench.api.get(Namespace, "shop")
        failure = kept.condition("NamespaceDeletionContentFailure")
        assert failure is not None
        assert (failure["status"], failure["reason"]) == ("True", "ContentDeletionFailed")
        assert 'elasticsearchclusters.navigator.jetstack.io "b" is forbidden' in failure["message"]
        assert PROTECTION in failure["message"]
        before = bench.server.revision
        await bench.settle(600)
        assert bench.server.revision == before

        await bench.api.patch(
            ElasticsearchCluster, "b", "shop", {"metadata": {"annotations": {PROTECTION: None}}}
        )
        await bench.settle()
        assert await bench.api.find(Namespace, "shop") is None

    bench.run(scenario)


def test_who_can_be_protected_is_asked_before_all_others_even_where_none_is_seen() -> None:
    views = {noun: StaticView([]) for noun in (Secret, Lease, ElasticsearchCluster)}
    going = Object.of(
        {
            **SHOP,
            "metadata": {"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"finalizers": ["kubernetes"]},
        }
    )
    first, *others = namespaces(going, Snapshot(views, now=0.0))
    assert isinstance(first, DeleteAll)
    assert first.noun == ElasticsearchCluster
    assert {one.noun for one in others if isinstance(one, DeleteAll)} >= {Secret, Lease}


def test_every_kind_that_can_be_protected_is_known() -> None:
    assert {
        (kind.group, kind.name) for resource in resources() for kind in resource.kinds if kind.protectable
    } == PROTECTABLE
