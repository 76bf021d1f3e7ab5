"""``kubectl get aa``: FROM and TO are there for any action."""

from __future__ import annotations

import json

import pytest

from pilothouse.api.openstorage.rule_kinds import APPLICATION_ACTION
from pilothouse.apiserver.discovery import tables


@pytest.mark.parametrize(
    ("action", "target"),
    [
        ("volume/resize", {"from": "320Mi", "to": "480Mi"}),
        ("volume/move", {"from": "default", "to": "fast", "class": "autopilot-1"}),
        ("volume/setiops", {"from": "500 IOPS", "to": "750 IOPS", "class": "autopilot-1", "iops": "750"}),
        ("workload/scale", {"from": "2", "to": "3"}),
    ],
)
def test_both_are_there_before_the_action_has_begun(action: str, target: dict[str, str]) -> None:
    fired = {
        "metadata": {"name": "fired-1", "namespace": "db", "creationTimestamp": "2026-11-18T12:00:00Z"},
        "spec": {"rule": "r", "object": {}, "action": f"openstorage.io.action.{action}", "target": target},
    }
    table = json.loads(tables.table_of_object(APPLICATION_ACTION, fired, tables.NONE, 0.0))
    names = [each["name"] for each in table["columnDefinitions"]]
    shown = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert (shown["From"], shown["To"]) == (target["from"], target["to"])
