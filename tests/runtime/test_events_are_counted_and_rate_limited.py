"""What was done is written, however much else there is to say about an object; and not without end."""

from __future__ import annotations

from pilothouse.api.kind_names import ElasticsearchCluster
from pilothouse.api.objects import Object
from pilothouse.runtime.event_recorder import BURST, REFILL, EventCorrelator, EventSource

NOW = 1_800_000_000.0


def cluster(name: str = "demo") -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return Object(
        ElasticsearchCluster,
        {
            "apiVersion": ElasticsearchCluster.api_version,
            "kind": "ElasticsearchCluster",
            "metadata": metadata,
        },
    )


def waiting(correlator: EventCorrelator, many: int, about: Object) -> int:
    """How many of so many events, each about another wait, are written."""
    written = [
        correlator.correlate(about, "ErrScale", f"{left} documents left", now=NOW) for left in range(many)
    ]
    return sum(one is not None for one in written)


def test_waits_without_end_do_not_keep_a_scale_from_being_told() -> None:
    correlator = EventCorrelator(component="c", host="h")
    assert waiting(correlator, 100, cluster()) == BURST
    scaled = correlator.correlate(cluster(), "Scale", "pool data is scaled from 3 to 2", now=NOW)
    assert scaled is not None
    assert (scaled.tree["reason"], scaled.tree["involvedObject"]["name"]) == ("Scale", "demo")
    assert correlator.dropped == 75


def test_one_object_does_not_take_the_room_of_another() -> None:
    correlator = EventCorrelator(component="c", host="h")
    waiting(correlator, 100, cluster())
    assert waiting(correlator, 5, cluster("other")) == 5


def test_there_is_room_again_after_a_while() -> None:
    correlator = EventCorrelator(component="c", host="h")
    waiting(correlator, 100, cluster())
    assert correlator.correlate(cluster(), "ErrScale", "again", now=NOW + 0.9 / REFILL) is None
    assert correlator.correlate(cluster(), "ErrScale", "again", now=NOW + 2 / REFILL) is not None


def test_the_same_said_again_is_counted() -> None:
    correlator = EventCorrelator(component="c", host="h")
    first = correlator.correlate(cluster(), "Scale", "pool data is scaled from 3 to 2", now=NOW)
    second = correlator.correlate(cluster(), "Scale", "pool data is scaled from 3 to 2", now=NOW + 60)
    assert first is not None
    assert second is not None
    assert first.tree["metadata"] == second.tree["metadata"]
    assert (first.count, second.count) == (1, 2)
    assert second.tree["firstTimestamp"] == first.tree["firstTimestamp"]


def test_events_of_one_object_are_limited_for_each_scope_by_itself() -> None:
    """A rule has thousands of objects: what it does to one leaves room for what it does to another."""
    correlator = EventCorrelator(component="c", host="h")
    for scope in ("volume-1", "volume-2"):
        source = EventSource("autopilot", scope)
        written = [
            correlator.correlate(cluster(), "Transition", f"{scope} {number}", now=NOW, source=source)
            for number in range(100)
        ]
        assert sum(one is not None for one in written) == BURST
    first = correlator.correlate(cluster(), "Other", "text", now=NOW, source=EventSource("autopilot"))
    assert first is not None
    assert first.tree["source"] == {"component": "autopilot", "host": "h"}
    assert first.tree["reportingComponent"] == "autopilot"
