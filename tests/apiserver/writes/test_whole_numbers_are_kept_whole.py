"""A whole number may be written with a point or an exponent; what is stored and served is an integer."""

from __future__ import annotations

import json

import pytest
from tests.kit.core import CoreServer

from pilothouse.apiserver.endpoints import decoding

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.0", 3),
        ("-0.0", 0),
        ("1e3", 1000),
        ("2.50", 2.5),
        ("1e300", 1e300),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_both_forms_of_a_body_say_the_same(text: str, value: float) -> None:
    for body in (decoding.read_json(f'{{"a":{text}}}'.encode()), decoding.read_yaml(f"a: {text}".encode())):
        assert body.value == {"a": value}
        assert isinstance(body.value["a"], type(value))


def test_what_is_stored_can_be_read_into_an_integer(server: CoreServer) -> None:
    body = b'{"metadata":{"name":"a"},"spec":{"leaseDurationSeconds":15.0}}'
    server.send("POST", LEASES, body).expect(201)
    raw = server.send("GET", f"{LEASES}/a").body
    assert json.loads(raw)["spec"]["leaseDurationSeconds"] == 15
    assert b"15.0" not in raw


def test_a_count_may_be_zero_however_it_is_written(server: CoreServer) -> None:
    spec = {"minAvailable": 0.0, "selector": {}}
    created = server.send("POST", BUDGETS, {"metadata": {"name": "a"}, "spec": spec}).expect(201)
    assert created["spec"]["minAvailable"] == 0
    server.send("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 0.5}}).expect(400, 422)
