"""Cases 20–24: what a schema refuses, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.databases import Databases, database
from tests.kit.http import Answer, Http

pytestmark = pytest.mark.conformance


def blamed(answer: Answer) -> list[tuple[str, str]]:
    assert (answer.status, answer.reason) == (422, "Invalid"), answer.body
    return [(cause.reason, cause.field) for cause in answer.causes if cause.field != "<nil>"]


@pytest.mark.parametrize(
    ("spec", "reason", "field", "message"),
    [
        ({"engine": "zz"}, "FieldValueNotSupported", "spec.engine", 'supported values: "pg", "mysql"'),
        ({"replicas": 101}, "FieldValueInvalid", "spec.replicas", "less than or equal to 100"),
        ({"owner": 5}, "FieldValueTypeInvalid", "spec.owner", "string"),
        ({"owner": "x" * 21}, "FieldValueTooLong", "spec.owner", "20"),
    ],
    ids=["enum", "maximum", "type", "length"],
)
async def test_case_20_a_wrong_value_is_blamed_on_its_field(
    dbs: Databases, http: Http, spec: dict[str, Any], reason: str, field: str, message: str
) -> None:
    answer = await http.post(dbs.path(), database("a", **spec))

    # The rule on replicas may add its own word; nothing else is wrong.
    assert (reason, field) in blamed(answer)
    assert {blame[1] for blame in blamed(answer)} == {field}
    assert any(message in cause.message for cause in answer.causes if cause.reason == reason)


async def test_case_20_a_missing_required_field_is_blamed(dbs: Databases, http: Http) -> None:
    answer = await http.post(dbs.path(), {**database("a"), "spec": {}})

    assert blamed(answer) == [("FieldValueRequired", "spec.engine")]


async def test_case_20_every_error_is_told(dbs: Databases, http: Http) -> None:
    answer = await http.post(dbs.path(), database("a", engine="zz", replicas=101, owner="x" * 21))

    assert sorted(blamed(answer)) == [
        ("FieldValueInvalid", "spec.replicas"),
        ("FieldValueNotSupported", "spec.engine"),
        ("FieldValueTooLong", "spec.owner"),
    ]


async def test_case_21_a_rule_has_its_own_reason_and_message(dbs: Databases, http: Http) -> None:
    answer = await http.post(dbs.path(), database("a", replicas=10))

    assert blamed(answer) == [("FieldValueForbidden", "spec.replicas")]
    assert "at most nine" in answer.causes[0].message


async def test_case_21_a_transition_rule_sees_the_old_value(dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    answer = await http.patch(dbs.at("a"), {"spec": {"engine": "mysql"}})

    assert blamed(answer) == [("FieldValueInvalid", "spec")]
    assert "engine is immutable" in answer.causes[0].message


async def test_case_22_sets_and_keyed_lists_have_no_duplicates(dbs: Databases, http: Http) -> None:
    tags = await http.post(dbs.path(), database("a", tags=["x", "x"]))
    assert blamed(tags) == [("FieldValueDuplicate", "spec.tags[1]")]

    users = await http.post(dbs.path(), database("a", users=[{"name": "u1"}, {"name": "u1"}]))
    assert blamed(users) == [("FieldValueDuplicate", "spec.users[1]")]


async def test_case_23_null_is_dropped_unless_the_field_is_nullable(dbs: Databases, http: Http) -> None:
    created = await dbs.create("a", owner=None, note=None)

    assert "owner" not in created["spec"]
    assert created["spec"]["note"] is None
    assert (await dbs.read("a"))["spec"] == {"engine": "pg", "replicas": 1, "note": None}


@pytest.mark.parametrize(
    ("written", "status"),
    [(b"y", 422), (b"no", 422), (b"1.10", 422), (b"13:00", 201), (b"'no'", 201)],
    ids=["y", "no", "number", "time", "quoted"],
)
async def test_yaml_words_mean_what_they_mean_in_kubernetes(
    dbs: Databases, http: Http, written: bytes, status: int
) -> None:
    body = (
        b"apiVersion: nav.example.io/v1\nkind: Database\nmetadata: {name: a}\nspec: {engine: pg, owner: %s}\n"
    )

    answer = await http.post(dbs.path(), body % written, type="application/yaml")

    assert answer.status == status
    if status == 422:
        assert blamed(answer) == [("FieldValueTypeInvalid", "spec.owner")]
    else:
        assert answer.json["spec"]["owner"] == written.decode().strip("'")


async def test_case_24_a_body_that_is_not_json_is_400(dbs: Databases, http: Http) -> None:
    broken = await http.post(dbs.path(), b"{bad")
    assert (broken.status, broken.reason) == (400, "BadRequest")


async def test_case_24_an_unknown_body_type_is_415(dbs: Databases, http: Http) -> None:
    typed = await http.post(dbs.path(), b"hello", type="text/plain")
    assert (typed.status, typed.reason) == (415, "UnsupportedMediaType")
    assert "application/json" in typed.message


async def test_case_24_a_large_body_is_413(dbs: Databases, http: Http) -> None:
    body = database("a", metadata={"annotations": {"big": "x" * 3_200_000}})

    large = await http.post(dbs.path(), body)

    assert (large.status, large.reason) == (413, "RequestEntityTooLarge")
    assert "3145728" in large.message


async def test_case_24_large_annotations_are_blamed(dbs: Databases, http: Http) -> None:
    body = database("a", metadata={"annotations": {"big": "x" * 300_000}})

    answer = await http.post(dbs.path(), body)

    assert blamed(answer) == [("FieldValueTooLong", "metadata.annotations")]
