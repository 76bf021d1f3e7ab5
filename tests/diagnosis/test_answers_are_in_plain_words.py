"""What is told of findings: each state in a sentence, with since when and what would help."""

from __future__ import annotations

from typing import Any

from pilothouse.base.rfc3339 import format_time
from pilothouse.diagnosis.explanation import explained
from pilothouse.diagnosis.findings import Findings, LeaseHolder, ObjectFindings

NOW = 1_800_000_000.0
LED = LeaseHolder("kube-system/m", "m1", format_time(NOW - 1), 15)


def ago(seconds: float) -> str:
    return format_time(NOW - seconds)


def a_set(**fields: Any) -> ObjectFindings:
    return ObjectFindings("apps/v1", "StatefulSet", "default", "web", **fields)


def a_pod(name: str, **fields: Any) -> ObjectFindings:
    return ObjectFindings("v1", "Pod", "default", name, **fields)


def a_record(outcome: str, **fields: Any) -> dict[str, Any]:
    return {"controller": "stateful-sets", "outcome": outcome, "time": ago(30), "metadata": {}, **fields}


def told(about: ObjectFindings, *, verbose: bool = False, **fields: Any) -> str:
    defaults: dict[str, Any] = {"deciders": ("stateful-sets",), "office": LED}
    return "\n".join(explained(Findings(about, **(defaults | fields)), now=NOW, verbose=verbose))


WAITING = a_record(
    "Waiting",
    waiting={
        "reason": "NoNode",
        "message": "no node has 2 CPUs left",
        "since": ago(250),
        "until": format_time(NOW + 20),
        "remedy": "add a node",
    },
    read=[{"kind": "Node", "name": "n1", "resourceVersion": "7"}, {"kind": "Pod", "name": "web-0"}],
    intents=[
        {
            "verb": "Create",
            "because": "web-0 is wanted",
            "outcome": "Done",
            "object": {"kind": "Pod", "name": "web-0"},
        },
        {"verb": "Wait", "because": "no node has 2 CPUs left", "outcome": "Pending"},
    ],
)


def test_what_is_waited_for_since_when_and_what_would_help() -> None:
    short = [
        "StatefulSet default/web:",
        "  waits, since 4m10s: no node has 2 CPUs left",
        "    what would help: add a node",
    ]
    assert told(a_set(records=(WAITING,))).splitlines() == short
    assert told(a_set(records=(WAITING,)), verbose=True).splitlines() == [
        "StatefulSet default/web:",
        "  waits, since 4m10s: no node has 2 CPUs left",
        "    what would help: add a node",
        "    it is looked at again in 20s, or when something changes",
        "    decided by stateful-sets, 30s ago, on what it saw: Node n1 (version 7), Pod web-0 (not there)",
        "    it did: Create Pod web-0, because web-0 is wanted",
    ]


def test_what_is_amiss_is_told_also_where_it_begins_with_what_is_waited_for() -> None:
    waited = WAITING["waiting"]["message"]
    degraded = {
        "type": "Degraded",
        "status": "True",
        "reason": "VolumeFull",
        "message": f"{waited}; volume data-0 is full",
    }
    assert "Degraded is True (VolumeFull)" in told(a_set(records=(WAITING,), conditions=(degraded,)))


def test_a_condition_that_says_the_same_is_not_told_twice() -> None:
    same = {"type": "Reconciled", "status": "False", "message": "no node has 2 CPUs left; add a node"}
    other = {"type": "Fit", "status": "False", "reason": "Odd", "message": "it is odd"}
    text = told(a_set(records=(WAITING,), conditions=(same, other)))
    assert "Reconciled" not in text
    assert "condition Fit is False (Odd): it is odd" in text


def test_conditions_are_told_if_they_are_bad_news() -> None:
    conditions = (
        {"type": "MemoryPressure", "status": "False", "reason": "Fine", "message": "there is memory"},
        {"type": "DiskPressure", "status": "True", "reason": "Full", "message": "the disk is full"},
        {"type": "PIDPressure", "status": "Unknown", "reason": "Gone", "message": "it is not heard of"},
        {"type": "Ready", "status": "True", "reason": "Fine", "message": "it posts its status"},
    )
    text = told(ObjectFindings("v1", "Node", "", "n1", conditions=conditions))
    assert "condition DiskPressure is True (Full): the disk is full" in text
    assert "condition PIDPressure is Unknown (Gone): it is not heard of" in text
    assert "there is memory" not in text
    assert "it posts" not in text


def test_bad_news_is_told_whichever_way_its_condition_points() -> None:
    conditions = (
        {"type": "Degraded", "status": "True", "reason": "DiskFull", "message": "the volume of es-1 is full"},
        {"type": "Available", "status": "True", "reason": "Green", "message": "all shards are there"},
        {"type": "Progressing", "status": "False", "reason": "AsAsked", "message": "everything is as asked"},
        {"type": "SomethingFailed", "status": "False", "reason": "No", "message": "it did not"},
    )
    cluster = ObjectFindings(
        "navigator.jetstack.io/v1beta1", "ElasticsearchCluster", "default", "es", conditions=conditions
    )
    text = told(cluster)
    assert "condition Degraded is True (DiskFull): the volume of es-1 is full" in text
    assert "as asked" not in text
    assert "all shards" not in text
    assert "it did not" not in text
    well = ObjectFindings(
        "navigator.jetstack.io/v1beta1",
        "ElasticsearchCluster",
        "default",
        "es",
        conditions=({**conditions[0], "status": "False", "message": "nothing is amiss"}, conditions[1]),
    )
    assert "amiss" not in told(well), "that nothing is wrong is no news"


def test_a_change_that_is_under_way_or_refused_is_told() -> None:
    for status, reason in (("True", "Restarting"), ("False", "Blocked")):
        condition = {
            "type": "Progressing",
            "status": status,
            "reason": reason,
            "message": "es-1 is restarted",
        }
        text = told(a_set(conditions=(condition,)))
        assert f"condition Progressing is {status} ({reason}): es-1 is restarted" in text


def test_members_whose_conditions_are_bad_news_are_not_called_well() -> None:
    silent = {"type": "Ready", "status": "Unknown", "reason": "PilotSilent", "message": "it is not heard of"}
    pilot = ObjectFindings("navigator.jetstack.io/v1beta1", "Pilot", "default", "es-1", conditions=(silent,))
    text = told(a_set(records=(WAITING,)), members=(pilot,))
    assert "Pilot default/es-1, which belongs to it:" in text
    assert "Nothing is amiss" not in text


def test_old_events_are_told_if_asked_for() -> None:
    events = tuple(
        {"type": kind, "reason": reason, "message": "m", "lastTimestamp": ago(seconds), "metadata": {}}
        for kind, reason, seconds in (
            ("Normal", "ScaledBack", 60),
            ("Normal", "Made", 7200),
            ("Warning", "Odd", 7200),
        )
    )
    text = told(a_set(records=(WAITING,), events=events))
    assert "60s ago: ScaledBack: m" in text
    assert "Odd" in text
    assert "Made" not in text
    assert "Made" in told(a_set(records=(WAITING,), events=events), verbose=True)


def test_what_failed_is_told_with_how_often() -> None:
    text = told(a_set(records=(a_record("Failed", summary="failed: 422: no such field", attempts=4),)))
    assert "can't get on, 4 times in a row: 422: no such field" in text


def test_what_is_stuck_comes_first() -> None:
    done = {**a_record("Done", summary="made web-0"), "controller": "a"}
    lines = told(a_set(records=(done, WAITING)), verbose=True).splitlines()
    assert lines[1].startswith("  waits")
    assert "  last needed something 30s ago: made web-0" in lines


def test_only_those_that_are_stuck_are_told_of_those_that_belong_to_it() -> None:
    bad = a_pod("web-1", trouble="pod web-1 runs but is not ready", remedy="see its log")
    text = told(a_set(records=(WAITING,)), members=(a_pod("web-0"), bad, a_pod("web-2")))
    assert "Pod default/web-1, which belongs to it:\n  pod web-1 runs but is not ready" in text
    assert "what would help: see its log" in text
    assert "web-2" not in text
    assert "Nothing is amiss with the other 2 that belong to it." in text


def test_owners_are_told_of() -> None:
    text = told(a_pod("web-0"), owners=(a_set(records=(WAITING,)),))
    assert "It belongs to StatefulSet default/web:\n  waits, since 4m10s" in text


def test_what_keeps_an_object_from_going_is_named() -> None:
    text = told(a_set(deleting=ago(60), finalizers=("example.com/backup",)))
    assert "is being deleted, since 60s; it stays until example.com/backup let it go" in text


def test_kinds_have_the_right_article() -> None:
    cluster = ObjectFindings("navigator.jetstack.io/v1beta1", "ElasticsearchCluster", "default", "es")
    assert "no controller decides about an ElasticsearchCluster" in told(cluster, deciders=())


def test_nothing_known_says_why() -> None:
    assert "no controller decides about a StatefulSet" in told(a_set(), deciders=())
    assert "whose own controllers decide" in told(a_set(), foreign=("stateful-sets",))
    assert "the server keeps no records of decisions" in told(a_set(), records_kept=False)
    unknown = told(a_set())
    assert "nothing is on record, though stateful-sets would decide about it" in unknown
    assert "--controllers" in unknown
    assert told(a_set(there=False)) == "There is no StatefulSet default/web."


def test_that_nobody_decides_is_told() -> None:
    nobody = told(a_set(records=(WAITING,)), office=LeaseHolder("kube-system/m"))
    assert "Nobody decides at the moment: the lease kube-system/m is nobody's" in nobody
    gone = told(a_set(), office=LeaseHolder("kube-system/m", "m1", ago(300), 15))
    assert "m1 held the lease kube-system/m and gave no sign for 5m" in gone
    assert "--controllers" not in gone
    assert "Nobody" not in told(a_set(records=(WAITING,)))


def test_what_a_container_said_last_comes_first() -> None:
    bad = a_pod("web-1", trouble="container app of pod web-1 can't run", last_words="no such region: eu-9")
    lines = told(bad).splitlines()
    assert lines[1:3] == ["  its last words: no such region: eu-9", "  container app of pod web-1 can't run"]
    assert "its last words: no such region" in told(a_set(records=(WAITING,)), members=(bad,))
