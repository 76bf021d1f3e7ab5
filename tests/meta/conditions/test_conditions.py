from __future__ import annotations

from pilothouse.meta.conditions import condition_is, find_condition, with_condition, without_condition

THEN, NOW = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
READY = {"type": "Ready", "status": "True", "reason": "AllUp", "message": "", "lastTransitionTime": THEN}


def test_a_new_type_is_appended_with_the_time() -> None:
    synced = {"type": "Synced", "status": "False", "reason": "Lag", "message": "behind"}
    assert with_condition([READY], synced, now=NOW) == [READY, {**synced, "lastTransitionTime": NOW}]
    assert with_condition(None, synced, now=NOW) == [{**synced, "lastTransitionTime": NOW}]


def test_the_time_stays_while_the_status_does() -> None:
    changed = with_condition(
        [READY], {"type": "Ready", "status": "True", "reason": "Fine", "message": "m"}, now=NOW
    )
    assert changed == [{**READY, "reason": "Fine", "message": "m"}]
    assert READY["reason"] == "AllUp"


def test_the_time_moves_with_the_status() -> None:
    [condition] = with_condition(
        [READY], {"type": "Ready", "status": "False", "reason": "Down", "message": ""}, now=NOW
    )
    assert (condition["status"], condition["lastTransitionTime"]) == ("False", NOW)


def test_no_change_is_the_same_list() -> None:
    conditions = [READY]
    assert (
        with_condition(
            conditions, {"type": "Ready", "status": "True", "reason": "AllUp", "message": ""}, now=NOW
        )
        is conditions
    )


def test_asking() -> None:
    assert find_condition([READY], "Ready") is READY
    assert find_condition(None, "Ready") is None
    assert condition_is([READY], "Ready")
    assert not condition_is([READY], "Ready", "False")
    assert not condition_is([], "Ready", "Unknown")
    assert without_condition([READY], "Ready") == []
