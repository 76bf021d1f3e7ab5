"""Objects come back from the other version bit by bit, and an edit through the old one keeps what only the new one has."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.navigator.clusters import (
    ELASTICSEARCH,
    MASTERS,
    PILOT,
    V1ALPHA1,
    V1BETA1,
    Json,
    create,
    elasticsearch,
)
from tests.kit.admission import admit
from tests.kit.object_strategies import objects

from pilothouse.api.navigator.cluster_kinds import resources
from pilothouse.api.navigator.conversion import STASH, convert, read_stash, stash_of
from pilothouse.meta.kind import Kind, Resource

RESOURCES = {resource.kinds[0].name: resource for resource in resources()}
EACH_KIND = pytest.mark.parametrize("name", RESOURCES)
THOROUGH = settings(
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def bits(obj: Any) -> bytes:
    return msgspec.json.encode(obj, order="deterministic")


def anything(kind: Kind) -> st.SearchStrategy[Json]:
    """Any object of a kind."""
    strings = st.dictionaries(st.sampled_from(["a", "b/c"]), st.sampled_from(["", "1"]), max_size=2)
    metadata = st.fixed_dictionaries(
        {"name": st.just("x"), "namespace": st.just("y")},
        optional={"annotations": strings, "labels": strings},
    )
    return objects(
        kind.schema, fixed={"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    )


def versions(resource: Resource) -> tuple[Kind, Kind]:
    return resource.by_version[V1ALPHA1], resource.by_version[V1BETA1]


@EACH_KIND
def test_the_hub_comes_back_from_v1alpha1_as_it_was(name: str) -> None:
    old, hub = versions(RESOURCES[name])

    @THOROUGH
    @given(anything(hub))
    def check(obj: Json) -> None:
        before = bits(obj)
        seen = convert(obj, V1BETA1, V1ALPHA1)
        assert bits(obj) == before
        assert seen["apiVersion"] == old.api_version
        assert old.shape.prune(copy.deepcopy(seen)) == []
        assert bits(convert(seen, V1ALPHA1, V1BETA1)) == before

    check()


@EACH_KIND
def test_v1alpha1_comes_back_from_the_hub_as_it_was(name: str) -> None:
    old, hub = versions(RESOURCES[name])

    @THOROUGH
    @given(anything(old))
    def check(obj: Json) -> None:
        before = bits(obj)
        stored = convert(obj, V1ALPHA1, V1BETA1)
        assert bits(obj) == before
        assert stored["apiVersion"] == hub.api_version
        assert hub.shape.prune(copy.deepcopy(stored)) == []
        assert bits(convert(stored, V1BETA1, V1ALPHA1)) == before

    check()


@EACH_KIND
def test_an_edit_through_v1alpha1_counts_and_keeps_what_only_the_hub_has(name: str) -> None:
    old, hub = versions(RESOURCES[name])

    @THOROUGH
    @given(anything(hub), anything(old), st.data())
    def check(stored: Json, other: Json, data: st.DataObject) -> None:
        seen = convert(stored, V1BETA1, V1ALPHA1)
        edited = {**seen}
        for part in ("spec", "status"):
            fields = sorted((seen.get(part) or {}).keys() | (other.get(part) or {}).keys())
            if fields:
                edited[part] = dict(seen.get(part) or {})
                field = data.draw(st.sampled_from(fields), label=f"{part} field to edit")
                if field in (other.get(part) or {}):
                    edited[part][field] = other[part][field]
                else:
                    del edited[part][field]
        result = convert(edited, V1ALPHA1, V1BETA1)
        assert STASH not in result["metadata"].get("annotations", {})
        assert_seen_alike(convert(result, V1BETA1, V1ALPHA1), edited)
        for part in ("spec", "status"):
            assert_kept(
                stored.get(part), result.get(part), old.schema.properties[part], hub.schema.properties[part]
            )

    check()


def assert_seen_alike(result: Json, edited: Json) -> None:
    """All that v1alpha1 can say is what the edit said. A part of which only unseen fields are left may be empty."""
    for part in ("spec", "status"):
        got, wanted = result.get(part) or {}, edited.get(part) or {}
        for field in got.keys() | wanted.keys():
            assert got.get(field) == wanted.get(field) or (got[field] == {} and field not in wanted)


def assert_kept(before: Any, after: Any, old: Any, hub: Any) -> None:
    """What only the hub knows of ``before`` is in ``after``, unless the item or entry that it belonged to is gone."""
    if isinstance(before, dict) and hub.properties:
        for name, value in before.items():
            if name not in old.properties:
                assert after[name] == value
            elif old.properties[name].type == "object" and old.properties[name].properties:
                assert_kept(value, (after or {}).get(name), old.properties[name], hub.properties[name])
            elif name in (after or {}):
                assert_kept(value, after[name], old.properties[name], hub.properties[name])
    elif isinstance(before, dict) and hub.additional:
        for key in before.keys() & after.keys():
            assert_kept(before[key], after[key], old.additional, hub.additional)
    elif isinstance(before, list) and hub.list_map_keys and old.items.properties:
        (key,) = hub.list_map_keys
        items = {item[key]: item for item in after}
        for item in before:
            if item[key] in items:
                assert_kept(item, items[item[key]], old.items, hub.items)


HUB = {
    "metadata": {"name": "demo", "namespace": "default", "annotations": {"owner": "me"}},
    "spec": elasticsearch(
        plugins=[{"name": "icu", "url": "https://host/icu.zip"}, {"name": "s3"}],
        config={"path.repo": ["/backup"]},
        nodePools=[{**MASTERS, "heapSize": "1Gi"}, {"name": "data", "roles": ["data"], "heapSize": "2Gi"}],
    ),
    "status": {
        "observedGeneration": 3,
        "health": "Green",
        "nodePools": {"data": {"readyReplicas": 1, "replicas": 2}},
    },
}


def hub_object() -> Json:
    found = admit(ELASTICSEARCH[V1BETA1], HUB)
    assert (found.problems, found.unknown) == ([], [])
    return found.obj


def test_plugins_are_names_in_v1alpha1_and_keep_their_sources() -> None:
    seen = convert(hub_object(), V1BETA1, V1ALPHA1)
    assert seen["spec"]["plugins"] == ["icu", "s3"]
    seen["spec"]["plugins"] = ["s3", "kuromoji", "icu"]
    assert convert(seen, V1ALPHA1, V1BETA1)["spec"]["plugins"] == [
        {"name": "s3"},
        {"name": "kuromoji"},
        {"name": "icu", "url": "https://host/icu.zip"},
    ]


def test_pools_are_found_by_name_wherever_they_moved() -> None:
    seen = convert(hub_object(), V1BETA1, V1ALPHA1)
    seen["spec"]["nodePools"] = [
        {"name": "new", "roles": ["ingest"]},
        *reversed(seen["spec"]["nodePools"]),
    ]
    pools = convert(seen, V1ALPHA1, V1BETA1)["spec"]["nodePools"]
    assert [(pool["name"], pool.get("heapSize")) for pool in pools] == [
        ("new", None),
        ("data", "2Gi"),
        ("test", "1Gi"),
    ]


def test_a_removed_pool_takes_its_fields_along() -> None:
    seen = convert(hub_object(), V1BETA1, V1ALPHA1)
    del seen["spec"]["nodePools"][1]
    result = convert(seen, V1ALPHA1, V1BETA1)
    assert [pool["name"] for pool in result["spec"]["nodePools"]] == ["test"]
    assert '"2Gi"' not in stash_of(result)


def test_an_object_that_v1alpha1_can_express_carries_nothing() -> None:
    obj = create(ELASTICSEARCH[V1BETA1], elasticsearch()).obj
    assert STASH not in convert(obj, V1BETA1, V1ALPHA1)["metadata"].get("annotations", {})


def test_a_client_that_strips_annotations_loses_nothing() -> None:
    kind = ELASTICSEARCH[V1ALPHA1]
    old = convert(hub_object(), V1BETA1, V1ALPHA1)
    new = copy.deepcopy(old)
    del new["metadata"]["annotations"]
    new["spec"]["nodePools"][0]["replicas"] = 5
    found = admit(kind, new, old)
    assert found.problems == []
    pools = convert(found.obj, V1ALPHA1, V1BETA1)["spec"]["nodePools"]
    assert (pools[0]["replicas"], pools[0]["heapSize"]) == (5, "1Gi")


def test_a_client_that_edits_the_annotation_changes_nothing() -> None:
    kind = ELASTICSEARCH[V1ALPHA1]
    old = convert(hub_object(), V1BETA1, V1ALPHA1)
    for forged in ('{"spec":{"config":{"cluster.name":"x"}}}', "garbage", ""):
        new = copy.deepcopy(old)
        new["metadata"]["annotations"][STASH] = forged
        found = admit(kind, new, old)
        assert found.problems == []
        assert bits(convert(found.obj, V1ALPHA1, V1BETA1)) == bits(hub_object())


def test_an_annotation_that_appears_on_update_is_taken_off() -> None:
    kind = ELASTICSEARCH[V1ALPHA1]
    old = create(kind, elasticsearch()).obj
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {STASH: '{"spec":{"config":{"a":1}}}'}
    assert admit(kind, new, old).obj["metadata"]["annotations"] == {}


def test_a_dump_can_be_restored_but_brings_no_status() -> None:
    dump = convert(hub_object(), V1BETA1, V1ALPHA1)
    found = admit(ELASTICSEARCH[V1ALPHA1], {**dump, "status": {}})
    assert found.problems == []
    restored = convert(found.obj, V1ALPHA1, V1BETA1)
    assert bits(restored["spec"]) == bits(hub_object()["spec"])
    assert restored["status"] == {}


@pytest.mark.parametrize(
    "forged",
    [
        "garbage",
        "[]",
        '{"spec":{"config":{"cluster.name":"x"}}}',
        '{"spec":{"unheard":1}}',
        '{"spec":{"nodePools":{"test":{"heapSize":-1}}}}',
        '{"spec":{"persistentVolumeClaimRetentionPolicy":7}}',
    ],
)
def test_the_annotation_is_no_way_around_the_rules_of_v1beta1(forged: str) -> None:
    obj = {"metadata": {"name": "a", "annotations": {STASH: forged}}, "spec": elasticsearch()}
    assert admit(ELASTICSEARCH[V1ALPHA1], obj).paths == [f"metadata.annotations[{STASH}]"]


def test_what_v1alpha1_refuses_itself_is_not_blamed_on_the_annotation() -> None:
    kind = ELASTICSEARCH[V1ALPHA1]
    old = convert(hub_object(), V1BETA1, V1ALPHA1)
    new = copy.deepcopy(old)
    new["spec"]["nodePools"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    new["spec"]["minimumMasters"] = 1000
    found = admit(kind, new, old)
    assert found.paths
    assert all(path.startswith("spec.") for path in found.paths)
    assert len(found.paths) == len(set(found.paths))


def test_the_annotation_is_blamed_for_its_own_faults_besides_others() -> None:
    forged = '{"spec":{"config":{"cluster.name":"x"}}}'
    spec = elasticsearch(minimumMasters=1000)
    obj = {"metadata": {"name": "a", "annotations": {STASH: forged}}, "spec": spec}
    assert sorted(admit(ELASTICSEARCH[V1ALPHA1], obj).paths) == [
        f"metadata.annotations[{STASH}]",
        "spec.minimumMasters",
    ]


def test_the_annotation_is_refused_in_v1beta1() -> None:
    obj = {"metadata": {"name": "a", "annotations": {STASH: "{}"}}, "spec": elasticsearch()}
    assert admit(ELASTICSEARCH[V1BETA1], obj).paths == [f"metadata.annotations[{STASH}]"]
    assert admit(PILOT[V1BETA1], {"metadata": {"annotations": {STASH: "{}"}}}).paths == [
        f"metadata.annotations[{STASH}]"
    ]


def test_what_would_not_fit_into_the_annotation_is_refused() -> None:
    found = create(ELASTICSEARCH[V1BETA1], elasticsearch(config={"a": "x" * 200_000}))
    assert found.paths == ["spec"]


@pytest.mark.parametrize("text", ["", "[", "[]", "1", "[" * 100_000, '{"a":' * 100_000])
def test_an_annotation_that_no_conversion_wrote_is_told_apart(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        read_stash(text)
