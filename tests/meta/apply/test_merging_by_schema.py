from __future__ import annotations

from typing import Any

import pytest
from tests.meta.apply.databases import INTEGER, SPEC, STRING, Databases, copy, database

from pilothouse.meta.apply.server_side_apply import apply
from pilothouse.meta.errors import StatusError
from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.schema.model import Schema

NOW = "2024-01-01T00:00:00Z"


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def test_key_defaults_tell_items_apart() -> None:
    db = Databases()
    db.apply("m1", ports=[{"port": 80, "title": "a"}, {"port": 80, "protocol": "UDP"}])
    assert '.spec.ports[port=80,protocol="TCP"].title' in db.owned("m1")
    db.apply("m2", ports=[{"port": 80, "protocol": "TCP", "title": "a"}])
    assert len(db.spec["ports"]) == 2
    assert db.spec["ports"][0] == {"port": 80, "protocol": "TCP", "title": "a"}


def test_atomic_parts_are_replaced_whole() -> None:
    db = Databases()
    db.apply("m1", args=["a", "b"], point={"x": 1, "y": 2})
    assert db.owned("m1") == [".spec.args", ".spec.point"]
    db.apply("m2", force=True, args=["c"], point={"x": 5})
    assert (db.spec["args"], db.spec["point"]) == (["c"], {"x": 5})
    assert db.owned("m1") == []


def test_new_items_come_in_the_order_applied() -> None:
    db = Databases()
    db.apply("m1", users=[{"name": "a"}, {"name": "b"}, {"name": "c"}])
    db.apply("m2", users=[{"name": "x"}, {"name": "c"}, {"name": "y"}, {"name": "a"}])
    assert names(db.spec["users"]) == ["b", "x", "c", "y", "a"]


def test_null_leaves_a_container_and_replaces_a_value() -> None:
    db = Databases()
    db.apply("m1", settings={"a": "1"}, note="n")
    db.apply("m2", force=True, settings=None, note=None)
    assert db.spec["settings"] == {"a": "1"}
    assert db.spec["note"] is None


def test_an_empty_map_is_owned_and_leaves_what_is_there() -> None:
    db = Databases()
    db.apply("m1", settings={"a": "1"})
    db.apply("m2", settings={})
    assert db.spec["settings"] == {"a": "1"}
    assert db.owned("m2") == [".spec.settings"]
    db.apply("m1", engine="pg")
    assert db.spec["settings"] == {}


def test_undescribed_parts_are_merged_by_field_and_their_lists_replaced() -> None:
    db = Databases()
    db.apply("m1", extra={"a": {"b": 1}, "l": [1, 2]})
    db.apply("m2", extra={"a": {"c": 2}})
    assert db.spec["extra"] == {"a": {"b": 1, "c": 2}, "l": [1, 2]}
    db.apply_object("m1", database())
    assert db.spec["extra"] == {"a": {"c": 2}}


def test_a_field_kept_by_a_plain_writer_survives_its_applier() -> None:
    db = Databases()
    db.apply("m1", settings={"a": "1", "b": "1"})
    db.update("upd", lambda obj: obj["spec"]["settings"].update(b="2", c="3"))
    db.apply_object("m1", database())
    assert db.spec["settings"] == {"b": "2", "c": "3"}


def test_metadata_is_applied_and_pruned_but_never_lost() -> None:
    db = Databases()
    patch = database({})
    patch["metadata"].update(labels={"a": "1"}, finalizers=["x/y"])
    db.apply_object("m1", patch)
    assert db.live is not None
    db.live["metadata"].update(uid="u", creationTimestamp="t")
    db.apply_object("m1", database())
    metadata = {key: value for key, value in db.live["metadata"].items() if key != "managedFields"}
    assert metadata == {"name": "a", "namespace": "t", "uid": "u", "creationTimestamp": "t"}


def test_several_conflicts_are_all_named() -> None:
    db = Databases()
    db.apply("m1", replicas=1, tags=["x"], settings={"a": "1"})
    db.update("upd", lambda obj: obj["spec"].update(engine="pg"))
    with pytest.raises(StatusError) as caught:
        db.apply("m2", replicas=2, engine="mysql", settings={"a": "2"}, tags=["x"])
    assert [(cause.message, cause.field) for cause in caught.value.causes] == [
        ('conflict with "m1"', ".spec.replicas"),
        ('conflict with "m1"', ".spec.settings.a"),
        ('conflict with "upd" using nav.example.io/v1', ".spec.engine"),
    ]


def test_a_list_that_became_atomic_is_owned_whole() -> None:
    db = Databases()
    db.apply("m1", tags=["x"])
    properties = {**SPEC.properties, "tags": Schema(type="array", items=STRING)}
    schema = object_schema({"spec": Schema(type="object", properties=properties)})
    live = apply(
        db.live,
        database({"tags": ["x", "y"]}),
        schema=schema,
        api_version="nav.example.io/v1",
        manager="m1",
        now=NOW,
    )
    [entry] = live["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:tags": {}}}
    live = apply(
        live,
        database({"tags": ["z"]}),
        schema=schema,
        api_version="nav.example.io/v1",
        manager="m2",
        force=True,
        now=NOW,
    )
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["m2"]


def test_fields_are_recorded_and_compared_in_their_own_version() -> None:
    old_schema = object_schema(
        {"spec": Schema(type="object", properties={"size": INTEGER, "engine": STRING})}
    )
    new_schema = object_schema(
        {"spec": Schema(type="object", properties={"replicas": INTEGER, "engine": STRING})}
    )
    served = {"nav.example.io/v1alpha1": old_schema, "nav.example.io/v1": new_schema}

    def convert(obj: dict[str, Any], version: str) -> dict[str, Any]:
        source, target = ("size", "replicas") if version.endswith("v1") else ("replicas", "size")
        spec = {target if key == source else key: value for key, value in obj.get("spec", {}).items()}
        return {**obj, "apiVersion": version, "spec": spec}

    def put(
        live: Any, version: str, manager: str, spec: dict[str, Any], force: bool = False
    ) -> dict[str, Any]:
        live = None if live is None else convert(live, version)
        patch = {**database(spec), "apiVersion": version}
        return apply(
            live,
            patch,
            schema=served[version],
            api_version=version,
            manager=manager,
            force=force,
            now=NOW,
            served=served,
            convert=convert,
        )

    live = put(None, "nav.example.io/v1alpha1", "m1", {"size": 3, "engine": "pg"})
    with pytest.raises(StatusError) as caught:
        put(live, "nav.example.io/v1", "m2", {"replicas": 4})
    assert [tuple(cause) for cause in caught.value.causes] == [
        ("FieldManagerConflict", 'conflict with "m1"', ".spec.size")
    ]
    shared = put(live, "nav.example.io/v1", "m2", {"replicas": 3})
    dropped = put(shared, "nav.example.io/v1", "m1", {"engine": "pg"})
    assert dropped["spec"] == {"replicas": 3, "engine": "pg"}
    gone = put(dropped, "nav.example.io/v1", "m2", {})
    assert gone["spec"] == {"engine": "pg"}


def test_kubectl_takes_over_what_its_client_side_apply_set() -> None:
    db = Databases()
    annotation = "kubectl.kubernetes.io/last-applied-configuration"

    def client_side(obj: dict[str, Any]) -> None:
        obj.update(spec={"engine": "pg", "replicas": 1, "owner": "me"})
        obj["metadata"]["annotations"] = {
            annotation: '{"apiVersion":"nav.example.io/v1","kind":"Database","metadata":{"name":"a","namespace":"t"},"spec":{"engine":"pg","replicas":1}}'
        }

    db.update("kubectl-client-side-apply", client_side)
    before = copy(db.live)
    db.apply("kubectl", engine="pg", replicas=5)
    assert db.spec["replicas"] == 5
    assert db.live is not None
    assert '"replicas":5' in db.live["metadata"]["annotations"][annotation]
    db.live = before
    with pytest.raises(StatusError) as caught:
        db.apply("kubectl", owner="you")
    assert [cause.field for cause in caught.value.causes] == [".spec.owner"]
    db.live = before
    with pytest.raises(StatusError):
        db.apply("gitops", replicas=5)


def test_a_pod_like_kind_merges_containers_and_ports() -> None:
    port = Schema(
        type="object",
        properties={
            "containerPort": INTEGER,
            "protocol": Schema(type="string", default="TCP"),
            "name": STRING,
        },
    )
    container = Schema(
        type="object",
        properties={
            "name": STRING,
            "image": STRING,
            "ports": Schema(
                type="array",
                items=port,
                list_type="map",
                list_map_keys=("containerPort", "protocol"),
                merge_key="containerPort",
                merge_strategy="merge",
            ),
            "volumeMounts": Schema(
                type="array",
                items=Schema(type="object", properties={"mountPath": STRING}),
                merge_key="mountPath",
                merge_strategy="merge",
            ),
        },
    )
    pod = object_schema(
        {
            "spec": Schema(
                type="object",
                properties={
                    "containers": Schema(
                        type="array",
                        items=container,
                        list_type="map",
                        list_map_keys=("name",),
                        merge_key="name",
                        merge_strategy="merge",
                    )
                },
            )
        }
    )

    def put(live: Any, manager: str, *containers: dict[str, Any]) -> dict[str, Any]:
        patch = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": list(containers)},
        }
        return apply(live, patch, schema=pod, api_version="v1", manager=manager, now=NOW)

    live = put(None, "m1", {"name": "web", "image": "1", "ports": [{"containerPort": 80}]})
    live = put(
        live,
        "m2",
        {
            "name": "web",
            "ports": [{"containerPort": 53, "protocol": "UDP"}],
            "volumeMounts": [{"mountPath": "/d"}],
        },
        {"name": "side"},
    )
    assert live["spec"]["containers"] == [
        {
            "name": "web",
            "image": "1",
            "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
            "volumeMounts": [{"mountPath": "/d"}],
        },
        {"name": "side"},
    ]
    live = put(live, "m2", {"name": "side"})
    assert live["spec"]["containers"] == [
        {"name": "web", "image": "1", "ports": [{"containerPort": 80}]},
        {"name": "side"},
    ]
