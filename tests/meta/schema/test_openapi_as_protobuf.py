"""What kubectl up to 1.28 finds in the protobuf form, read by field numbers as its own decoder does.

That all numbers of the table are right was checked once against a kube-apiserver's own document; here are those that kubectl uses.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.meta.schema.test_openapi_documents import DATABASE, IDENTITY, ONE, REGION
from tests.meta.schema.wire import Wire, read

from pilothouse.meta.kind import Kind
from pilothouse.meta.object_meta import object_schema
from pilothouse.meta.openapi.v2 import openapi_v2
from pilothouse.meta.openapi.v2_protobuf import openapi_protobuf
from pilothouse.meta.openapi.v3 import openapi_v3
from pilothouse.meta.schema.model import Schema

POD = Kind(
    group="",
    version="v1",
    name="Pod",
    plural="pods",
    schema=object_schema(
        {
            "containers": Schema(
                type="array",
                items=Schema(type="object", properties={"name": Schema(type="string", max_length=300)}),
                merge_key="name",
                merge_strategy="merge",
            ),
            "weight": Schema(type="number", minimum=-0.5, enum=(1, None, "many")),
            "free": Schema(type="object", additional=Schema(preserve_unknown=True, nullable=True)),
            "below": Schema(type="integer", maximum=-3, default=-4),
        }
    ),
    native=True,
)
DOCUMENT = read(openapi_protobuf(openapi_v2([openapi_v3([DATABASE, REGION]), openapi_v3([POD])])))
PATHS = DOCUMENT.one(8).named(2)
DEFINITIONS = DOCUMENT.one(9).named(1)


def extensions(message: Wire, number: int) -> dict[str, Any]:
    return {name: yaml.safe_load(value.text(2)) for name, value in message.named(number).items()}


def properties(name: str) -> dict[str, Wire]:
    return DEFINITIONS[name].one(25).named(1)


def written(schema: dict[str, Any]) -> Wire:
    return read(openapi_protobuf({"definitions": {"T": schema}})).one(9).named(1)["T"]


def test_the_document_says_what_it_is() -> None:
    assert DOCUMENT.text(1) == "2.0"
    assert DOCUMENT.one(2).text(1) == "Pilothouse"
    bearer = DOCUMENT.one(13).named(1)["BearerToken"].one(2)
    assert [bearer.text(number) for number in (1, 2, 3)] == ["apiKey", "authorization", "header"]
    assert "BearerToken" in DOCUMENT.one(12).named(1)


def test_a_patch_takes_field_validation_for_the_kind() -> None:
    patch = PATHS[ONE].one(8)

    assert extensions(patch, 13)["x-kubernetes-group-version-kind"] == IDENTITY
    parameters = [item.one(1) for item in patch.all(8)]
    queries = [each.one(2).one(3) for each in parameters if each.has(2)]
    assert "fieldValidation" in [query.text(4) for query in queries]
    assert [each.one(1).text(2) for each in parameters if each.has(1)] == ["body"]
    assert "application/merge-patch+json" in patch.texts(7)


def test_parameters_of_the_path_are_told_apart_from_queries() -> None:
    shared = [item.one(1).one(2) for item in PATHS[ONE].all(9)]

    assert [each.one(4).text(4) for each in shared if each.has(4)] == ["name", "namespace"]
    assert [each.one(3).text(4) for each in shared if each.has(3)] == ["pretty"]


def test_strategic_merge_is_offered_and_has_its_keys() -> None:
    patch = PATHS["/api/v1/namespaces/{namespace}/pods/{name}"].one(8)
    assert "application/strategic-merge-patch+json" in patch.texts(7)

    containers = properties("io.k8s.api.core.v1.Pod")["containers"]
    assert extensions(containers, 31) == {
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }
    (items,) = containers.one(23).all(1)
    assert items.one(25).named(1)["name"].number(11) == 300


def test_definitions_name_their_kind_and_refer_to_each_other() -> None:
    database = DEFINITIONS["io.example.nav.v1.Database"]

    assert extensions(database, 31)["x-kubernetes-group-version-kind"] == [IDENTITY]
    assert database.one(22).texts(1) == ["object"]
    spec = database.one(25).named(1)["spec"]
    assert spec.text(1) == "#/definitions/io.example.nav.v1.DatabaseSpec"
    assert spec.text(4) == "The desired state."
    assert DEFINITIONS["io.example.nav.v1.DatabaseSpec"].texts(19) == ["engine"]


def test_responses_lead_to_definitions() -> None:
    answers = PATHS[ONE].one(2).one(9).named(1)

    assert answers["200"].one(1).one(2).one(1).text(1) == "#/definitions/io.example.nav.v1.Database"
    assert answers["401"].one(1).text(1) == "Unauthorized"


def test_numbers_booleans_and_values_of_any_shape() -> None:
    found = properties("io.k8s.api.core.v1.Pod")

    assert found["weight"].double(9) == -0.5
    assert [yaml.safe_load(each.text(2)) for each in found["weight"].all(20)] == [1, None, "many"]
    assert found["free"].one(21).number(2) == 1
    assert found["below"].double(7) == -3
    assert yaml.safe_load(found["below"].one(5).text(2)) == -4
    assert written({"additionalProperties": False}).one(21).number(2) == 0
    assert written({"maxLength": 2**40}).number(11) == 2**40


@given(
    st.recursive(
        st.text() | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_values_of_any_shape_are_read_back_from_yaml(value: Any) -> None:
    assert yaml.safe_load(written({"default": value}).one(5).text(2)) == value


def test_line_ends_of_yaml_and_what_it_refuses_stay_within_a_string() -> None:
    value = "\x7f\x80\x85\x9f\u2028\u2029\ufeff\ufffe\uffff\U0001f600"

    assert yaml.safe_load(written({"default": value}).one(5).text(2)) == value


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"definitions": {"T": {"anyOf": []}}}, "no field 'anyOf' in Schema"),
        ({"components": {}}, "no field 'components' in Document"),
    ],
)
def test_what_the_form_has_no_place_for_is_refused(document: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        openapi_protobuf(document)
