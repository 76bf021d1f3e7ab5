"""What is told of findings: each state in a sentence, with since when and what would help."""

from __future__ import annotations

from typing import Any

from pilothouse.base.rfc3339 import format_time
from pilothouse.diagnosis.explanation import explain
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
    defaults: dict[str, Any] = {"controllers": ("stateful-sets",), "leader": LED}
    return "\n".join(explain(Findings(about, **(defaults | fields)), now=NOW, verbose=verbose))


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
        "  waiting (for 4m10s): no node has 2 CPUs left",
        "    what would help: add a node",
    ]
    assert told(a_set(decisions=(WAITING,))).splitlines() == short
    assert told(a_set(decisions=(WAITING,)), verbose=True).splitlines() == [
        "StatefulSet default/web:",
        "  waiting (for 4m10s): no node has 2 CPUs left",
        "    what would help: add a node",
        "    checked again in 20s, or when something changes",
        "    decided by stateful-sets 30s ago; it read Node n1 (resourceVersion 7), Pod web-0 (not found)",
        "    Create Pod web-0 (done): web-0 is wanted",
    ]


def test_what_is_amiss_is_told_also_where_it_begins_with_what_is_waited_for() -> None:
    waited = WAITING["waiting"]["message"]
    degraded = {
        "type": "Degraded",
        "status": "True",
        "reason": "VolumeFull",
        "message": f"{waited}; volume data-0 is full",
    }
    assert "Degraded is True (VolumeFull)" in told(a_set(decisions=(WAITING,), conditions=(degraded,)))


def test_a_condition_that_says_the_same_is_not_told_twice() -> None:
    same = {"type": "Reconciled", "status": "False", "message": "no node has 2 CPUs left; add a node"}
    other = {"type": "Fit", "status": "False", "reason": "Odd", "message": "it is odd"}
    text = told(a_set(decisions=(WAITING,), conditions=(same, other)))
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
    text = told(a_set(decisions=(WAITING,)), dependents=(pilot,))
    assert "Dependent Pilot default/es-1:" in text
    assert "No problems" not in text


def test_old_events_are_told_if_asked_for() -> None:
    events = tuple(
        {"type": kind, "reason": reason, "message": "m", "lastTimestamp": ago(seconds), "metadata": {}}
        for kind, reason, seconds in (
            ("Normal", "ScaledBack", 60),
            ("Normal", "Made", 7200),
            ("Warning", "Odd", 7200),
        )
    )
    text = told(a_set(decisions=(WAITING,), events=events))
    assert "60s ago: ScaledBack: m" in text
    assert "Odd" in text
    assert "Made" not in text
    assert "Made" in told(a_set(decisions=(WAITING,), events=events), verbose=True)


def test_what_failed_is_told_with_how_often() -> None:
    text = told(a_set(decisions=(a_record("Failed", summary="failed: 422: no such field", attempts=4),)))
    assert "failed (4 times in a row): 422: no such field" in text


def test_what_is_stuck_comes_first() -> None:
    done = {**a_record("Done", summary="made web-0"), "controller": "a"}
    lines = told(a_set(decisions=(done, WAITING)), verbose=True).splitlines()
    assert lines[1].startswith("  waiting")
    assert "  last changed 30s ago: made web-0" in lines


def test_only_those_that_are_stuck_are_told_of_those_that_belong_to_it() -> None:
    bad = a_pod("web-1", problem="pod web-1 runs but is not ready", remedy="see its log")
    text = told(a_set(decisions=(WAITING,)), dependents=(a_pod("web-0"), bad, a_pod("web-2")))
    assert "Dependent Pod default/web-1:\n  pod web-1 runs but is not ready" in text
    assert "what would help: see its log" in text
    assert "web-2" not in text
    assert "No problems with the other 2 dependents." in text


def test_owners_are_told_of() -> None:
    text = told(a_pod("web-0"), owners=(a_set(decisions=(WAITING,)),))
    assert "Owner StatefulSet default/web:\n  waiting (for 4m10s)" in text


def test_what_keeps_an_object_from_going_is_named() -> None:
    text = told(a_set(deleting=ago(60), finalizers=("example.com/backup",)))
    assert "being deleted (for 60s); waiting for finalizers: example.com/backup" in text


def test_a_kind_without_a_controller_is_named() -> None:
    cluster = ObjectFindings("navigator.jetstack.io/v1beta1", "ElasticsearchCluster", "default", "es")
    assert "no controller handles the kind ElasticsearchCluster" in told(cluster, controllers=())


def test_nothing_known_says_why() -> None:
    assert "no controller handles the kind StatefulSet" in told(a_set(), controllers=())
    assert "its own controllers handle the kind StatefulSet" in told(a_set(), disabled=("stateful-sets",))
    assert "the server has no kind Decision" in told(a_set(), serves_decisions=False)
    unknown = told(a_set())
    assert "no decisions recorded by stateful-sets" in unknown
    assert "--controllers" in unknown
    assert told(a_set(exists=False)) == "StatefulSet default/web not found."


def test_that_no_manager_leads_is_told() -> None:
    nobody = told(a_set(decisions=(WAITING,)), leader=LeaseHolder("kube-system/m"))
    assert "No controller-manager leads: the lease kube-system/m has no holder" in nobody
    gone = told(a_set(), leader=LeaseHolder("kube-system/m", "m1", ago(300), 15))
    assert "m1 holds the lease kube-system/m but last renewed it 5m" in gone
    assert "--controllers" not in gone
    assert "No controller-manager" not in told(a_set(decisions=(WAITING,)))


def test_what_a_container_said_last_comes_first() -> None:
    bad = a_pod("web-1", problem="container app of pod web-1 can't run", log_errors="no such region: eu-9")
    lines = told(bad).splitlines()
    assert lines[1:3] == [
        "  last errors in its log: no such region: eu-9",
        "  container app of pod web-1 can't run",
    ]
    assert "last errors in its log: no such region" in told(a_set(decisions=(WAITING,)), dependents=(bad,))
