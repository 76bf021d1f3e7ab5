"""``persistence.enabled`` of old manifests: taken in v1alpha1 with a warning, kept through v1beta1, and false means no volumes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from tests.api.navigator.clusters import (
    CASSANDRA,
    ELASTICSEARCH,
    MASTERS,
    RACK,
    V1ALPHA1,
    V1BETA1,
    Json,
    cassandra,
    create,
    elasticsearch,
    update,
)
from tests.kit.admission import admit
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl
from tests.kit.servers import Target

from pilothouse.api.navigator.conversion import STASH, convert
from pilothouse.api.navigator.deprecated_fields import ANNOTATION

GROUP = "navigator.jetstack.io"
ON: Json = {"enabled": True, "size": "10Gi"}
OFF: Json = {"enabled": False, "size": "10Gi", "storageClass": "fast"}
BARE: Json = {"enabled": False}
CLUSTERS = pytest.mark.parametrize(
    ("kinds", "spec_of", "base"),
    [(ELASTICSEARCH, elasticsearch, MASTERS), (CASSANDRA, cassandra, RACK)],
    ids=["elasticsearch", "cassandra"],
)


def pools_with(base: Json, *persistences: Json) -> list[Json]:
    return [
        {**base, "name": f"pool-{index}", "persistence": persistence}
        for index, persistence in enumerate(persistences)
    ]


@CLUSTERS
def test_what_is_stored_has_volumes_only_where_they_are_on(kinds: Any, spec_of: Any, base: Json) -> None:
    found = create(kinds[V1ALPHA1], spec_of(nodePools=pools_with(base, ON, OFF, BARE, {"size": "1Gi"})))
    assert (found.problems, found.unknown) == ([], [])
    stored = convert(found.obj, V1ALPHA1, V1BETA1)
    assert [pool.get("persistence") for pool in stored["spec"]["nodePools"]] == [
        {"size": "10Gi"},
        None,
        None,
        {"size": "1Gi"},
    ]
    again = admit(kinds[V1BETA1], stored)
    assert (again.problems, again.unknown) == ([], []), "a dump of it can be created"
    assert convert(stored, V1BETA1, V1ALPHA1) == found.obj


@CLUSTERS
def test_each_pool_that_says_it_is_warned_about(kinds: Any, spec_of: Any, base: Json) -> None:
    obj = {"spec": spec_of(nodePools=pools_with(base, ON, {"size": "1Gi"}, BARE))}
    first, second = kinds[V1ALPHA1].warnings(obj, None)
    assert first.startswith("spec.nodePools[0].persistence.enabled: deprecated")
    assert second.startswith("spec.nodePools[2].persistence.enabled: deprecated")
    assert "no volumes" in second


def test_only_where_volumes_are_off_no_size_is_needed() -> None:
    for persistence, paths in (
        (BARE, []),
        ({"enabled": True}, ["spec.nodePools[0].persistence.size"]),
        ({}, ["spec.nodePools[0].persistence.size"]),
        ({"enabled": False, "size": "-1"}, ["spec.nodePools[0].persistence.size"]),
        ({"enabled": False, "size": "ten"}, ["spec.nodePools[0].persistence.size"]),
        ({"enabled": "yes", "size": "1Gi"}, ["spec.nodePools[0].persistence.enabled"]),
    ):
        spec = elasticsearch(nodePools=[{**MASTERS, "persistence": persistence}])
        assert create(ELASTICSEARCH[V1ALPHA1], spec).paths == paths, persistence


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        (ON, {"size": "10Gi"}, ""),
        ({"size": "10Gi"}, ON, ""),
        (OFF, BARE, ""),
        (BARE, {"enabled": False, "size": "99Gi"}, ""),
        (OFF, None, ""),
        (None, OFF, ""),
        (ON, OFF, "spec.nodePools[0].persistence"),
        (OFF, ON, "spec.nodePools[0].persistence"),
        (ON, {"enabled": True, "size": "20Gi"}, "spec.nodePools[0].persistence.size"),
    ],
)
def test_a_pool_that_exists_can_be_given_another_word_but_no_other_volumes(
    before: Json | None, after: Json | None, path: str
) -> None:
    specs = [
        elasticsearch(nodePools=[{**MASTERS, "persistence": each}] if each else [no_persistence()])
        for each in (before, after)
    ]
    assert update(ELASTICSEARCH[V1ALPHA1], *specs).paths == ([path] if path else [])


def no_persistence() -> Json:
    return {name: value for name, value in MASTERS.items() if name != "persistence"}


def stored_cluster() -> Json:
    found = create(ELASTICSEARCH[V1ALPHA1], elasticsearch(nodePools=pools_with(MASTERS, ON, OFF)))
    return convert(found.obj, V1ALPHA1, V1BETA1)


@pytest.mark.parametrize("given", [None, "", "garbage", "[]", '{"spec":{"nodePools":{"pool-0":7}}}'])
def test_a_client_of_v1beta1_can_neither_lose_nor_forge_what_is_kept(given: str | None) -> None:
    old = stored_cluster()
    new = copy.deepcopy(old)
    if given is None:
        del new["metadata"]["annotations"]
    else:
        new["metadata"]["annotations"][ANNOTATION] = given
    found = admit(ELASTICSEARCH[V1BETA1], new, old)
    assert found.problems == []
    assert found.obj == old


def test_what_was_said_of_a_pool_goes_with_the_pool() -> None:
    old = stored_cluster()
    without = copy.deepcopy(old)
    del without["spec"]["nodePools"][1]
    without = admit(ELASTICSEARCH[V1BETA1], without, old).obj
    again = copy.deepcopy(without)
    again["spec"]["nodePools"].append({**no_persistence(), "name": "pool-1"})
    seen = convert(admit(ELASTICSEARCH[V1BETA1], again, without).obj, V1BETA1, V1ALPHA1)
    assert [pool.get("persistence") for pool in seen["spec"]["nodePools"]] == [ON, None]


@pytest.mark.parametrize(
    "forged",
    [
        "garbage",
        "{}",
        '{"spec":{"nodePools":{"test":{"persistence":{"enabled":false}}}}}',
        '{"spec":{"nodePools":{"test":{"persistence":{"enabled":true,"size":"1Ti"}}}}}',
        '{"spec":{"nodePools":{"other":{"persistence":{"enabled":true}}}}}',
        '{"spec":{"nodePools":{"test":{"persistence":{"enabled":true},"replicas":9}}}}',
        "[" * 100_000,
    ],
)
def test_an_annotation_that_does_not_fit_is_refused_on_create(forged: str) -> None:
    obj = {"metadata": {"name": "a", "annotations": {ANNOTATION: forged}}, "spec": elasticsearch()}
    assert admit(ELASTICSEARCH[V1BETA1], obj).paths == [f"metadata.annotations[{ANNOTATION}]"]


def test_the_annotation_is_refused_in_v1alpha1() -> None:
    obj = {"metadata": {"name": "a", "annotations": {ANNOTATION: "{}"}}, "spec": elasticsearch()}
    assert admit(ELASTICSEARCH[V1ALPHA1], obj).paths == [f"metadata.annotations[{ANNOTATION}]"]


class TestOnAServer:
    @pytest.fixture(autouse=True)
    def needs_our_server(self, target: Target) -> None:
        if target.name == "kube":
            pytest.skip("conversion between versions is our server's own")

    async def test_both_versions_are_written_and_nothing_is_lost(self, http: Http, ns: str) -> None:
        old, new = self.path(ns, V1ALPHA1), self.path(ns, V1BETA1)
        answer = await http.post(old, self.body())
        assert [pool["persistence"] for pool in answer.expect(201)["spec"]["nodePools"]] == [ON, OFF]
        assert [warning.partition(":")[0] for warning in answer.warnings] == [
            "spec.nodePools[0].persistence.enabled",
            "spec.nodePools[1].persistence.enabled",
        ]

        stored = (await http.get(f"{new}/demo")).expect(200)
        assert [pool.get("persistence") for pool in stored["spec"]["nodePools"]] == [{"size": "10Gi"}, None]
        stored["spec"]["nodePools"][0]["persistence"]["size"] = "20Gi"
        stored["spec"]["nodePools"][0]["heapSize"] = "1Gi"
        del stored["metadata"]["annotations"]
        answer = await http.put(f"{new}/demo", stored)
        assert answer.expect(200)["metadata"]["generation"] == 2
        assert answer.warnings == []
        (await http.patch(f"{new}/demo/status", {"status": {"health": "Green"}})).expect(200)

        seen = (await http.get(f"{old}/demo")).expect(200)
        assert [pool["persistence"] for pool in seen["spec"]["nodePools"]] == [{**ON, "size": "20Gi"}, OFF]
        assert seen["metadata"]["annotations"].keys() == {STASH}

        seen["metadata"]["labels"] = {"a": "b"}
        answer = await http.put(f"{old}/demo", seen)
        assert answer.expect(200)["metadata"]["generation"] == 2
        assert len(answer.warnings) == 2
        answer = await http.patch(f"{old}/demo/status", {"status": {"health": "Yellow"}})
        assert answer.expect(200)["status"]["health"] == "Yellow"
        assert answer.warnings == [], "whoever writes the status has not written the field"

    async def test_applied_again_by_the_server_it_changes_nothing(self, http: Http, ns: str) -> None:
        path = f"{self.path(ns, V1ALPHA1)}/demo"
        first = (await http.apply(path, self.body(), "me", fieldValidation="Strict")).expect(201)
        again = await http.apply(path, self.body(), "me", fieldValidation="Strict")
        assert again.expect(200)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        assert len(again.warnings) == 2
        (await http.apply(path, self.body({"size": "10Gi"}, BARE), "me")).expect(200)
        seen = (await http.get(path)).expect(200)
        assert [pool["persistence"] for pool in seen["spec"]["nodePools"]] == [{"size": "10Gi"}, BARE]

    @pytest.mark.kubectl
    async def test_kubectl_applies_it_twice_and_says_that_it_is_deprecated(
        self, kubectl: Kubectl, ns: str
    ) -> None:
        manifest = yaml.safe_dump(self.body())
        for told in ("created", "unchanged"):
            done = await kubectl("apply", "-n", ns, "-f", "-", stdin=manifest)
            assert done.ok().strip().endswith(told)
            assert ("persistence.enabled: deprecated" in done.err) == (told == "created")
        shown = await kubectl("explain", f"--api-version={GROUP}/v1alpha1", "esc.spec.nodePools.persistence")
        assert "enabled" in shown.ok()

    @staticmethod
    def path(ns: str, version: str) -> str:
        return f"/apis/{GROUP}/{version}/namespaces/{ns}/elasticsearchclusters"

    @staticmethod
    def body(*persistences: Json) -> Json:
        return {
            "apiVersion": f"{GROUP}/{V1ALPHA1}",
            "kind": "ElasticsearchCluster",
            "metadata": {"name": "demo"},
            "spec": elasticsearch(nodePools=pools_with(MASTERS, *(persistences or (ON, OFF)))),
        }
