"""A body in protobuf gives the object that the same body in JSON gives; a broken one gives an error that says where."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.api.kubernetes import protobuf_bodies
from pilothouse.api.kubernetes.table import messages
from pilothouse.meta import protobuf

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.json"))
POD = (Path(__file__).parent / "vectors/pod.pb").read_bytes()


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + text(1, text(1, api_version) + text(2, kind)) + text(2, raw)


def text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def bare(value: Any) -> Any:
    """An object without what an encoder may add or leave out: nulls and empty structs."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if inner is not None and bare(inner) != {}}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_what_kubernetes_encodes_is_read_as_it_was(path: Path) -> None:
    read = protobuf_bodies.read(path.with_suffix(".pb").read_bytes())

    assert bare(read) == bare(json.loads(path.read_text()))


def published_vectors() -> Iterator[Path]:
    """Kubernetes' own pairs of encodings, where its modules happen to be in Go's cache."""
    go = which("go")
    if go:
        said = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
        yield from sorted(Path(said.stdout.strip()).glob("k8s.io/api@v0.33.4/testdata/HEAD/*.pb"))


def test_kubernetes_own_vectors_are_read_exactly() -> None:
    found = list(published_vectors())
    if not found:
        pytest.skip("Kubernetes' vectors are not in Go's module cache: go mod download k8s.io/api@v0.33.4")
    compared = 0
    for path in found:
        expected = json.loads(path.with_suffix(".json").read_text())
        if protobuf_bodies.message_of(expected.get("apiVersion", ""), expected.get("kind", "")):
            assert protobuf_bodies.read(path.read_bytes()) == expected, path.name
            compared += 1
    assert compared >= 30


def test_a_pointer_to_zero_is_kept_and_a_plain_zero_is_not() -> None:
    read = protobuf_bodies.read(body("coordination.k8s.io/v1", "Lease", text(2, text(1, "") + number(2, 0))))
    plain = protobuf_bodies.read(body("v1", "Namespace", text(1, text(1, "t") + text(2, "") + number(7, 0))))

    assert read["spec"] == {"holderIdentity": "", "leaseDurationSeconds": 0}
    assert plain["metadata"] == {"name": "t"}


def test_delete_options_are_known_in_every_group() -> None:
    raw = number(1, 0) + text(4, "Background")

    for api_version in ("v1", "meta.k8s.io/v1", "apps/v1", "storage.k8s.io/v1"):
        read = protobuf_bodies.read(body(api_version, "DeleteOptions", raw))
        assert read["gracePeriodSeconds"] == 0
        assert read["propagationPolicy"] == "Background"


def test_unknown_fields_are_skipped_whatever_they_hold() -> None:
    group = (
        varint(99 << 3 | 3) + number(1, 7) + varint(98 << 3 | 3) + varint(98 << 3 | 4) + varint(99 << 3 | 4)
    )
    raw = text(1, text(1, "t") + text(200, b"\xff")) + number(77, 5) + varint(78 << 3 | 5) + b"abcd" + group

    assert protobuf_bodies.read(body("v1", "Namespace", raw))["metadata"] == {"name": "t"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "doesn't begin with k8s"),
        (b"{}", "doesn't begin with k8s"),
        (protobuf.MAGIC + b"\x0a\xff", "ends inside a number"),
        (protobuf.MAGIC + b"\x0a\x05", "5 bytes are announced, 0 are there"),
        (protobuf.MAGIC + b"\x0a" + b"\xff" * 11, "longer than ten bytes"),
        (protobuf.MAGIC + b"\x00\x00", "0 is no field number"),
        (protobuf.MAGIC + b"\x0e", "wire type 6"),
        (protobuf.MAGIC + text(3, "gzip"), "content encoding 'gzip' is not supported"),
        (protobuf.MAGIC, 'no protobuf message is known for kind "" in version ""'),
        (body("v1", "Unicorn", b""), 'kind "Unicorn" in version "v1"'),
        (body("nav.example.io/v1", "Database", b""), 'kind "Database"'),
        (body("v1", "Namespace", text(1, text(1, b"\xff"))), "not UTF-8"),
        (body("v1", "Namespace", number(1, 5)), "metadata has wire type 0"),
        (body("v1", "Namespace", text(1, text(8, number(1, 2**62)))), "outside of the years 1 to 9999"),
        (body("v1", "Namespace", text(1, text(8, number(1, 1) + number(2, 2**30)))), "not within a second"),
        (body("apps/v1", "ControllerRevision", text(2, text(1, b"{bad"))), "embedded JSON"),
        (body("v1", "Namespace", varint(9 << 3 | 3) * 3), "ends inside a number"),
        (body("v1", "Namespace", varint(9 << 3 | 3) * 70 + b"\x00"), "more than 64 levels"),
    ],
)
def test_a_broken_body_is_a_value_error_that_says_what(data: bytes, expected: str) -> None:
    with pytest.raises(ValueError, match=r"offset \d+|no protobuf message") as caught:
        protobuf_bodies.read(data)
    assert expected in str(caught.value)


def test_nesting_is_bounded() -> None:
    schema = b""
    for _ in range(200):
        schema = text(28, schema)
    version = text(1, "v1") + text(4, text(1, schema))
    raw = text(2, text(7, version))

    with pytest.raises(ValueError, match="more than 64 levels"):
        protobuf_bodies.read(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw))


def test_packed_numbers_and_split_messages_are_taken() -> None:
    context = text(4, varint(1) + varint(2) + varint(-3))
    raw = text(2, text(14, context)) + text(3, text(1, "Pending"))
    read = protobuf_bodies.read(body("v1", "Pod", raw))

    assert read["spec"]["securityContext"]["supplementalGroups"] == [1, 2, -3]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(sorted(messages())))
def test_random_bytes_give_an_object_or_a_value_error(data: bytes, message: str) -> None:
    try:
        read = protobuf.decode(data, message, messages())
    except ValueError:
        return
    json.dumps(read, allow_nan=False)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(POD) - 1), st.binary(min_size=1, max_size=6), st.integers(0, 8))
def test_a_damaged_pod_gives_an_object_or_a_value_error(at: int, damage: bytes, cut: int) -> None:
    data = POD[:at] + damage + POD[at + cut :]
    try:
        read = protobuf_bodies.read(data)
    except ValueError:
        return
    json.dumps(read, allow_nan=False)
