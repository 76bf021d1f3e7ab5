from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.meta.selectors import FieldRequirement, FieldSelector, SelectorError


def lookup(fields: dict[str, str], selector: str) -> bool:
    return FieldSelector.parse(selector).matches(lambda field: fields.get(field, ""))


def test_equality_and_its_opposite() -> None:
    assert lookup({"metadata.name": "a"}, "metadata.name=a")
    assert lookup({"metadata.name": "a"}, "metadata.name==a,spec.engine!=pg")
    assert not lookup({"metadata.name": "a"}, "metadata.name!=a")
    assert lookup({}, "spec.nodeName=")
    assert lookup({}, "")


def test_the_exact_value_of_a_field() -> None:
    selector = FieldSelector.parse("metadata.name=a,spec.engine!=pg")
    assert selector.exact("metadata.name") == "a"
    assert selector.exact("spec.engine") is None
    assert [tuple(each) for each in selector.requirements] == [
        ("metadata.name", "=", "a"),
        ("spec.engine", "!=", "pg"),
    ]


def test_backslashes_protect_commas_and_equals() -> None:
    assert FieldSelector.parse(r"a=x\,y\=z\\").exact("a") == "x,y=z\\"


@pytest.mark.parametrize("text", ["a", "a>1", r"a=\x", "a=b=c", "a in (b)", "a=b,c", "a=\\"])
def test_what_is_no_field_selector_is_a_400(text: str) -> None:
    with pytest.raises(SelectorError, match="field selector") as caught:
        FieldSelector.parse(text)
    assert caught.value.code == 400


fields = st.from_regex(r"[a-z]+(\.[a-zA-Z]+){0,3}", fullmatch=True)


@given(
    st.lists(
        st.builds(FieldRequirement, fields, st.sampled_from(["=", "!="]), st.text(max_size=12)), max_size=4
    )
)
def test_printing_and_parsing_gives_the_same_selector(parts: list[FieldRequirement]) -> None:
    selector = FieldSelector(tuple(sorted(parts)))
    assert FieldSelector.parse(str(selector)) == selector


@given(st.text(max_size=40))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        selector = FieldSelector.parse(text)
    except SelectorError:
        return
    assert FieldSelector.parse(str(selector)) == selector
