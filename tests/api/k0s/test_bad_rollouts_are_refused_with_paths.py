"""A rollout that would hold a plan forever, or never hold it, is refused where it is written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import Admission, admit

from pilothouse.api.k0s.plan_kinds import PLAN, UPDATE_CONFIG

Json = dict[str, Any]
GATE: Json = {"name": "g", "apiVersion": "v1", "kind": "ConfigMap", "expression": "self.data.ok == 'yes'"}
WINDOW: Json = {"startTime": "22:00", "length": "2h"}


def rollout(**fields: Any) -> Admission:
    return admit(PLAN, {"metadata": {"name": "autopilot"}, "spec": {"commands": [], "rollout": fields}})


BAD: dict[str, tuple[Json, str]] = {
    "node deadline without a unit": ({"nodeDeadline": "60"}, "nodeDeadline"),
    "node deadline of 0": ({"nodeDeadline": "0s"}, "nodeDeadline"),
    "empty node deadline": ({"nodeDeadline": ""}, "nodeDeadline"),
    "negative plan deadline": ({"planDeadline": "-1h"}, "planDeadline"),
    "soak of a day": ({"soak": "1d"}, "soak"),
    "negative failures": ({"maxFailures": -1}, "maxFailures"),
    "nobody may be unavailable": ({"maxUnavailable": 0}, "maxUnavailable"),
    "no percentage": ({"maxUnavailable": "half"}, "maxUnavailable"),
    "0 percent": ({"maxUnavailable": "0%"}, "maxUnavailable"),
    "wave with a bad label selector": (
        {"waves": [{"selector": {"labels": "a=b"}}, {"selector": {"labels": "a in ("}}]},
        "waves[1].selector.labels",
    ),
    "wave with an unknown field": (
        {"waves": [{"selector": {"fields": "spec.x=y"}}]},
        "waves[0].selector.fields",
    ),
    "wave without a selector": ({"waves": [{"name": "canary"}]}, "waves[0].selector"),
    "window that never opens": ({"windows": [{**WINDOW, "startTime": "24:00"}]}, "windows[0].startTime"),
    "window of more than a week": ({"windows": [{**WINDOW, "length": "169h"}]}, "windows[0].length"),
    "window of no length": ({"windows": [WINDOW, {**WINDOW, "length": "0h"}]}, "windows[1].length"),
    "window in a time zone that is none": (
        {"windows": [{**WINDOW, "timeZone": "Europe/Atlantis"}]},
        "windows[0].timeZone",
    ),
    "window in a file": ({"windows": [{**WINDOW, "timeZone": "../x"}]}, "windows[0].timeZone"),
    "window on a day that is none": ({"windows": [{**WINDOW, "days": ["monday"]}]}, "windows[0].days[0]"),
    "drain by an unknown strategy": ({"drain": {"strategy": "force"}}, "drain.strategy"),
    "drain timeout of 0": ({"drain": {"timeout": "0s"}}, "drain.timeout"),
    "drain timeout that is no duration": ({"drain": {"timeout": "soon"}}, "drain.timeout"),
    "force after that is no duration": ({"drain": {"forceAfter": "5"}}, "drain.forceAfter"),
    "negative grace": ({"drain": {"gracePeriodSeconds": -1}}, "drain.gracePeriodSeconds"),
    "unknown answer to failures": ({"onFailure": "retry"}, "onFailure"),
    "unknown answer to readiness": ({"onNotReady": "ignore"}, "onNotReady"),
    "gate whose expression is none": (
        {"gates": [{**GATE, "expression": "self.data."}]},
        "gates[0].expression",
    ),
    "gate over something else": ({"gates": [{**GATE, "expression": "object.x == 1"}]}, "gates[0].expression"),
    "gate whose expression is no condition": (
        {"gates": [{**GATE, "expression": "1 + 1"}]},
        "gates[0].expression",
    ),
    "gate over the past": (
        {"gates": [{**GATE, "expression": "self.data == oldSelf.data"}]},
        "gates[0].expression",
    ),
    "gate by name and labels": ({"gates": [{**GATE, "objectName": "a", "labels": "b=c"}]}, "gates[0].labels"),
    "gate with a bad label selector": ({"gates": [{**GATE, "labels": "!"}]}, "gates[0].labels"),
    "gate in a namespace that can't be": ({"gates": [{**GATE, "namespace": "A_b"}]}, "gates[0].namespace"),
    "gate at an unknown time": ({"gates": [{**GATE, "when": "never"}]}, "gates[0].when"),
    "gate without a kind": ({"gates": [{**GATE, "kind": ""}]}, "gates[0].kind"),
    "two gates of one name": ({"gates": [GATE, GATE]}, "gates[1]"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str) -> None:
    fields, path = BAD[case]
    assert rollout(**fields).paths == [f"spec.rollout.{path}"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"paused": True, "aborted": True},
        {"nodeDeadline": "90m", "planDeadline": "12h", "soak": "0s", "maxFailures": 3},
        {"maxUnavailable": "25%"},
        {"maxUnavailable": 2},
        {"waves": [{"name": "canary", "selector": {"labels": "canary"}}, {"selector": {}}]},
        {"windows": [{**WINDOW, "days": ["Monday"], "timeZone": "Europe/Berlin"}, WINDOW]},
        {"drain": {"strategy": "none", "timeout": "10m", "gracePeriodSeconds": 0, "forceAfter": "0s"}},
        {"gates": [GATE, {**GATE, "name": "h", "when": "after", "labels": "app=es", "namespace": "prod"}]},
        {"gates": [{**GATE, "objectName": "es"}]},
        {"onNotReady": "wait", "onFailure": "rollback"},
    ],
)
def test_accepted(fields: Json) -> None:
    found = rollout(**fields)
    assert (found.problems, found.unknown) == ([], [])


def test_deadlines_have_defaults() -> None:
    found = rollout(paused=True)
    assert found.obj["spec"]["rollout"]["nodeDeadline"] == "1h"
    assert found.obj["spec"]["rollout"]["drain"] == {"strategy": "evict"}


def named(count: int, times: int = 1) -> Json:
    nodes = [f"worker-{number:04}" for number in range(count)] * times
    targets = {"workers": {"discovery": {"static": {"nodes": nodes}}}}
    platforms = {"linux-amd64": {"url": "http://h/k0s"}}
    return {"k0supdate": {"version": "v1.31.0", "platforms": platforms, "targets": targets}}


@pytest.mark.parametrize(
    ("commands", "paths"),
    [
        ([named(10_000)], ["spec.commands[0]"]),
        ([named(6000)], ["spec.commands[0]"]),
        ([named(3000), named(3000), named(3000)], ["spec.commands[1]"]),
        ([named(5000)], []),
        ([named(4000, times=3)], []),
    ],
)
def test_more_targets_than_an_object_holds(commands: list[Json], paths: list[str]) -> None:
    plan = {"metadata": {"name": "autopilot"}, "spec": {"commands": commands}}
    assert admit(PLAN, plan).paths == paths


def test_the_rollout_of_an_update_config_is_checked_too() -> None:
    strategy = {"type": "periodic", "periodic": WINDOW}
    spec = {"upgradeStrategy": strategy, "planSpec": {"rollout": {"soak": "long"}}}
    assert admit(UPDATE_CONFIG, {"spec": spec}).paths == ["spec.planSpec.rollout.soak"]
