"""``pilothouse disruptions``: what each budget allows, and which pods count against it."""

from __future__ import annotations

from typing import Any

from pilothouse.api.disruption_target import EVICTED, disruption_condition
from pilothouse.api.objects import Object
from pilothouse.base.rfc3339 import format_time
from pilothouse.diagnosis.disruption_report import as_table, budget_reports

NOW = 1_000_000.0


def budget(name: str, *, allowed: int, healthy: int, **status: Any) -> Object:
    return Object.of(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": name}}},
            "status": {
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "expectedPods": 3,
                **status,
            },
        }
    )


def pod(
    name: str, *, ready: bool = True, deleting: bool = False, by: tuple[str, str] | None = None
) -> Object:
    conditions: list[Any] = [
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": format_time(NOW - 90)}
    ]
    if by is not None:
        condition = disruption_condition(*by, reason=EVICTED)
        conditions.append({**condition, "lastTransitionTime": format_time(NOW - 12)})
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name.partition("-")[0]}}
    if deleting:
        metadata["deletionTimestamp"] = format_time(NOW - 30)
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "conditions": conditions},
        }
    )


def lines(budgets: list[Object], pods: list[Object]) -> list[str]:
    return as_table(budget_reports(budgets, pods), now=NOW).splitlines()


def test_a_budget_that_nobody_holds_has_one_line() -> None:
    found = lines([budget("db", allowed=1, healthy=3)], [pod("db-0"), pod("db-1"), pod("db-2")])
    assert [line.split() for line in found[1:]] == [["shop", "db", "1", "3/3", "-"]]


def test_who_takes_a_pod_down_and_why_is_shown() -> None:
    going = pod("db-1", deleting=True, by=("drains", "node w1 is updated to v1.31.2"))
    [_, line] = lines([budget("db", allowed=0, healthy=2)], [pod("db-0"), going])
    assert line.split(maxsplit=8) == [
        *("shop", "db", "0", "2/3", "db-1", "Terminating", "drains", "12s"),
        "node w1 is updated to v1.31.2",
    ]


def test_a_pod_that_is_restarted_in_place_is_taken_down() -> None:
    by = ("elasticsearch-clusters", "db-0 gets its configuration and restarts with it")
    [report] = budget_reports([budget("db", allowed=0, healthy=3)], [pod("db-0", by=by)])
    [down] = report.down
    assert (down.state, down.by, down.because) == ("TakenDown", *by)


def test_a_pod_that_was_booked_and_not_marked_yet_is_shown() -> None:
    booked = {"disruptedPods": {"db-0": format_time(NOW - 3)}}
    [report] = budget_reports([budget("db", allowed=0, healthy=2, **booked)], [pod("db-0")])
    [down] = report.down
    assert (down.state, down.by, down.since) == ("TakenDown", "", format_time(NOW - 3))


def test_a_pod_that_is_down_for_another_reason_holds_its_budget_too() -> None:
    [_, line] = lines([budget("db", allowed=0, healthy=2)], [pod("db-0", ready=False)])
    assert line.split(maxsplit=8)[4:8] == ["db-0", "NotReady", "-", "90s"]
    assert "db-0" in line.split(maxsplit=8)[8]


def test_a_pod_that_was_deleted_otherwise_says_since_when() -> None:
    [_, line] = lines([budget("db", allowed=0, healthy=2)], [pod("db-0", deleting=True)])
    assert line.split() == ["shop", "db", "0", "2/3", "db-0", "Terminating", "-", "30s"]


def test_pods_without_a_budget_come_last_and_only_if_they_are_taken_down() -> None:
    pods = [pod("bare-0", ready=False), pod("bare-1", by=("admin", "evicted through the API"))]
    found = lines([budget("db", allowed=1, healthy=3)], pods)
    assert [line.split()[1] for line in found[1:]] == ["db", "-"]
    assert "bare-1" in found[2]


def test_a_message_steers_no_terminal_and_adds_no_line() -> None:
    found = lines([], [pod("bare-1", by=("admin", "first\nsecond\x1b[31m"))])
    assert len(found) == 2
    assert "first^Jsecond^[[31m" in found[1]


def test_without_budgets_and_disruptions_there_is_a_sentence() -> None:
    assert lines([], [pod("bare-0")]) == [
        "There are no disruption budgets, and no pod is taken down on purpose."
    ]
