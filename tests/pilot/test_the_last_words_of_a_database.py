"""Why a database ended, in its own words, and how far one is that starts: in its Pilot's status, and for its pod's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.conditions import HOOK_FAILED, OUT_OF_TOUCH
from pilothouse.api.navigator.database_exit import crash_of
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.pilot.driver import DesiredState, Observation
from pilothouse.pilot.instance_lifecycle import InstanceHistory
from pilothouse.pilot.pilot_status import InstanceFacts, pilot_status, why_not_ready
from pilothouse.pilot.process_exit import DatabaseExit, classify_exit
from pilothouse.pilot.termination_log import write_termination_message

DESIRED = DesiredState(1, "a", {})
RUNNING = InstanceHistory().preparing().launched(DESIRED)
REFUSED = Observation(ready=False, message="Redis does not answer: connection refused", answers=False)
NOW = 10_000.0


def pilot(status: Tree | None = None) -> Object:
    return Object(Pilot, {"metadata": {"name": "cache-0"}, "spec": {}, "status": status or {}})


def known(**fields: Any) -> InstanceFacts:
    return InstanceFacts(
        **{"life": RUNNING, "desired": DESIRED, "application": "redis", "started": NOW, **fields}
    )


def crashed(said: str = "unknown setting [a]", *, at: float = NOW) -> DatabaseExit:
    return classify_exit(1, asked_by=None, clean_codes=(0,), now=at, said=["INFO hello", f"ERROR {said}"])


def message(status: Tree, kind: str) -> str:
    return next(str(each["message"]) for each in status["conditions"] if each["type"] == kind)


def test_an_end_with_a_code_has_the_last_error_lines() -> None:
    exit = crashed()
    assert exit.sentence == "it ended with code 1: ERROR unknown setting [a]"
    assert exit.tree()["message"] == "ERROR unknown setting [a]"
    status = pilot_status(pilot(), known(life=RUNNING.ended(clean=False), exit=exit), NOW)
    assert message(status, "Stopped") == f"The database is down: {exit.sentence}"
    assert exit.sentence in message(status, "Ready")


@pytest.mark.parametrize("returncode", [-9, 0])
def test_one_that_was_killed_or_ended_in_order_had_nothing_to_say(returncode: int) -> None:
    asked_by = 15 if returncode == 0 else None
    exit = classify_exit(
        returncode, asked_by=asked_by, clean_codes=(0,), now=NOW, said=["ERROR of an hour ago"]
    )
    assert exit.message == ""
    assert "message" not in exit.tree()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "Redis is starting"),
        (9, "Redis is starting"),
        (12, "Redis is starting, 10 s"),
        (59, "Redis is starting, 30 s"),
        (70, "Redis is starting, 60 s"),
        (125, "Redis is starting, 2m: Redis does not answer: connection refused"),
        (4000, "Redis is starting, 60m: Redis does not answer: connection refused"),
    ],
)
def test_one_that_starts_says_so_and_is_not_written_every_second(seconds: int, said: str) -> None:
    assert why_not_ready(pilot(), known(observation=REFUSED), NOW + seconds) == ("Starting", said)


def test_one_that_has_not_been_asked_yet_is_starting_too() -> None:
    assert why_not_ready(pilot(), known(), NOW)[0] == "Starting"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"observation": REFUSED, "has_served": True}, OUT_OF_TOUCH),
        ({"observation": Observation(ready=False, message="no master")}, "NotReady"),
        ({"trouble": "Preflight failed", "has_failed": True, "life": InstanceHistory()}, HOOK_FAILED),
        ({"life": RUNNING.halting("its pod goes"), "observation": REFUSED}, "NotReady"),
    ],
    ids=["it has served", "it answers", "a hook", "it is stopped"],
)
def test_everything_else_is_no_start(fields: dict[str, Any], reason: str) -> None:
    found, said = why_not_ready(pilot(), known(**fields), NOW)
    assert found == reason
    assert "starting" not in said


def after_a_crash(*, ready_since: float | None = None, started: float = NOW + 2) -> Object:
    """A Pilot whose database ended badly at NOW and was started again."""
    since = NOW if ready_since is None else ready_since
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(since)}
    return pilot(
        {
            "lastStartedTime": format_time(started),
            "lastExit": crashed().tree(),
            "conditions": [ready],
        }
    )


def test_one_that_starts_after_a_crash_says_how_it_ended() -> None:
    said = why_not_ready(after_a_crash(), known(started=NOW + 2, observation=REFUSED), NOW + 3)[1]
    assert said == "Redis is starting; before that, it ended with code 1: ERROR unknown setting [a]"


def test_a_crash_is_over_once_the_database_has_been_ready() -> None:
    assert crash_of(after_a_crash())
    assert crash_of(after_a_crash(started=NOW - 60)), "it waits for its next start"
    assert not crash_of(after_a_crash(ready_since=NOW + 500)), "it was ready, and is not any more"
    up = after_a_crash()
    assert not crash_of(pilot({**up.status, "conditions": [{"type": "Ready", "status": "True"}]}))
    assert not crash_of(pilot())


def test_an_exit_before_a_run_whose_end_nobody_saw_is_not_the_last_one() -> None:
    """The machine went down: what is in the status is of the run before."""
    before = after_a_crash(started=NOW + 2)
    again = pilot_status(before, known(started=NOW + 900), NOW + 900)
    assert "lastExit" not in again
    assert "before that" not in message(again, "Ready")
    same = pilot_status(before, known(started=NOW + 2), NOW + 3)
    assert same["lastExit"]["exitCode"] == 1


def test_the_pods_termination_message_is_written_where_there_is_a_file_for_it(tmp_path: Path) -> None:
    file = tmp_path / "termination-log"
    write_termination_message("why", str(file))
    assert not file.exists(), "outside of a container there is none"
    file.write_text("something longer that was there before")
    write_termination_message("why", str(file))
    assert file.read_text() == "why"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    write_termination_message("why", str(link))
    assert elsewhere.read_text() == "untouched"
