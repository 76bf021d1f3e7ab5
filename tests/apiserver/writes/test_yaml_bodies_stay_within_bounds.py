"""A YAML body costs no more than its size allows, whatever it nests, repeats or claims to be."""

from __future__ import annotations

import json

import pytest

from pilothouse.apiserver.endpoints import decoding
from pilothouse.meta.errors import StatusError


def refusal(text: bytes) -> str:
    with pytest.raises(StatusError) as caught:
        decoding.read_yaml(text)
    assert caught.value.code == 400
    return caught.value.message


@pytest.mark.parametrize(
    "unit", [b"- ", b"[", b"{a: ", b"? ", b"- [{a: "], ids=["block", "flow", "map", "key", "mixed"]
)
def test_nesting_without_end_is_refused_and_the_process_lives(unit: bytes) -> None:
    # A reader that recurses in compiled code would overflow the process's stack here, which nothing can catch.
    refusal(unit * 200_000)


def test_aliases_that_nest_too_deeply_are_refused() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200))]
    assert "nested deeper" in refusal("\n".join(lines).encode())


def test_merges_of_merges_do_not_explode() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    assert "expands to more than" in refusal("\n".join(lines).encode())


def test_a_merge_adds_what_is_not_there() -> None:
    text = b"base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\nwhole: {<<: [*base, *more], a: 0}\n"
    assert decoding.read_yaml(text).value["whole"] == {"a": 0, "b": 2, "c": 4}


@pytest.mark.parametrize("value", ["1", "[1]", "[{a: 1}, 2]"])
def test_only_mappings_can_be_merged(value: str) -> None:
    assert "must be a mapping" in refusal(f"a: {{<<: {value}}}".encode())


def test_each_use_of_an_alias_is_an_object_of_its_own() -> None:
    value = decoding.read_yaml(b"a: &x {k: [1]}\nb: *x\n").value
    value["a"]["k"].append(2)
    assert value["b"] == {"k": [1]}


@pytest.mark.parametrize("text", [b"a: &x [*x]", b"a: *x", b"*x"])
def test_an_alias_needs_something_that_is_complete(text: bytes) -> None:
    assert "alias" in refusal(text)


@pytest.mark.parametrize(
    "value",
    [
        *["!!int ''", "!!int x", "!!bool xyz", "!!timestamp x", "!!float ''", "!!float .inf", "!!null x"],
        *["!!set {a, b}", "!!omap [a: 1]", "!x y", "!!str {a: 1}", "!!map [1]", "1e999", "0x_", "0b_"],
        *[f"!!float '{'1:' * 400}1'", f"!!int '{'1:' * 400}1'", "9" * 5000, f"0x{'f' * 5000}", "08_9e99999"],
    ],
    ids=lambda value: value[:20],
)
def test_a_value_that_is_not_what_its_tag_says_is_refused(value: str) -> None:
    assert "YAML" in refusal(f"a: {value}".encode())


def test_tags_may_say_what_json_has() -> None:
    text = b"a: !!str 1\nb: !!int '7'\nc: !!float 2\nd: !!bool 'yes'\ne: !!null ''\nf: !!map {}\ng: !!seq []\nh: ! 1\n"
    expected = {"a": "1", "b": 7, "c": 2.0, "d": True, "e": None, "f": {}, "g": [], "h": "1"}
    assert decoding.read_yaml(text).value == expected


def test_bare_letters_that_yaml_takes_for_booleans_are_booleans() -> None:
    assert decoding.read_yaml(b"[y, N, 'y', yes, off, yn]").value == [True, False, "y", True, False, "yn"]


def test_repeated_keys_are_named_with_their_lines() -> None:
    text = b"spec:\n  users:\n  - {name: a}\n  - {name: b, name: c}\n  x: 1\n  x: 2\n"
    assert decoding.read_yaml(text).duplicates == [
        'line 4: key "name" already set in map',
        'line 6: key "x" already set in map',
    ]


@pytest.mark.parametrize("opening", ["", "---\n"], ids=["json", "yaml"])
def test_very_many_repeated_keys_are_not_all_told(opening: str) -> None:
    members = ",".join(f'"k{n}": 1,"k{n}": 2' for n in range(2_000))
    text = f'{{"{"x" * 900}": {{{members}}}}}'
    body = decoding.read_yaml(f"{opening}{text}".encode())
    assert body.duplicates
    assert sum(map(len, body.duplicates)) <= 100_000
    assert body.value == json.loads(text)
