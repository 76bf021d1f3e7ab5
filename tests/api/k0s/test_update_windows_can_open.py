"""An UpdateConfig whose window would never open, or whose schedule is none, is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import Admission, admit

from pilothouse.api.k0s.cron import problem_with
from pilothouse.api.k0s.plan_kinds import UPDATE_CONFIG

Json = dict[str, Any]
WINDOW: Json = {"startTime": "13:00", "length": "2h"}
PERIODIC = "spec.upgradeStrategy.periodic"


def config(strategy: Json, **spec: Any) -> Admission:
    return admit(UPDATE_CONFIG, {"spec": {"upgradeStrategy": strategy, **spec}})


def window(**changes: Any) -> Admission:
    return config({"type": "periodic", "periodic": {**WINDOW, **changes}})


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"days": ["Tuesdsay"]}, f"{PERIODIC}.days[0]"),
        ({"days": ["Monday", "tuesday"]}, f"{PERIODIC}.days[1]"),
        ({"startTime": "25:00"}, f"{PERIODIC}.startTime"),
        ({"startTime": "1pm"}, f"{PERIODIC}.startTime"),
        ({"startTime": 780}, f"{PERIODIC}.startTime"),
        ({"length": "2"}, f"{PERIODIC}.length"),
        ({"length": "1d"}, f"{PERIODIC}.length"),
        ({"length": "0s"}, f"{PERIODIC}.length"),
        ({"length": "-1h"}, f"{PERIODIC}.length"),
        ({"length": "168h1s"}, f"{PERIODIC}.length"),
    ],
)
def test_a_window_that_never_opens_is_refused(changes: Json, path: str) -> None:
    assert window(**changes).paths == [path]


@pytest.mark.parametrize("missing", ["startTime", "length"])
def test_a_window_has_a_start_and_a_length(missing: str) -> None:
    left = {name: value for name, value in WINDOW.items() if name != missing}
    assert config({"type": "periodic", "periodic": left}).paths == [f"{PERIODIC}.{missing}"]


@pytest.mark.parametrize("length", ["2h", "90m", "1h30m", "24h", "168h"])
def test_lengths_are_durations(length: str) -> None:
    assert window(length=length, days=["Monday", "Sunday"]).problems == []


def test_the_defaults_are_filled_in() -> None:
    found = window()
    assert found.obj["spec"]["channel"] == "stable"
    assert found.obj["spec"]["updateServer"] == "https://updates.k0sproject.io"


@pytest.mark.parametrize(
    ("strategy", "path"),
    [
        ({}, "spec.upgradeStrategy.type"),
        ({"type": "weekly"}, "spec.upgradeStrategy.type"),
        ({"type": "periodic"}, "spec.upgradeStrategy.periodic"),
        ({"type": "periodic", "periodic": WINDOW, "cron": "@daily"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "periodic": WINDOW}, "spec.upgradeStrategy.periodic"),
        ({"type": "cron", "cron": "every day"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "cron": "61 * * * *"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "cron": "@every"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "cron": "@every day"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "cron": "@every 100ms"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "cron": "@every -1h"}, "spec.upgradeStrategy.cron"),
        ({"type": "cron", "cron": "@every 100000h"}, "spec.upgradeStrategy.cron"),
    ],
)
def test_a_strategy_is_one_of_two(strategy: Json, path: str) -> None:
    assert config(strategy).paths == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"updateServer": "updates.k0sproject.io"}, "spec.updateServer"),
        ({"updateServer": "https://"}, "spec.updateServer"),
        ({"channel": "two words"}, "spec.channel"),
        ({"channel": "../secrets"}, "spec.channel"),
        ({"planSpec": "..."}, "spec.planSpec"),
        ({"planSpec": {"commands": [{}]}}, "spec.planSpec.commands[0]"),
        (
            {
                "planSpec": {
                    "commands": [{"airgapupdate": {"workers": {"discovery": {"selector": {"labels": "=="}}}}}]
                }
            },
            "spec.planSpec.commands[0].airgapupdate.workers.discovery.selector.labels",
        ),
        (
            {
                "planSpec": {
                    "commands": [
                        {
                            "k0supdate": {
                                "targets": {"workers": {"discovery": {}, "limits": {"concurrent": 0}}}
                            }
                        }
                    ]
                }
            },
            "spec.planSpec.commands[0].k0supdate.targets.workers.limits.concurrent",
        ),
    ],
)
def test_source_and_plan_are_checked(spec: Json, path: str) -> None:
    assert config({"type": "cron"}, **spec).paths == [path]


@pytest.mark.parametrize("channel", ["stable", "edge_release", "stable/v1.27"])
def test_channels_are_free(channel: str) -> None:
    assert config({"type": "cron", "cron": "* * * * * *"}, channel=channel).problems == []


@pytest.mark.parametrize(
    "text",
    ["* * * * *", "*/5 0 1,15 * MON-FRI", "0 30 3 ? JAN sun", "59 23 31 12 7", "@hourly", "0-59/2 * * * *"],
)
def test_schedules(text: str) -> None:
    assert problem_with(text) == ""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "fields"),
        ("* * * *", "fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * FUNDAY", "day of the week"),
        ("*/0 * * * *", "step"),
        ("5-1 * * * *", "backwards"),
        ("1- * * * *", "minute"),
        ("@fortnightly", "@hourly"),
        ("٣ * * * *", "minute"),
    ],
)
def test_what_is_no_schedule_says_why(text: str, word: str) -> None:
    assert word in problem_with(text)


@pytest.mark.parametrize("kind", ["cron", "periodic"])
def test_a_window_in_cron_is_one(kind: str) -> None:
    assert config({"type": kind, "cron": {**WINDOW, "days": ["Monday"]}}).problems == []


@pytest.mark.parametrize(
    ("cron", "path"),
    [
        ({**WINDOW, "days": ["Tuesdsay"]}, "spec.upgradeStrategy.cron"),
        ({**WINDOW, "startTime": 780}, "spec.upgradeStrategy.cron"),
        ({"length": "2h"}, "spec.upgradeStrategy.cron"),
        ({**WINDOW, "startTime": "25:00"}, "spec.upgradeStrategy.cron.startTime"),
        ({**WINDOW, "start": "13:00"}, "spec.upgradeStrategy.cron.start"),
        (["13:00"], "spec.upgradeStrategy.cron"),
        (7, "spec.upgradeStrategy.cron"),
    ],
)
def test_a_window_in_cron_is_checked_too(cron: Any, path: str) -> None:
    assert config({"type": "cron", "cron": cron}).paths == [path]


def test_two_windows_are_refused() -> None:
    found = config({"type": "cron", "cron": WINDOW, "periodic": WINDOW})
    assert found.paths == ["spec.upgradeStrategy.periodic"]


def test_a_time_zone_must_exist() -> None:
    assert window(timeZone="Europe/Berlin").problems == []
    for name in ("Mars/Olympus", "../etc/passwd", "/etc/localtime"):
        assert window(timeZone=name).paths == [f"{PERIODIC}.timeZone"]
