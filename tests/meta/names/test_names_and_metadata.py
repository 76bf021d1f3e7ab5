from __future__ import annotations

import random
import re
from typing import Any

import pytest

from pilothouse.meta import names
from pilothouse.meta.names import validate_object_meta


def problems(meta: dict[str, Any], **options: Any) -> list[tuple[str, str]]:
    options.setdefault("namespaced", True)
    full = {"name": "a", "namespace": "t", **meta}
    return [(problem.path, problem.reason) for problem in validate_object_meta(full, **options)]


def test_a_good_object_has_no_problems() -> None:
    meta = {
        "labels": {"app": "web", "example.com/x": ""},
        "annotations": {"Example.com/Any": "\n thing é"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
    }
    assert problems(meta) == []
    assert names.finalizer_warnings(meta, None) == []


def test_names_say_which_rule_they_break() -> None:
    [problem] = validate_object_meta({"name": "A_b", "namespace": "t"}, namespaced=True)
    assert problem.path == "metadata.name"
    assert problem.message.startswith(
        'Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters'
    )
    assert "(e.g. 'example.com', regex used for validation is '" in problem.message
    assert problems({"name": ""}) == [("metadata.name", "FieldValueRequired")]
    assert problems({"name": "a" * 254}) == [("metadata.name", "FieldValueInvalid")]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.subdomain, ["a", "a.b-c", "1.2", "a" * 253], ["", "A", "-a", "a.", "a..b", "a_b", "a\n"]),
        (names.label, ["a", "1a"], ["a.b", "a-", "a" * 64]),
        (names.label_1035, ["a1"], ["1a", "A"]),
        (names.path_segment, ["system:node", "a b"], [".", "..", "a/b", "a%b"]),
        (names.qualified_name, ["a", "A_b.c", "x.y/Z"], ["", "/a", "a/", "a/b/c", "-a", "A/b", "a" * 64]),
        (names.label_value, ["", "a_B.c-d"], ["-", "a b", "a" * 64]),
    ],
)
def test_each_rule(rule: names.Rule, good: list[str], bad: list[str]) -> None:
    assert [rule(name) for name in good] == [""] * len(good)
    assert all(rule(name) for name in bad)


def test_the_namespace_must_fit_the_scope() -> None:
    assert problems({"namespace": ""}) == [("metadata.namespace", "FieldValueRequired")]
    assert problems({"namespace": "a.b"}) == [("metadata.namespace", "FieldValueInvalid")]
    assert problems({}, namespaced=False) == [("metadata.namespace", "FieldValueForbidden")]


def test_a_generated_name_is_its_prefix_and_five_letters() -> None:
    source = random.Random(1)
    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", names.generate_name("gen-", source))
    assert len(names.generate_name("x" * 100, source)) == 63
    assert problems({"generateName": "gen-"}) == []
    assert problems({"generateName": "Gen-"}) == [("metadata.generateName", "FieldValueInvalid")]


def test_labels_and_annotations() -> None:
    assert problems({"labels": {"a b": "c", "d": "-"}}) == [("metadata.labels", "FieldValueInvalid")] * 2
    assert problems({"labels": {"a": 1}}) == [("metadata.labels", "FieldValueTypeInvalid")]
    assert problems({"annotations": {"a": "x" * 300_000}}) == [("metadata.annotations", "FieldValueTooLong")]
    assert problems({"annotations": {"a": "é" * 131_072}}) == [("metadata.annotations", "FieldValueTooLong")]


def test_owner_references_are_complete_and_have_one_controller() -> None:
    assert problems({"ownerReferences": [{}]}) == [
        (f"metadata.ownerReferences[0].{field}", "FieldValueInvalid")
        for field in ("apiVersion", "kind", "name", "uid")
    ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    two = [owner, {**owner, "uid": "w", "name": "q"}]
    [problem] = validate_object_meta({"name": "a", "namespace": "t", "ownerReferences": two}, namespaced=True)
    assert problem.path == "metadata.ownerReferences"
    assert 'Found "true" in references for p and q' in problem.message


def test_repeated_owner_references_are_dropped_with_a_warning() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    meta = {"ownerReferences": [owner, dict(owner), {**owner, "uid": "w"}]}
    [warning] = names.dedupe_owner_references(meta)
    assert "duplicate UID(s) observed: u" in warning
    assert [each["uid"] for each in meta["ownerReferences"]] == ["u", "w"]
    assert names.dedupe_owner_references(meta) == []


def test_finalizers_are_qualified_names() -> None:
    assert problems({"finalizers": ["a b"]}) == [("metadata.finalizers", "FieldValueInvalid")]
    assert problems({"finalizers": ["orphan", "foregroundDeletion"]}) == [
        ("metadata.finalizers", "FieldValueInvalid")
    ]


def test_a_finalizer_that_others_might_use_is_warned_of_when_it_is_added() -> None:
    meta = {"finalizers": ["there", "mine", "example.com", "example.com/f", "orphan"]}
    cleanup = "customresourcecleanup.apiextensions.k8s.io"
    said = "prefer a domain-qualified finalizer name"
    why = "to avoid accidental conflicts with other finalizer writers"
    assert names.finalizer_warnings(meta, {"finalizers": ["there"]}) == [
        f'metadata.finalizers: "example.com": {said} including a path (/) {why}',
        f'metadata.finalizers: "mine": {said} {why}',
    ]
    assert names.finalizer_warnings({"finalizers": [cleanup]}, None) == []


def test_what_an_update_leaves_alone_is_not_judged_again() -> None:
    live = {"name": "a", "namespace": "t", "labels": {"not a key": "x"}, "finalizers": ["not one"]}
    assert validate_object_meta(live, namespaced=True, live=live) == []
    changed = {**live, "labels": {"not a key": "y"}}
    [problem] = validate_object_meta(changed, namespaced=True, live=live)
    assert problem.path == "metadata.labels"
