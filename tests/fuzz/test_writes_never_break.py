"""However an object is broken and whichever way it comes: a 4xx that says so and changes nothing, or an object that can be
read, listed, watched and written back.

Good objects of every kind are broken in a few places and sent through every verb and subresource.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.breaking import ODD, broken_objects, places
from tests.fuzz.effort import QUICK, long
from tests.fuzz.invariants import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    check_readable,
    remove,
    tried,
)
from tests.fuzz.samples import Object, Samples, path_of
from tests.kit.core import CoreServer

from pilothouse.api.registry import resources
from pilothouse.meta.schema.model import Schema

KINDS = [
    (kind.api_version, kind.name)
    for resource in resources()
    for kind in resource.kinds
    if not kind.virtual and kind.served
] + [("fuzz.example.io/v1", "Gadget")]
REVIEWS = [kind for resource in resources() for kind in resource.kinds if kind.virtual and kind.served]
every_kind = pytest.mark.parametrize("kind", KINDS, ids="-".join)
SERVERS_OWN = {
    "metadata": {"uid": "", "resourceVersion": "", "managedFields": [{"fieldsV1": {}}], "labels": {}}
}
PLACES = places(SERVERS_OWN)
QUERIES = st.sampled_from(["", "", "", "fieldValidation=Strict", "fieldValidation=Ignore", "dryRun=All"])


def create(server: CoreServer, samples: Samples, kind: tuple[str, str], data: st.DataObject) -> None:
    broken = data.draw(broken_objects(samples.of(kind), samples.served(kind).kind.schema))
    collection = path_of(server, samples.of(kind))
    query = data.draw(QUERIES)
    answer = tried(server, "POST", collection, broken, query=query)
    if answer.status != 201 or query == "dryRun=All":
        return
    obj = answer.json
    server.settle()
    try:
        check_readable(server, samples, obj)
    finally:
        remove(server, path_of(server, obj, named=True))


def change(server: CoreServer, samples: Samples, kind: tuple[str, str], data: st.DataObject) -> None:
    """A good object is changed by PUT and by patches of each type, through each path that it has."""
    good = samples.of(kind)
    server.send("POST", path_of(server, good), good).expect(201)
    server.settle()
    path = path_of(server, good, named=True)
    try:
        attack(server, samples, good, path, data)
    finally:
        remove(server, path)


def attack(server: CoreServer, samples: Samples, good: Object, path: str, data: st.DataObject) -> None:
    kind = samples.served((good["apiVersion"], good["kind"])).kind
    below = ["", *(f"/{each.name}" for each in kind.subresources if "update" in each.verbs)]
    below += ["/status"] if kind.status else []
    for part in below:
        sent = data.draw(broken_objects(good, kind.schema))
        current = server.send("GET", path)
        if isinstance(sent.get("metadata"), dict) and current.status == 200:
            sent["metadata"].setdefault("resourceVersion", current.json["metadata"]["resourceVersion"])
        tried(server, "PUT", path + part, sent, query=data.draw(QUERIES))
        patch(server, path + part, good, kind.schema, data)
    if kind.scale:
        scale = {"spec": {"replicas": data.draw(ODD)}, "metadata": data.draw(ODD)}
        tried(server, "PUT", f"{path}/scale", scale)
        patch(server, f"{path}/scale", good, kind.schema, data)
        tried(server, "GET", f"{path}/scale")
    server.settle()
    seen = server.send("GET", path)
    if seen.status == 200 and "deletionTimestamp" not in seen.json["metadata"]:
        check_readable(server, samples, seen.json)
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "metadata": {}}
    tried(server, "DELETE", path, data.draw(broken_objects(options, Schema())))


def patch(server: CoreServer, path: str, good: Object, schema: Schema, data: st.DataObject) -> None:
    media = data.draw(st.sampled_from([MERGE, STRATEGIC, APPLY, JSON_PATCH]))
    if media == JSON_PATCH:
        tried(server, "PATCH", path, data.draw(operations(good)), type=JSON_PATCH)
        return
    body = data.draw(partial_objects(good, schema))
    query = ""
    if media == APPLY:
        body = {"apiVersion": good["apiVersion"], "kind": good["kind"], **body}
        query = "fieldManager=odd" + data.draw(st.sampled_from(["", "&force=true"]))
    tried(server, "PATCH", path, body, type=media, query=query)


@st.composite
def partial_objects(draw: st.DrawFn, good: Object, schema: Schema) -> Any:
    """A patch: odd values at a few of the paths that the object has, directives, or no object at all."""
    if draw(st.integers(0, 15)) == 0:
        return draw(ODD.filter(lambda value: isinstance(value, dict)))
    broken = draw(broken_objects(good, schema))
    patch = {name: broken[name] for name in broken if draw(st.integers(0, 2)) == 0}
    if draw(st.booleans()):
        directive = draw(
            st.sampled_from(["$patch", "$retainKeys", "$setElementOrder/x", "$deleteFromPrimitiveList/x"])
        )
        inside = [each for each in [patch, *patch.values()] if isinstance(each, dict)]
        chosen = draw(st.sampled_from(inside))
        chosen[directive] = draw(st.sampled_from(["replace", "delete", "merge", "other"]) | ODD)
    return patch


@st.composite
def operations(draw: st.DrawFn, good: Object) -> Any:
    """A JSON patch with pointers into the object, next to it and nowhere."""

    def pointer() -> str:
        path = draw(st.sampled_from(PLACES + places(good)))
        steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
        tail = draw(st.sampled_from(["", "", "", "/-", "/0", "/-1", "/x", "/", "/~", "/9" * 30]))
        return draw(st.sampled_from(["/" + "/".join(steps) + tail, "", "x", "//"]))

    found: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        operation: dict[str, Any] = {
            "op": draw(st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "jump"])),
            "path": pointer(),
        }
        if draw(st.booleans()):
            operation["value"] = draw(ODD)
        if draw(st.booleans()):
            operation["from"] = pointer()
        if draw(st.integers(0, 9)) == 0:
            operation[draw(st.sampled_from(["op", "path", "from"]))] = draw(ODD)
        found.append(draw(st.sampled_from([operation] * 9 + [None])))
    return found


@every_kind
@QUICK
@given(data=st.data())
def test_creating(server: CoreServer, samples: Samples, kind: tuple[str, str], data: st.DataObject) -> None:
    create(server, samples, kind, data)


@every_kind
@QUICK
@given(data=st.data())
def test_changing(server: CoreServer, samples: Samples, kind: tuple[str, str], data: st.DataObject) -> None:
    change(server, samples, kind, data)


@pytest.mark.long
@every_kind
@long(400)
@given(data=st.data())
def test_creating_for_long(
    server: CoreServer, samples: Samples, kind: tuple[str, str], data: st.DataObject
) -> None:
    create(server, samples, kind, data)


@pytest.mark.long
@every_kind
@long(400)
@given(data=st.data())
def test_changing_for_long(
    server: CoreServer, samples: Samples, kind: tuple[str, str], data: st.DataObject
) -> None:
    change(server, samples, kind, data)
