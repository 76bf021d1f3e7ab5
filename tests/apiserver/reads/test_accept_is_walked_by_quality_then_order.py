from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.apiserver.endpoints.yaml_decoding import load
from pilothouse.apiserver.server.messages import Request
from pilothouse.apiserver.server.negotiation import (
    PARTIAL,
    PARTIAL_LIST,
    TABLE,
    AnswerEndpoint,
    AnswerForm,
    negotiate,
)
from pilothouse.apiserver.storage import codec
from pilothouse.meta.errors import StatusError

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def form(accept: str, endpoint: AnswerEndpoint = AnswerEndpoint.OBJECT, **more: str) -> AnswerForm:
    return negotiate(Request("GET", "/", headers={"Accept": accept, **more}), endpoint)


@pytest.mark.parametrize(
    ("accept", "media", "transform"),
    [
        ("", JSON, ""),
        ("*/*", JSON, ""),
        ("application/*", JSON, ""),
        (f"{PROTOBUF},{JSON}", JSON, ""),
        (f"{JSON};q=0.5,{YAML}", YAML, ""),
        (f"{YAML};q=0.5, {JSON};q=0.9", JSON, ""),
        (f"{YAML};q=0,{JSON}", JSON, ""),
        (f"{JSON};charset=utf-8", JSON, ""),
        (f"{JSON};as=Table;v=v1;g=meta.k8s.io,{JSON}", JSON, TABLE),
        (f"{JSON};as=Table;v=v1beta1;g=meta.k8s.io,{JSON}", JSON, ""),
        (f"{JSON};as=Nonsense;v=v1;g=meta.k8s.io,{JSON}", JSON, ""),
        (f"{YAML};as=Table;v=v1;g=meta.k8s.io", YAML, TABLE),
        (f"{PROTOBUF};as={PARTIAL};g=meta.k8s.io;v=v1,{JSON};as={PARTIAL};g=meta.k8s.io;v=v1", JSON, PARTIAL),
    ],
)
def test_the_first_clause_that_can_be_served_wins(accept: str, media: str, transform: str) -> None:
    found = form(accept)
    assert (found.media, found.transform) == (media, transform)


@pytest.mark.parametrize(
    ("accept", "endpoint"),
    [
        ("application/xml", AnswerEndpoint.OBJECT),
        (PROTOBUF, AnswerEndpoint.OBJECT),
        (f"{JSON};as={PARTIAL};v=v1;g=meta.k8s.io", AnswerEndpoint.LIST),
        (f"{JSON};as={PARTIAL_LIST};v=v1;g=meta.k8s.io", AnswerEndpoint.OBJECT),
        (f"{JSON};as=Table;v=v1;g=meta.k8s.io", AnswerEndpoint.PLAIN),
        (YAML, AnswerEndpoint.WATCH),
        (f"{JSON};q=0", AnswerEndpoint.OBJECT),
    ],
)
def test_case_07_nothing_acceptable_is_a_406(accept: str, endpoint: AnswerEndpoint) -> None:
    with pytest.raises(StatusError) as caught:
        form(accept, endpoint)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")
    assert JSON in caught.value.message


def test_people_are_known_by_what_they_come_with() -> None:
    assert form(JSON, AnswerEndpoint.OBJECT, **{"User-Agent": "curl/8.5"}).pretty
    assert not form(JSON, AnswerEndpoint.OBJECT, **{"User-Agent": "kubectl/v1.33"}).pretty
    assert form(f"{JSON};pretty=1").pretty


def test_yaml_says_the_same_as_json() -> None:
    written = AnswerForm(YAML).write(b'{"a":{"b":[1,"x",null]},"c":"y"}')
    assert written == b"a:\n  b:\n  - 1\n  - x\n  - null\nc: 'y'\n"


@given(accept=st.text(max_size=80), endpoint=st.sampled_from(AnswerEndpoint))
def test_no_header_makes_it_fail_otherwise(accept: str, endpoint: AnswerEndpoint) -> None:
    try:
        found = form(accept, endpoint)
    except StatusError as problem:
        found = AnswerForm(str(problem.code))
    assert found.media in (JSON, YAML, "406")


@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text()
        | st.sampled_from(["y", "no", "13:00"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_our_yaml_reads_back_as_the_same(value: Any) -> None:
    again, repeated = load(AnswerForm(YAML).write(codec.dump(value)), 100)
    assert again == value
    assert repeated == []
