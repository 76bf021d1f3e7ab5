"""What a body may look like, and what is said about one that may not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.apiserver.endpoints import decoding
from pilothouse.apiserver.server.messages import Request
from pilothouse.meta.errors import StatusError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def sent(body: bytes, media: str = "application/json") -> Request:
    return Request("POST", "/", headers={"Content-Type": media}, body=body)


def refusal(body: bytes, media: str = "application/json", *, native: bool = True) -> StatusError:
    with pytest.raises(StatusError) as caught:
        decoding.read(sent(body, media), native=native)
    return caught.value


def test_no_content_type_means_json() -> None:
    request = Request("POST", "/", body=b'{"a": 1}')
    assert decoding.read(request, native=False).value == {"a": 1}


@given(JSON_VALUES)
def test_json_without_repeats_reports_none(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        body = decoding.read_json(text.encode())
        assert body.value == value
        assert body.duplicates == []


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"spec":{"x":1,"y":{"z":1,"z":2}},"spec":{"x":3}}', ["spec.y.z", "spec"]),
        (b'{"l":[{"a":1},{"b":1,"b":2}]}', ["l[1].b"]),
        (b'{"t":"\\u0022:","a":1,"a":2}', ["a"]),
        (b'{"t":"say \\"a\\": 1"}', []),
    ],
)
def test_repeated_keys_are_named_and_the_last_wins(body: bytes, paths: list[str]) -> None:
    decoded = decoding.read_json(body)
    assert sorted(decoded.duplicates) == sorted(f'duplicate field "{path}"' for path in paths)
    assert decoded.value == json.loads(body)


@pytest.mark.parametrize(
    "body",
    [b"", b"{bad", b'{"a":1} x', b'{"a":"\xff"}', b'{"a":NaN}', b"\x00", b'{"a":1e999}'],
)
def test_what_is_not_json_is_a_400_that_says_so(body: bytes) -> None:
    problem = refusal(body)
    assert problem.code == 400
    assert "JSON" in problem.message


@pytest.mark.parametrize("body", [b"[" * 200 + b"]" * 200, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_deep_nesting_is_a_400(body: bytes) -> None:
    problem = refusal(body)
    assert problem.code == 400
    assert "nested" in problem.message


def test_yaml_has_kubernetes_idea_of_scalars() -> None:
    text = b"at: 13:00\nday: 2024-01-01\nyes: on\nnumber: 012\nfloat: 1.5\nempty: ~\nversion: 3.9.0\n2: two\n"
    assert decoding.read(sent(text, "application/yaml"), native=False).value == {
        "at": "13:00",
        "day": "2024-01-01",
        "true": True,
        "number": 10,
        "float": 1.5,
        "empty": None,
        "version": "3.9.0",
        "2": "two",
    }


@pytest.mark.parametrize(
    "body",
    [
        b"a: [1",
        b"a: &x [*x]",
        b"? [a]\n: 1",
        b"--- 1\n--- 2",
        b"a: !!python/object/apply:os.system [true]",
        b"a: !!binary aGk=",
        b"[" * 300,
    ],
)
def test_yaml_that_json_could_not_say_is_a_400(body: bytes) -> None:
    assert refusal(body, "application/yaml").code == 400


def test_yaml_aliases_do_not_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    problem = refusal("\n".join(lines).encode(), "application/yaml")
    assert problem.code == 400
    assert "expands" in problem.message


def test_yaml_names_repeated_keys() -> None:
    assert decoding.read_yaml(b"a: 1\nb: 2\na: 3\n").duplicates == ['line 3: key "a" already set in map']


def test_another_media_type_is_a_415_that_lists_what_is_taken() -> None:
    problem = refusal(b"{}", "text/plain")
    assert problem.code == 415
    assert "application/json" in problem.message


def test_protobuf_is_for_native_kinds_alone() -> None:
    assert refusal(b"k8s\x00", decoding.PROTOBUF, native=False).code == 415
    assert refusal(b"k8s\x00\xff\xff", decoding.PROTOBUF).code == 400


@given(st.binary(max_size=200), st.sampled_from([decoding.JSON, decoding.YAML, decoding.PROTOBUF]))
def test_no_bytes_do_worse_than_a_400(body: bytes, media: str) -> None:
    try:
        decoding.read(sent(body, media), native=True)
    except StatusError as problem:
        assert problem.code == 400  # noqa: PT017 - success is fine too
