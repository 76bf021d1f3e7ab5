"""A Decision tells one controller's story of one object, whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import admit

from pilothouse.api.pilothouse.kinds import DECISION

Json = dict[str, Any]
WAITING: Json = {
    "controller": "stateful_sets",
    "object": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "namespace": "default",
        "name": "x",
        "uid": "u",
    },
    "outcome": "Waiting",
    "time": "2024-02-29T12:00:00Z",
    "read": [
        {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "x-0", "resourceVersion": "42"}
    ],
    "intents": [
        {
            "verb": "After",
            "because": "x-0 is not scheduled",
            "object": {"kind": "Pod", "name": "x-0"},
            "outcome": "Pending",
        }
    ],
    "waiting": {
        "reason": "Unschedulable",
        "message": "no node has 64Gi of memory free",
        "since": "2024-02-29T11:00:00Z",
        "remedy": "add a node or lower the request",
    },
    "summary": "waits for a node with 64Gi of memory",
    "manager": "manager-1",
    "epoch": 3,
}


def test_a_whole_story_is_taken() -> None:
    found = admit(DECISION, WAITING)
    assert (found.problems, found.unknown) == ([], [])


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"controller": ""}, "controller"),
        ({"outcome": "Perhaps"}, "outcome"),
        ({"outcome": "Done"}, "waiting"),
        ({"time": "yesterday"}, "time"),
        ({"object": {"kind": "Pod"}}, "object.name"),
        ({"attempts": -1}, "attempts"),
    ],
)
def test_half_a_story_is_refused(change: Json, path: str) -> None:
    assert admit(DECISION, {**WAITING, **change}).paths == [path]


def test_who_waits_says_for_what() -> None:
    left = {name: value for name, value in WAITING.items() if name != "waiting"}
    assert admit(DECISION, left).paths == ["waiting"]


def test_it_stays_about_one_object() -> None:
    old = admit(DECISION, WAITING).obj
    other = {**old, "controller": "pods", "object": {**WAITING["object"], "name": "y"}}
    assert admit(DECISION, other, old).paths == ["controller", "object.name"]
    reborn = {**old, "object": {**WAITING["object"], "uid": "u2"}}
    assert admit(DECISION, reborn, old).problems == []
