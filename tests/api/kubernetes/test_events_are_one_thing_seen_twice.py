"""An event written through one group is read through the other, and stored once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api import kubernetes
from pilothouse.api.kubernetes.events import convert
from pilothouse.apiserver.storage import codec
from pilothouse.meta.kind import Object, Resource

CORE: Object = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "t"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "t"},
    "reason": "Started",
    "message": "ahoy",
    "source": {"component": "mate"},
    "firstTimestamp": "2025-01-02T03:04:05Z",
    "lastTimestamp": "2025-01-02T03:05:05Z",
    "count": 2,
    "type": "Normal",
    "reportingComponent": "mate",
    "reportingInstance": "mate-1",
    "eventTime": "2025-01-02T03:04:05.000000Z",
    "action": "Start",
}
FIELDS = sorted(set(CORE) - {"apiVersion", "kind", "metadata"})


def resource(group: str) -> Resource:
    return next(each for each in kubernetes.resources() if each.plural == "events" and each.group == group)


def test_both_groups_share_one_place_and_one_stored_form() -> None:
    core, grouped = resource(""), resource("events.k8s.io")

    assert core.path == grouped.path == "events"
    assert core.stored.api_version == grouped.stored.api_version == "v1"


def test_what_one_group_stores_the_other_serves() -> None:
    core, grouped = resource(""), resource("events.k8s.io")
    written = convert(CORE, "v1", "v1")
    stored = codec.encode(codec.convert(grouped, written, grouped.storage))

    assert stored == codec.encode(codec.convert(core, CORE, core.storage))
    assert (
        codec.decode(codec.serve(core, core.kinds[0], stored, 7))["involvedObject"] == CORE["involvedObject"]
    )
    served = codec.decode(codec.serve(grouped, grouped.kinds[0], stored, 7))
    assert served == {**written, "metadata": {**written["metadata"], "resourceVersion": "7"}}


def test_the_other_group_has_other_names() -> None:
    assert convert(CORE, "v1", "v1") == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "t"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "t"},
        "reason": "Started",
        "note": "ahoy",
        "deprecatedSource": {"component": "mate"},
        "deprecatedFirstTimestamp": "2025-01-02T03:04:05Z",
        "deprecatedLastTimestamp": "2025-01-02T03:05:05Z",
        "deprecatedCount": 2,
        "type": "Normal",
        "reportingController": "mate",
        "reportingInstance": "mate-1",
        "eventTime": "2025-01-02T03:04:05.000000Z",
        "action": "Start",
    }


@given(st.sets(st.sampled_from(FIELDS)))
def test_there_and_back_is_the_same(fields: set[str]) -> None:
    event = {field: value for field, value in CORE.items() if field not in fields}

    there = convert(event, "v1", "v1")

    assert there["apiVersion"] == "events.k8s.io/v1"
    assert convert(there, "v1", "v1") == event


def test_both_views_fit_their_schemas_and_show_the_same(kinds: Any) -> None:
    grouped = convert(CORE, "v1", "v1")

    assert kinds.kind("Event", "v1").shape.validate(kinds.complete(CORE)) == []
    assert kinds.kind("Event", "events.k8s.io/v1").shape.validate(kinds.complete(grouped)) == []
    assert kinds.row(CORE, 0.0, wide=True) == kinds.row(grouped, 0.0, wide=True)


def test_an_event_is_kept_for_an_hour() -> None:
    for group in ("", "events.k8s.io"):
        rule = resource(group).kinds[0].time_to_live
        assert rule is not None
        assert rule(CORE) == 3600


def test_events_of_the_newer_group_are_judged_strictly(kinds: Any) -> None:
    bare = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "t"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "t"},
        "deprecatedCount": 3,
    }

    assert kinds.problems(bare) == [
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: ',
        'count: Invalid value: "": needs to be unset',
    ]


def test_a_series_may_go_on_and_nothing_else(kinds: Any) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "t"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "t"},
        "eventTime": "2025-01-02T03:04:05.000000Z",
        "reportingController": "mate",
        "reportingInstance": "mate-1",
        "action": "Start",
        "reason": "Started",
        "type": "Normal",
    }
    assert kinds.problems(event) == []
    stored = kinds.create(event)

    assert (
        kinds.change(stored, "series", {"count": 2, "lastObservedTime": "2025-01-02T03:05:05.000000Z"}) == []
    )
    assert kinds.change(stored, "series", {"count": 1}) == [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
    ]
    assert kinds.change(stored, "note", "other") == ['message: Invalid value: "other": field is immutable']
