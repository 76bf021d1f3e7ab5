from __future__ import annotations

import pytest

from pilothouse.apiserver.endpoints.request_info import RequestInfo
from pilothouse.apiserver.flowcontrol.fair_queuing import HEAVIEST, FlowController
from pilothouse.apiserver.server.messages import Request, User
from pilothouse.meta.errors import StatusError

ALICE = User("alice")
PODS = "/api/v1/namespaces/t/pods"


def sizes(place: RequestInfo, query: str) -> int:
    return {"pods": 10_400, "events": 1_000_000, "secrets": 499}[place.plural]


def weight(method: str, path: str, query: str = "", *, mutating: bool = False) -> int:
    return FlowController(sizes=sizes).admit(Request(method, path, query, user=ALICE), mutating)[1]


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", PODS, "", 6),
        ("GET", "/api/v1/events", "", HEAVIEST),
        ("GET", "/api/v1/secrets", "", 1),
        ("GET", f"{PODS}/a", "", 1),
        ("GET", PODS, "watch=1&resourceVersion=57", 1),
        ("GET", PODS, "watch=1", 6),
        ("GET", PODS, "watch=1&resourceVersion=0", 6),
        ("GET", PODS, "watch=1&resourceVersion=57&sendInitialEvents=true", 6),
        ("GET", "/version", "", 1),
        ("DELETE", PODS, "", 6),
        ("POST", PODS, "", 1),
    ],
)
def test_a_list_of_many_objects_takes_several_places(
    method: str, path: str, query: str, expected: int
) -> None:
    assert weight(method, path, query, mutating=method != "GET") == expected


def test_a_list_fits_even_where_there_are_few_places() -> None:
    shares = FlowController(reads=3, sizes=sizes)
    assert shares.admit(Request("GET", "/api/v1/events", user=ALICE), False)[1] == 1


def held_at_most(path: str) -> int:
    shares = FlowController(sizes=sizes)
    for number in range(1000):
        try:
            shares.admit(Request("GET", path, user=ALICE), False)
        except StatusError:
            return number
    raise AssertionError("never refused")


def test_heavy_lists_use_up_a_share_sooner() -> None:
    assert held_at_most("/api/v1/events") * (HEAVIEST - 1) < held_at_most(f"{PODS}/a")


def test_a_refusal_says_what_is_used_up_and_when_to_come_back() -> None:
    shares = FlowController(reads=1)
    shares.admit(Request("GET", PODS, "watch=1", user=ALICE), False)
    with pytest.raises(StatusError) as refused:
        shares.admit(Request("GET", f"{PODS}/a", user=ALICE), False)
    assert (refused.value.code, refused.value.retry_after) == (429, 1)
    assert "of 1 concurrent reads" in refused.value.message
    assert "open to people" in refused.value.message
    assert '"alice"' in refused.value.message


@pytest.mark.parametrize(("length", "expected"), [(0, 1), (262143, 1), (262144, 2), (3145728, HEAVIEST)])
def test_a_large_body_takes_several_places(length: int, expected: int) -> None:
    request = Request("POST", PODS, body=bytes(length), user=ALICE)
    assert FlowController(sizes=sizes).admit(request, True)[1] == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({"Content-Length": "262143"}, 1), ({"Content-Length": "9" * 30}, HEAVIEST), ({}, HEAVIEST)],
    ids=["small", "large", "of unknown length"],
)
def test_a_body_that_is_awaited_takes_as_many_as_it_may_become(
    headers: dict[str, str], expected: int
) -> None:
    assert FlowController().await_body(Request("POST", PODS, headers=headers, user=ALICE))[1] == expected
