from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.meta.errors import StatusError
from pilothouse.meta.selectors import LabelRequirement, LabelSelector, SelectorError


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "c"}, False),
        ("a=", {"a": ""}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("! a", {}, True),
        ("i in (1,2)", {"i": "2"}, True),
        ("i in (1, 2)", {}, False),
        ("i notin (1,2)", {}, True),
        ("i notin (1,2)", {"i": "1"}, False),
        ("i in ()", {"i": ""}, True),
        ("i>2", {"i": "3"}, True),
        ("i>2", {"i": "2"}, False),
        ("i>2", {"i": "x"}, False),
        ("i<2", {}, False),
        ("example.com/a=b,c", {"example.com/a": "b", "c": "x"}, True),
        ("in in (in,notin)", {"in": "notin"}, True),
    ],
)
def test_what_each_operator_lets_through(text: str, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is matches


@pytest.mark.parametrize(
    "text",
    [
        "a===",
        "=b",
        "a=b=c",
        "a,,b",
        "a,",
        ",a",
        "a in",
        "a in b",
        "a in (b",
        "a in (b c)",
        "a b",
        "!",
        "a>",
        "a>x",
        "!a=b",
        "a=b c",
        "-a=b",
        "a=-b",
        "a/b/c=d",
        "A_/b",
        "a=" + "x" * 64,
        "a in (é)",
        "a\x00=b",
    ],
)
def test_what_is_no_selector_is_a_400_and_a_value_error(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, StatusError)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def test_the_message_says_what_was_found_and_what_was_expected() -> None:
    with pytest.raises(SelectorError, match=r'"a===": found \'=\', expected \',\' or the end'):
        LabelSelector.parse("a===")


def test_a_selector_object_means_the_same_as_its_text() -> None:
    selector = LabelSelector.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "x", "operator": "Exists"},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
            ],
        }
    )
    assert selector == LabelSelector.parse("zone notin (z),x,!old,tier in (a,b),app=web")
    assert str(selector) == "app=web,!old,tier in (a,b),x,zone notin (z)"
    assert LabelSelector.from_object({}).matches({"any": "thing"})


@pytest.mark.parametrize(
    ("selector", "where"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Is"}]}, r"matchExpressions\[0\].operator"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, r"matchExpressions\[0\].values"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            r"matchExpressions\[0\].values",
        ),
        ({"matchExpressions": ["a"]}, r"matchExpressions\[0\]"),
        ({"matchLabels": ["a"]}, "matchLabels"),
        ({"matchLabels": {"a": 1}}, "must be strings"),
        ({"matchLabels": {"a b": "c"}}, "alphanumeric"),
    ],
)
def test_a_wrong_selector_object_says_where(selector: dict[str, object], where: str) -> None:
    with pytest.raises(SelectorError, match=where):
        LabelSelector.from_object(selector)


words = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?", fullmatch=True)
requirements = st.one_of(
    st.builds(lambda k, v: LabelRequirement(k, "=", (v,)), words, words),
    st.builds(lambda k, v: LabelRequirement(k, "!=", (v,)), words, words),
    st.builds(
        lambda k, vs, op: LabelRequirement(k, op, tuple(sorted(vs))),
        words,
        st.sets(words, min_size=1),
        st.sampled_from(["in", "notin"]),
    ),
    st.builds(lambda k, op: LabelRequirement(k, op), words, st.sampled_from(["exists", "!"])),
    st.builds(
        lambda k, op, n: LabelRequirement(k, op, (str(n),)),
        words,
        st.sampled_from(["<", ">"]),
        st.integers(0, 99),
    ),
)


@given(st.lists(requirements, max_size=5))
def test_printing_and_parsing_gives_the_same_selector(parts: list[LabelRequirement]) -> None:
    selector = LabelSelector(tuple(sorted(parts)))
    assert LabelSelector.parse(str(selector)) == selector


@given(st.text(max_size=40), st.dictionaries(words, words, max_size=3))
def test_any_text_is_a_selector_or_a_selector_error(text: str, labels: dict[str, str]) -> None:
    try:
        selector = LabelSelector.parse(text)
    except SelectorError:
        return
    assert LabelSelector.parse(str(selector)).matches(labels) is selector.matches(labels)
