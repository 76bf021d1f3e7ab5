from __future__ import annotations

import dataclasses
import json

import pytest
from tests.apiserver.reads.world import (
    CREATED,
    DATABASES,
    NOW,
    PARTIAL,
    PARTIAL_LIST,
    REGIONS,
    TABLE,
    World,
    ask,
)

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.endpoints.rendering import render
from pilothouse.apiserver.endpoints.scale import render_scale
from pilothouse.base.clock import ManualClock
from pilothouse.meta.errors import StatusError
from pilothouse.meta.kind import Column, Kind, Object


def obj(**rest: object) -> Object:
    return {
        "apiVersion": "nav.example.io/v1",
        "kind": "Region",
        "metadata": {"name": "eu", "creationTimestamp": CREATED},
        **rest,
    }


def cells(kind: Kind, thing: Object) -> list[object]:
    row = json.loads(tables.table_of_object(kind, thing, tables.NONE, NOW))["rows"][0]
    found: list[object] = row["cells"]
    return found


def with_columns(*columns: Column) -> Kind:
    return dataclasses.replace(REGIONS.kinds[0], columns=columns)


def test_without_columns_there_are_name_and_age() -> None:
    assert cells(REGIONS.kinds[0], obj()) == ["eu", "6s"]


def test_a_cell_has_its_columns_type() -> None:
    kind = with_columns(
        Column(name="Count", type="integer", path=".spec.count"),
        Column(name="Share", type="number", path=".spec.share"),
        Column(name="On", type="boolean", path=".spec.on"),
        Column(name="Since", type="date", path=".spec.since"),
        Column(name="Text", path=".spec.text"),
    )
    spec = {"count": 3.0, "share": 0.5, "on": True, "since": CREATED, "text": {"a": [1]}}
    assert cells(kind, obj(spec=spec)) == ["eu", 3, 0.5, True, "6s", '{"a":[1]}']
    wrong = {"count": "3", "share": True, "on": "yes", "since": "soon", "text": 7}
    assert cells(kind, obj(spec=wrong)) == ["eu", None, None, None, "<invalid>", "7"]
    assert cells(kind, obj()) == ["eu", None, None, None, None, None]


def test_a_column_may_be_a_function_and_kubernetes_kinds_place_the_name_themselves() -> None:
    summary = Column(name="Summary", cell=lambda thing, now: f"{thing['spec']['a']} at {now:.0f}")
    name = Column(name="Name", format="name", path=".metadata.name")
    assert cells(with_columns(summary), obj(spec={"a": 1})) == ["eu", f"1 at {NOW:.0f}"]
    native = dataclasses.replace(with_columns(summary, name), native=True)
    assert cells(native, obj(spec={"a": 1})) == [f"1 at {NOW:.0f}", "eu"]


def test_the_first_match_of_a_path_counts() -> None:
    kind = with_columns(Column(name="Ready", path='.status.conditions[?(@.type=="Ready")].status'))
    conditions = [{"type": "Live", "status": "True"}, {"type": "Ready", "status": "False"}]
    assert cells(kind, obj(status={"conditions": conditions})) == ["eu", "False"]


async def test_case_08_a_page_as_a_table(world: World) -> None:
    for name in "abc":
        await world.put(name, spec={"engine": "pg", "replicas": 2})
    table = await world.list("limit=2", accept=TABLE)
    assert table["kind"] == "Table"
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Engine", 0),
        ("Replicas", 0),
        ("Phase", 1),
        ("Age", 0),
    ]
    assert table["columnDefinitions"][0]["format"] == "name"
    assert table["rows"][0]["cells"] == ["a", "pg", 2, None, "6s"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["continue"]
    assert table["metadata"]["remainingItemCount"] == 1


async def test_case_08_how_much_of_the_object_goes_along(world: World) -> None:
    await world.put("a", spec={"engine": "pg"})
    bare = await world.list("includeObject=None", accept=TABLE)
    assert bare["rows"][0]["object"] is None
    full = await world.list("includeObject=Object", accept=TABLE)
    assert full["rows"][0]["object"]["spec"] == {"engine": "pg"}
    with pytest.raises(StatusError) as caught:
        await world.list("includeObject=Zip", accept=TABLE)
    assert caught.value.code == 400


async def test_case_09_metadata_of_a_list(world: World) -> None:
    await world.put("a")
    listed = await world.list(accept=PARTIAL_LIST)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["apiVersion"] == "meta.k8s.io/v1"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}
    with pytest.raises(StatusError) as caught:
        await world.list(accept=PARTIAL.partition(",")[0])
    assert caught.value.code == 406


async def test_a_scale_has_columns_of_its_own(world: World) -> None:
    scale = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "creationTimestamp": CREATED, "resourceVersion": "7"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2},
    }
    table = json.loads(bytes(render_scale(ask(accept=TABLE), scale, world.clock.now()).body))
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Desired",
        "Available",
        "Age",
    ]
    assert table["rows"][0]["cells"] == ["a", 3, 2, "6s"]
    assert json.loads(bytes(render_scale(ask(), scale, world.clock.now()).body)) == scale


async def test_a_written_object_is_answered_in_any_form() -> None:
    served = ServedVersion(DATABASES, DATABASES.kinds[0])
    value = (
        b'{"apiVersion":"nav.example.io/v1","kind":"Database","metadata":{"name":"a"},"spec":{"engine":"pg"}}'
    )
    clock = ManualClock(NOW)
    plain = render(ask(), served, value, 7, 201)
    assert (plain.status, json.loads(bytes(plain.body))["metadata"]["resourceVersion"]) == (201, "7")
    dry = render(ask(), served, value, 0, 201)
    assert dry.body == value
    table = json.loads(bytes(render(ask(accept=TABLE), served, value, 7, 201, clock=clock).body))
    assert table["rows"][0]["cells"][:2] == ["a", "pg"]
    assert render(ask(accept="application/yaml"), served, value, 7).content_type == "application/yaml"
    old = render(ask(), ServedVersion(DATABASES, DATABASES.kinds[1]), value, 7)
    assert json.loads(bytes(old.body))["apiVersion"] == "nav.example.io/v1alpha1"


async def test_what_was_selected_is_rendered_as_a_list(world: World) -> None:
    await world.put("a", labels={"k": "v"})
    await world.put("b")
    call = ResourceRequest(ask("labelSelector=k%3Dv"), world.served(), "deletecollection", "t")
    listed = await world.lister.select(call)
    assert [item.name for item in listed.items] == ["a"]
    body = json.loads(bytes((await world.lister.render(call, listed)).body))
    assert body["kind"] == "DatabaseList"
    assert [item["metadata"]["name"] for item in body["items"]] == ["a"]
