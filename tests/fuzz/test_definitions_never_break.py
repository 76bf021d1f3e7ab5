"""A definition may hold any schema: broken ones are refused with their path, and a kind that is served can be used."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.breaking import NUMBERS, ODD, WORDS
from tests.fuzz.effort import QUICK, long
from tests.fuzz.invariants import APPLY, MERGE, TABLE, remove, tried
from tests.kit.core import CoreServer

GROUP = "odd.example.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"things.{GROUP}"

RULES = st.sampled_from(
    [
        "true",
        "self.size > 0",
        "self == oldSelf",
        "self.all(x, self.all(y, self.all(z, x == y)))",
        "self",
        "1/0 == 1",
        "has(self.a) && has(self.a.b.c)",
        "oldSelf.orValue(1) == self",
        "self.matches('(a+)+$')",
        "self.map(x, x)",
        "'a' * 100000",
        "(" * 300 + "1" + ")" * 300 + " == 1",
        "-" * 500 + "1 == 1",
        "self.size.size.size",
        "undeclared",
        "duration('1h') > duration('x')",
        "quantity(self) > quantity('1')",
        "self.__class__",
        "",
        "\x00",
        "é",
        "[1, 'a', null] == [self]",
        "9223372036854775807 + 1 > 0",
        "self in [1, 2, 3]",
        "string(self) == bytes(self)",
        "'\\xff'",
        "type(self) == type(1)",
        "{'a': self}.a == self",
        "self.metadata.name == 'x'",
        "x" * 5000,
    ]
)
GOOD_PATHS = [
    ".spec",
    ".spec.a",
    ".spec.a[0]",
    ".spec.a[*]",
    "..a",
    "{.spec}",
    ".spec['a']",
    ".spec.a[?(@.b=='c')]",
]
BAD_PATHS = [
    "",
    ".",
    ".spec[::0]",
    ".spec.[",
    ".spec.\u0000",
    ".a" * 500,
    "spec.a",
    ".spec.a[9999999999999999999]",
]
PATHS = st.sampled_from([*GOOD_PATHS, ".spec.a[-1:]", *BAD_PATHS])
PATTERNS = st.sampled_from(
    ["^a$", "[z-a]", "(a+)+$", "(?<n>a)", "\\p{L}", "(", "(?i)a", "\\1", "a{1,100000}", "\x00", ""]
)
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "x", ""])
    | ODD,
    "format": st.sampled_from(["int32", "date-time", "byte", "x", "uuid", "duration"]) | WORDS,
    "enum": st.lists(ODD, max_size=4) | st.just(list(range(5000))) | ODD,
    "default": ODD,
    "example": ODD,
    "required": st.lists(WORDS, max_size=3) | ODD,
    "nullable": st.booleans() | ODD,
    "minimum": NUMBERS | ODD,
    "maximum": NUMBERS,
    "exclusiveMinimum": st.booleans() | NUMBERS,
    "multipleOf": NUMBERS | ODD,
    "minLength": NUMBERS,
    "maxLength": NUMBERS,
    "pattern": PATTERNS | ODD,
    "minItems": NUMBERS,
    "maxItems": NUMBERS,
    "uniqueItems": st.booleans(),
    "minProperties": NUMBERS,
    "maxProperties": NUMBERS,
    "title": WORDS,
    "description": WORDS,
    "externalDocs": ODD,
    "$ref": st.sampled_from(["#", "#/properties/spec", "#/definitions/x", "http://x"]) | ODD,
    "$schema": WORDS,
    "id": WORDS,
    "definitions": ODD,
    "dependencies": ODD,
    "patternProperties": ODD,
    "additionalItems": ODD,
    "x-kubernetes-preserve-unknown-fields": st.booleans() | ODD,
    "x-kubernetes-embedded-resource": st.booleans() | ODD,
    "x-kubernetes-int-or-string": st.booleans() | ODD,
    "x-kubernetes-list-type": st.sampled_from(["map", "set", "atomic", "x"]) | ODD,
    "x-kubernetes-list-map-keys": st.lists(st.sampled_from(["name", "a", ""]), max_size=3) | ODD,
    "x-kubernetes-map-type": st.sampled_from(["atomic", "granular", "x"]) | ODD,
    "x-kubernetes-validations": st.lists(
        st.fixed_dictionaries(
            {"rule": RULES},
            optional={
                "message": WORDS,
                "messageExpression": RULES,
                "reason": st.sampled_from(["FieldValueInvalid", "x"]) | ODD,
                "fieldPath": PATHS,
                "optionalOldSelf": st.booleans() | ODD,
            },
        ),
        max_size=2,
    )
    | ODD,
    "x-unheard": ODD,
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """Schemas of which many are structural, and the others nearly."""
    type_ = draw(st.sampled_from(["object"] * 4 + ["array", "string", "integer", "number", "boolean", ""]))
    node: dict[str, Any] = {"type": type_} if type_ else {}
    if type_ == "object" and depth:
        names = draw(
            st.lists(st.sampled_from(["a", "b", "name", "spec", "metadata", "é", "x.y"]), max_size=3)
        )
        if draw(st.integers(0, 3)):
            node["properties"] = {name: draw(schemas(depth - 1)) for name in names}
        else:
            node["additionalProperties"] = draw(schemas(depth - 1) | st.booleans())
    if type_ == "array" and (depth or draw(st.booleans())):
        node["items"] = draw(schemas(max(depth - 1, 0)) | st.lists(schemas(0), max_size=1))
    if draw(st.integers(0, 4)) == 0:
        for name in draw(st.lists(st.sampled_from(sorted(KEYWORDS)), max_size=2)):
            node[name] = draw(KEYWORDS[name])
    for name in draw(st.lists(st.sampled_from(["allOf", "anyOf", "oneOf", "not"]), max_size=1)):
        if draw(st.integers(0, 4)) == 0:
            node[name] = draw(schemas(0)) if name == "not" else [draw(schemas(0))]
    return copy.deepcopy(node)


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(schemas())
    root: dict[str, Any] = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    if draw(st.integers(0, 5)) == 0:
        root = draw(schemas())
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    if draw(st.booleans()):
        version["additionalPrinterColumns"] = [
            {
                "name": "A",
                "type": draw(st.sampled_from(["string", "date", "integer"])),
                "jsonPath": draw(PATHS),
            }
        ]
    if draw(st.booleans()):
        version["subresources"] = {"status": {}}
    if draw(st.integers(0, 5)) == 0:
        version["selectableFields"] = [{"jsonPath": draw(PATHS)}]
    if draw(st.integers(0, 2)) == 0:
        replicas = draw(st.sampled_from([".spec.a"] * 3) | PATHS)
        scale = {
            "specReplicasPath": replicas,
            "statusReplicasPath": ".status.a",
            "labelSelectorPath": ".spec.b",
        }
        version["subresources"] = {"status": {}, "scale": scale}
    names: dict[str, Any] = {"plural": "things", "kind": "Thing"}
    if draw(st.integers(0, 9)) == 0:
        names[draw(st.sampled_from(["singular", "listKind", "shortNames", "categories"]))] = draw(ODD)
    return {
        "metadata": {"name": NAME},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def define(server: CoreServer, data: st.DataObject) -> None:
    definition = copy.deepcopy(data.draw(definitions()))
    answer = tried(server, "POST", DEFINITIONS, definition)
    if answer.status != 201:
        return
    server.settle()
    try:
        use(server, data)
        changed = copy.deepcopy(data.draw(definitions()))
        changed["metadata"] = {"name": NAME, "resourceVersion": answer.json["metadata"]["resourceVersion"]}
        tried(server, "PUT", f"{DEFINITIONS}/{NAME}", changed)
        server.settle()
        use(server, data)
    finally:
        remove(server, f"{DEFINITIONS}/{NAME}")


def use(server: CoreServer, data: st.DataObject) -> None:
    """Whatever the kind is like: it is in the documents, and its objects are refused or can be read."""
    kinds = f"/apis/{GROUP}/v1/things"
    if server.send("GET", kinds).status == 404:
        return
    for path in (f"/apis/{GROUP}/v1", f"/openapi/v3/apis/{GROUP}/v1"):
        server.send("GET", path).expect(200)
    for name in ("a", "b"):
        thing = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Thing",
            "metadata": {"name": name},
            "spec": data.draw(ODD),
        }
        tried(server, "POST", kinds, thing)
        patch = {"spec": data.draw(ODD), "status": data.draw(ODD)}
        tried(server, "PATCH", f"{kinds}/{name}", patch, type=MERGE)
        tried(
            server,
            "PATCH",
            f"{kinds}/{name}",
            {**thing, **patch},
            type=APPLY,
            query="fieldManager=m&force=true",
        )
        tried(server, "GET", f"{kinds}/{name}/scale")
        tried(server, "PATCH", f"{kinds}/{name}/status", patch, type=MERGE)
    assert tried(server, "GET", kinds).status == 200
    assert tried(server, "GET", kinds, accept=TABLE).status == 200
    server.watched(kinds, accept=TABLE)


@settings(QUICK, max_examples=80)
@given(data=st.data())
def test_defining(server: CoreServer, data: st.DataObject) -> None:
    define(server, data)


@pytest.mark.long
@long(5_000)
@given(data=st.data())
def test_defining_for_long(server: CoreServer, data: st.DataObject) -> None:
    define(server, data)
