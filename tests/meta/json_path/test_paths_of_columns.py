from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.meta.json_path import PathError, compile_first, compile_path, plain_fields

OBJECT: dict[str, Any] = {
    "metadata": {"annotations": {"example.com/note": "n", "a.b": "dotted"}},
    "spec": {"replicas": 3, "note": None, "users": [{"name": "u1", "age": 7}, {"name": "u2", "age": 40}]},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}],
        "addresses": [["a", "b"], ["c"]],
    },
}


@pytest.mark.parametrize(
    ("path", "matches"),
    [
        (".spec.replicas", [3]),
        ("spec.replicas", [3]),
        ("$.spec.replicas", [3]),
        ("{.spec.replicas}", [3]),
        (".spec.note", [None]),
        (".spec.missing", []),
        (".spec.replicas.deeper", []),
        (r".metadata.annotations.example\.com/note", ["n"]),
        (".metadata.annotations['a.b']", ["dotted"]),
        ('.metadata.annotations["example.com/note"]', ["n"]),
        (".spec.users[0].name", ["u1"]),
        (".spec.users[-1].name", ["u2"]),
        (".spec.users[7].name", []),
        (".spec.users[*].name", ["u1", "u2"]),
        (".spec.users[0:1].name", ["u1"]),
        (".spec.users[1:].name", ["u2"]),
        (".spec.users[0,1].age", [7, 40]),
        ('.spec.users[0]["name","age"]', ["u1", 7]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Synced')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Synced"]),
        (".spec.users[?(@.age>10)].name", ["u2"]),
        (".spec.users[?(@.age>='x')].name", []),
        (".spec.users[?(@.age)].name", ["u1", "u2"]),
        (".spec.users[?(@['name']=='u1')].age", [7]),
        ("..name", ["u1", "u2"]),
        (".spec..age", [7, 40]),
        (".status.addresses[*][*]", ["a", "b", "c"]),
        (".status.addresses[*][0]", ["a", "c"]),
        (".metadata.annotations.*", ["n", "dotted"]),
    ],
)
def test_what_each_form_finds(path: str, matches: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == matches
    assert compile_first(path)(OBJECT) == (matches[0] if matches else None)


@pytest.mark.parametrize(
    "path",
    [
        ".a[",
        ".a[x]",
        ".a[?(@.b==)]",
        ".a[?(@.b=='x']",
        ".a b",
        ".a[0",
        ".a]",
        ".a['b]",
        "..a..b..c",
        ".a[::-1]",
        ".a..",
        "x" * 3000,
        "[?(@" * 500,
    ],
)
def test_what_is_no_path_is_refused_with_its_position(path: str) -> None:
    with pytest.raises(PathError, match="not a JSONPath"):
        compile_path(path)


def test_plain_paths_are_told_apart() -> None:
    assert plain_fields(".spec.replicas") == ("spec", "replicas")
    assert plain_fields(r".metadata.labels.a\.b/c") == ("metadata", "labels", "a.b/c")
    assert plain_fields(".spec.users[0]") is None
    assert plain_fields("..a") is None


@given(st.text(alphabet=".[]()?@*'\"=<>!:,\\ab01$ {}", max_size=30))
def test_any_text_is_a_path_or_a_path_error(path: str) -> None:
    try:
        find = compile_path(path)
    except PathError:
        return
    assert isinstance(find(OBJECT), list)
