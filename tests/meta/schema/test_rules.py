"""CEL rules on objects."""

from __future__ import annotations

from typing import Any

import pytest
from tests.meta.schema.databases import SCHEMA, database

from pilothouse.meta.schema.compiled_schema import CompiledSchema
from pilothouse.meta.schema.model import Schema, ValidationRule
from pilothouse.meta.schema.schema_json import from_json

DATABASE = CompiledSchema(SCHEMA)
NUMBER = Schema(type="integer")


def shape(rule: ValidationRule, **properties: Schema) -> CompiledSchema:
    return CompiledSchema(Schema(type="object", properties=properties, rules=(rule,)))


def said(shape: CompiledSchema, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(fault) for fault in shape.validate(new, old)]


def test_a_transition_rule_runs_on_update_only() -> None:
    assert DATABASE.validate(database({"engine": "mysql"})) == []
    [fault] = DATABASE.validate(database({"engine": "mysql"}), database({"engine": "pg"}))
    assert (fault.path, fault.message) == ("spec", 'Invalid value: "object": engine is immutable')


def test_a_rule_has_its_own_reason_and_field() -> None:
    [fault] = DATABASE.validate(database({"replicas": 10}))
    assert (fault.reason, str(fault)) == ("FieldValueForbidden", "spec.replicas: Forbidden: at most nine")


@pytest.mark.parametrize("spec", [{"owner": 5}, {"engine": "zz"}, {"owner": "x" * 21}, {"users": [{}]}])
def test_rules_wait_until_they_can_rely_on_the_types(spec: dict[str, Any]) -> None:
    last = DATABASE.validate(database({**spec, "replicas": 10}))[-1]
    assert (last.path, last.reason) == ("<nil>", "FieldValueInvalid")
    assert last.message.endswith(
        "some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


def test_an_old_element_is_found_by_its_key() -> None:
    user = Schema(
        type="object",
        properties={"name": Schema(type="string"), "level": NUMBER},
        required=("name",),
        rules=(ValidationRule(rule="self.level >= oldSelf.level", message="levels only rise"),),
    )
    users = Schema(type="array", items=user, list_type="map", list_map_keys=("name",))
    checked = CompiledSchema(Schema(type="object", properties={"users": users}))
    old = {"users": [{"name": "a", "level": 1}, {"name": "b", "level": 5}]}

    assert said(checked, {"users": [{"name": "b", "level": 6}, {"name": "c", "level": 0}]}, old) == []
    assert said(checked, {"users": [{"name": "c", "level": 9}, {"name": "b", "level": 4}]}, old) == [
        'users[1]: Invalid value: "object": levels only rise'
    ]


def test_an_optional_old_self_lets_a_transition_rule_see_the_first_write() -> None:
    rule = ValidationRule(
        rule="oldSelf.hasValue() || self.x == 1  // starts at one",
        message="starts at one",
        optional_old_self=True,
    )

    assert said(shape(rule, x=NUMBER), {"x": 1}) == []
    assert said(shape(rule, x=NUMBER), {"x": 2}) == ['<nil>: Invalid value: "object": starts at one']
    assert said(shape(rule, x=NUMBER), {"x": 2}, {"x": 1}) == []


def test_an_optional_old_self_keeps_the_types_of_its_fields() -> None:
    when = Schema(type="string", format="date-time")
    rule = ValidationRule(
        rule="self.at >= oldSelf.?at.orValue(self.at)", message="only later", optional_old_self=True
    )

    assert (
        said(shape(rule, at=when), {"at": "2024-01-01T00:00:00+00:00"}, {"at": "2024-01-01T00:00:00Z"}) == []
    )
    assert (
        said(shape(rule, at=when), {"at": "2023-12-31T23:00:00-00:30"}, {"at": "2024-01-01T00:00:00Z"}) != []
    )


def test_a_message_expression_speaks_of_the_values() -> None:
    rule = ValidationRule(
        rule="self.x < 5", message="too much", message_expression="'x is ' + string(self.x)"
    )
    assert said(shape(rule, x=NUMBER), {"x": 7}) == ['<nil>: Invalid value: "object": x is 7']


def test_a_message_expression_that_fails_gives_way_to_the_message() -> None:
    rule = ValidationRule(rule="self.x < 5", message="too much", message_expression="string(self.y)")
    checked = shape(rule, x=NUMBER, y=NUMBER)
    assert said(checked, {"x": 7}) == ['<nil>: Invalid value: "object": too much']


def test_without_a_message_the_rule_itself_is_shown() -> None:
    assert said(shape(ValidationRule(rule="self.x < 5"), x=NUMBER), {"x": 7}) == [
        '<nil>: Invalid value: "object": failed rule: self.x < 5'
    ]


def test_a_rule_that_fails_says_why() -> None:
    [fault] = said(shape(ValidationRule(rule="self.y > 1"), x=NUMBER, y=NUMBER), {"x": 1})
    assert "key not found" in fault
    assert fault.endswith("evaluating rule: self.y > 1")


def test_a_rule_that_never_ends_is_stopped() -> None:
    numbers = Schema(type="array", items=NUMBER)
    rule = ValidationRule(rule="self.x.all(a, self.x.all(b, self.x.all(c, a + b + c >= 0)))")
    [fault] = said(shape(rule, x=numbers), {"x": list(range(300))})
    assert "no further validation rules will be run" in fault


def test_field_names_are_escaped_as_kubernetes_escapes_them() -> None:
    text = Schema(type="string")
    names = {"a-b": text, "c.d": text, "e/f": text, "namespace": text, "x__y": text, "in": text}
    rule = "self.a__dash__b + self.c__dot__d + self.e__slash__f + self.__namespace__ + self.x__underscores__y + self.__in__"
    values = dict(zip(names, "123456", strict=True))

    assert said(shape(ValidationRule(rule=f"{rule} == '123456'"), **names), values) == []
    assert said(shape(ValidationRule(rule=f"{rule} == '1'"), **names), values) != []
    assert said(shape(ValidationRule(rule="has(self.a__dash__b)"), **names), values) == []


@pytest.mark.parametrize(
    ("node", "value", "rule"),
    [
        ({"type": "string", "format": "date-time"}, "2024-03-01T01:00:00+01:00", "self.x.getMonth() == 2"),
        (
            {"type": "string", "format": "date-time"},
            "2024-03-01T01:00:00+01:00",
            "self.x == timestamp('2024-03-01T00:00:00Z')",
        ),
        ({"type": "string", "format": "date"}, "2024-03-01", "self.x < timestamp('2024-03-01T00:00:01Z')"),
        ({"type": "string", "format": "duration"}, "90m", "self.x > duration('1h')"),
        ({"type": "string", "format": "byte"}, "aGk=", "self.x == b'hi'"),
        ({"type": "number"}, 3, "self.x / 2.0 == 1.5"),
        ({"type": "array", "items": {"type": "number"}}, [1, 2.5], "self.x.all(n, n * 1.0 > 0.5)"),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"d": {"type": "string", "format": "duration"}}},
            },
            [{"d": "1h"}, {"d": "61m"}],
            "self.x.exists(e, e.d > duration('1h')) && self.x[0].d == duration('3600s')",
        ),
        ({"x-kubernetes-int-or-string": True}, "50%", "type(self.x) == string && self.x.endsWith('%')"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a": 1},
            "self.x.all(k, self.x[k] > 0)",
        ),
        ({"type": "string"}, "b", "cel.bind(v, self.x, v + v == 'bb')"),
    ],
)
def test_values_have_the_types_that_the_schema_gives_them(
    node: dict[str, Any], value: Any, rule: str
) -> None:
    assert said(shape(ValidationRule(rule=rule), x=from_json(node)), {"x": value}) == []


@pytest.mark.parametrize(
    "rule",
    [
        "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2].sum() == 3 && [1, 2].max() == 2 && [2, 1].min() == 1",
        "['a', 'b', 'a'].indexOf('a') == 0 && ['a', 'b', 'a'].lastIndexOf('a') == 2 && ['a'].indexOf('x') == -1",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]', 1) == ['1']",
        "quantity('1Gi') == quantity('1024Mi') && quantity('1.5').isGreaterThan(quantity('500m'))",
        "quantity('2k').add(quantity('1')).asInteger() == 2001 && quantity('-1').sign() == -1 && !isQuantity('1X')",
        "url('https://a.io:80/p?q=1').getHostname() == 'a.io' && url('https://a.io:80/p').getPort() == '80'",
        "url('https://a.io/p?q=1').getQuery() == {'q': ['1']} && !isURL('nope nope') && url('/p').getEscapedPath() == '/p'",
        "ip('::0001') == ip('::1') && ip('127.0.0.1').isLoopback() && ip('10.0.0.1').family() == 4 && !isIP('1.2')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && isCIDR('::/0')",
        "cidr('10.1.2.3/8').masked() == '10.0.0.0/8' && cidr('10.0.0.0/8').prefixLength() == 8",
        "'a,b'.split(',').join('-') == 'a-b' && 'Ab'.lowerAscii() == 'ab' && '%d'.format([3]) == '3'",
        "'abc'.matches('^a.c$') && math.greatest(1, 2) == 2 && base64.decode('aGk=') == b'hi'",
    ],
)
def test_kubernetes_own_functions_are_there(rule: str) -> None:
    assert said(shape(ValidationRule(rule=rule)), {}) == []


def test_a_search_takes_no_longer_than_a_pass_over_the_text() -> None:
    rule = "self.x.find('(a+)+$') == '' && self.x.find('a*a*a*a*b') == '' && self.x.findAll('(a|aa)+!') == [self.x]"
    assert said(shape(ValidationRule(rule=rule), x=Schema(type="string")), {"x": "a" * 2_000 + "!"}) == []


def test_a_rule_that_does_not_compile_is_reported_with_every_write() -> None:
    [fault] = said(shape(ValidationRule(rule="self.nope > 1"), x=NUMBER), {"x": 1})
    assert "rule compile error: undefined field 'nope'" in fault


def test_rules_on_null_and_absent_values_do_not_run() -> None:
    nullable = Schema(type="integer", nullable=True, rules=(ValidationRule(rule="self > 5"),))
    checked = CompiledSchema(Schema(type="object", properties={"x": nullable}))
    assert said(checked, {"x": None}) == []
    assert said(checked, {}) == []


def test_rules_on_map_values_name_the_key() -> None:
    value = Schema(type="integer", rules=(ValidationRule(rule="self > 5", message="too small"),))
    checked = CompiledSchema(Schema(type="object", properties={"x": Schema(type="object", additional=value)}))
    assert said(checked, {"x": {"a": 1, "b": 9}}) == ['x[a]: Invalid value: "integer": too small']
