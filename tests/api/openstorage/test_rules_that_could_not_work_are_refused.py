"""A rule that could never fire, or whose action could never be done, is refused where it is written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import Admission, admit

from pilothouse.api.openstorage.rule_kinds import APPLICATION_ACTION, APPLICATION_POLICY, APPROVAL, RULE

Json = dict[str, Any]
ACTION = "openstorage.io.action."
USAGE: Json = {
    "key": "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)",
    "operator": "Gt",
    "values": ["50"],
}
RESIZE: Json = {"name": f"{ACTION}volume/resize", "params": {"scalepercentage": "100", "maxsize": "400Gi"}}
EXPRESSION = "spec.conditions.expressions[0]"


def rule(**spec: Any) -> Admission:
    return admit(RULE, {"spec": {"conditions": {"expressions": [USAGE]}, "actions": [RESIZE], **spec}})


def comparing(**changes: Any) -> Admission:
    expression = {name: value for name, value in {**USAGE, **changes}.items() if value is not ...}
    return rule(conditions={"expressions": [expression]})


def acting(name: str, **params: str) -> Admission:
    return rule(actions=[{"name": f"{ACTION}{name}", "params": params}])


def test_the_defaults_are_filled_in() -> None:
    spec = rule().obj["spec"]
    assert (spec["pollInterval"], spec["actionsCoolDownPeriod"]) == (60, 300)
    conditions = {name: spec["conditions"][name] for name in ("for", "type", "provider")}
    assert conditions == {"for": 30, "type": "monitoring", "provider": "prometheus"}


@pytest.mark.parametrize(("given", "there"), [(1, "is only 1 expression"), (2, "are only 2 expressions")])
def test_more_matches_than_expressions_are_refused_with_their_number(given: int, there: str) -> None:
    (problem,) = rule(conditions={"expressions": [USAGE] * given, "requiredMatches": 3}).problems
    assert str(problem).endswith(f"can't be met: there {there}")


@pytest.mark.parametrize("enforcement", ["", "approvalRequired", "required", "preferred"])
def test_old_words_of_enforcement_are_understood(enforcement: str) -> None:
    assert rule(enforcement=enforcement).problems == []


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"operator": "Above"}, f"{EXPRESSION}.operator"),
        ({"operator": ...}, f"{EXPRESSION}.operator"),
        ({"key": ...}, EXPRESSION),
        ({"keyAlias": "PoolUsageDeviationPerc"}, f"{EXPRESSION}.keyAlias"),
        ({"key": ..., "keyAlias": "PoolUsage"}, f"{EXPRESSION}.keyAlias"),
        ({"key": ..., "expression": "is_greater(1)"}, None),
        ({"values": []}, f"{EXPRESSION}.values"),
        ({"values": ["1", "2"]}, f"{EXPRESSION}.values"),
        ({"values": ["half"]}, f"{EXPRESSION}.values[0]"),
        ({"values": ["nan"]}, f"{EXPRESSION}.values[0]"),
        ({"values": [50]}, f"{EXPRESSION}.values[0]"),
        ({"operator": "InRange"}, f"{EXPRESSION}.values"),
        ({"operator": "InRange", "values": ["20", "-20"]}, f"{EXPRESSION}.values"),
        ({"operator": "In", "values": []}, f"{EXPRESSION}.values"),
        ({"operator": "Exists"}, f"{EXPRESSION}.values"),
        ({"key": "sum("}, f"{EXPRESSION}.key"),
        ({"key": "up[5m]"}, f"{EXPRESSION}.key"),
        ({"key": "'text'"}, f"{EXPRESSION}.key"),
        ({"clearAt": "low"}, f"{EXPRESSION}.clearAt"),
        ({"clearAt": "51"}, f"{EXPRESSION}.clearAt"),
        ({"operator": "Lt", "clearAt": "49"}, f"{EXPRESSION}.clearAt"),
        ({"operator": "InRange", "values": ["1", "2"], "clearAt": "1"}, f"{EXPRESSION}.clearAt"),
    ],
)
def test_comparisons_that_can_not_be_made(changes: Json, path: str | None) -> None:
    found = comparing(**changes).paths
    assert found == ([path] if path else [f"{EXPRESSION}.operator", f"{EXPRESSION}.values"])


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": "NotInRange", "values": ["-20", "20"]},
        {"operator": "In", "values": ["1", "2.5", "1e9"]},
        {"operator": "DoesNotExist", "values": ...},
        {"key": ..., "keyAlias": "PoolProvDeviationPerc"},
        {"key": ..., "keyAlias": "VolumeUsagePercent", "clearAt": "40"},
        {"operator": "Lt", "clearAt": "60.5"},
        {"key": ..., "operator": ..., "values": ..., "expression": "avg:volume.usage{*} by {volumename}"},
    ],
)
def test_comparisons_that_can_be_made(changes: Json) -> None:
    assert comparing(**changes).problems == []


@pytest.mark.parametrize(
    ("name", "params", "path"),
    [
        ("volume/paint", {}, "name"),
        ("Volume resize", {}, "name"),
        ("volume/resize", {"scalepercentage": "-5"}, "params.scalepercentage"),
        ("volume/resize", {"scalepercentage": "lots"}, "params.scalepercentage"),
        ("volume/resize", {"maxsize": "big"}, "params.maxsize"),
        ("volume/resize", {"scalepercentage": "0"}, "params.scalepercentage"),
        ("volume/resize", {"scalesize": "1Gi", "scalepercentage": "50"}, "params.scalesize"),
        ("volume/resize", {"scalesize": "0"}, "params.scalesize"),
        ("volume/resize", {"minstep": "-1Gi"}, "params.minstep"),
        ("storagepool/expand", {"scalesize": "1Ti", "scalepercentage": "50"}, "params.scalesize"),
        ("storagepool/expand", {"scaletype": "magic"}, "params.scaletype"),
        ("storagepool/rebalance", {"hard": "true"}, "params.hard"),
        ("volume/ha", {"level": "9"}, "params.level"),
        ("workload/scale", {"replicas": "0"}, "params.replicas"),
    ],
)
def test_actions_that_can_not_be_done(name: str, params: Json, path: str) -> None:
    assert acting(name, **params).paths == [f"spec.actions[0].{path}"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("volume/resize", {}),
        ("volume/resize", {"maxsize": "429496729600"}),
        ("volume/resize", {"scalesize": "10Gi", "minstep": "1Gi"}),
        ("storagepool/expand", {"scalesize": "100Gi", "scaletype": "add-disk"}),
        ("storagepool/rebalance", {}),
        ("volume/setiops", {"iops": "3000"}),
        ("workload/scale", {"step": "1", "max": "5"}),
    ],
)
def test_actions_that_can_be_done(name: str, params: Json) -> None:
    assert acting(name, **params).problems == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"actions": []}, "spec.actions"),
        ({"conditions": {"expressions": []}}, "spec.conditions.expressions"),
        ({"conditions": {"expressions": [USAGE], "requiredMatches": 2}}, "spec.conditions.requiredMatches"),
        ({"conditions": {"expressions": [USAGE], "for": -1}}, "spec.conditions.for"),
        ({"conditions": {"expressions": [USAGE], "type": "astrology"}}, "spec.conditions.type"),
        ({"pollInterval": 0}, "spec.pollInterval"),
        ({"conditions": [USAGE]}, "spec.conditions"),
        ({"budget": {"growthPerDay": "lots"}}, "spec.budget.growthPerDay"),
        ({"budget": {"growthPerDay": "-1Gi"}}, "spec.budget.growthPerDay"),
        ({"budget": {"concurrent": 0}}, "spec.budget.concurrent"),
        ({"enforcement": "always"}, "spec.enforcement"),
        ({"selector": {"matchLabels": {"app": "not valid"}}}, "spec.selector"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.namespaceSelector",
        ),
        ({"actions": [RESIZE, {"name": f"{ACTION}storagepool/rebalance"}]}, "spec.actions[1].name"),
        ({"actionWindow": {"windows": []}}, "spec.actionWindow.windows"),
        (
            {
                "actionWindow": {
                    "timezone": "Mars/Crater",
                    "windows": [{"startTime": "01:00", "endTime": "02:00"}],
                }
            },
            "spec.actionWindow.timezone",
        ),
        (
            {"actionWindow": {"windows": [{"startTime": "24:00", "endTime": "02:00"}]}},
            "spec.actionWindow.windows[0].startTime",
        ),
        (
            {"actionWindow": {"windows": [{"startTime": "01:00", "endTime": "01:00"}]}},
            "spec.actionWindow.windows[0].endTime",
        ),
        (
            {
                "actionWindow": {
                    "windows": [{"startTime": "01:00", "endTime": "2:00", "daysOfWeek": ["Funday"]}]
                }
            },
            "spec.actionWindow.windows[0].daysOfWeek[0]",
        ),
    ],
)
def test_rules_that_could_not_work(spec: Json, path: str) -> None:
    assert rule(**spec).paths == [path]


def test_numbers_without_quotes_are_shown_the_form() -> None:
    (problem,) = comparing(values=[50]).problems
    assert problem.detail.endswith('; numbers are in quotes here, as in "50"')
    params = {"scalepercentage": 50}
    (problem,) = rule(actions=[{"name": f"{ACTION}volume/resize", "params": params}]).problems
    assert problem.path == "spec.actions[0].params.scalepercentage"
    assert problem.detail.endswith('; numbers are in quotes here, as in "50"')
    picked = {"name": "volume-resize", "parameters": {"threshold": 70}}
    (problem,) = admit(
        APPLICATION_POLICY, {"spec": {"application": "postgres", "policies": [picked]}}
    ).problems
    assert problem.detail.endswith('; numbers are in quotes here, as in "50"')


def test_conditions_without_a_list_of_expressions_are_shown_the_form() -> None:
    (problem,) = rule(conditions=[USAGE]).problems
    assert "conditions: {expressions: [{key: ..., operator: Gt, values:" in problem.message


def test_a_stored_rule_stays_writable() -> None:
    """One that was stored before its expression was checked can be labelled, and have a status."""
    old = rule().obj
    old["spec"]["conditions"]["expressions"][0]["key"] = "sum("
    assert admit(RULE, {**old, "status": {"objects": 3}}, old).problems == []
    assert admit(RULE, {**old, "spec": {**old["spec"], "weight": 2}}, old).paths == [f"{EXPRESSION}.key"]


@pytest.mark.parametrize("name", ["example.com.action.volume/snapshot", "a.b-c.io.action.node/cordon-2"])
def test_actions_of_other_domains_are_left_to_their_executors(name: str) -> None:
    action = {"name": name, "params": {"any": "thing"}}
    assert rule(actions=[action]).problems == []
    reference = {"kind": "Node", "name": "n"}
    fired = {"spec": {"rule": "r", "object": reference, "action": name, "parameters": {"any": "thing"}}}
    assert admit(APPLICATION_ACTION, fired).problems == []


@pytest.mark.parametrize(
    "name",
    ["snapshot", "com.action.volume/", "action.volume/snapshot", "e.com.action.Volume/snapshot", "x" * 400],
)
def test_names_that_are_no_actions(name: str) -> None:
    assert rule(actions=[{"name": name}]).paths == ["spec.actions[0].name"]


def test_windows_have_zone_days_and_either_clock() -> None:
    windows = [
        {"name": "night", "startTime": "22:30", "endTime": "04:00", "daysOfWeek": ["Mon", "Tuesday"]},
        {"startTime": "10:30PM", "endTime": "4:00am"},
    ]
    assert rule(actionWindow={"timezone": "Europe/Zurich", "windows": windows}).problems == []
    assert rule(actionWindow={"windows": windows}).obj["spec"]["actionWindow"]["timezone"] == "UTC"


def test_an_approval_is_one_of_four() -> None:
    assert admit(APPROVAL, {"spec": {"approvalState": "maybe"}}).paths == ["spec.approvalState"]
    found = admit(APPROVAL, {"spec": {"actions": [RESIZE]}})
    assert (found.problems, found.obj["spec"]["approvalState"]) == ([], "pending")


def test_the_status_of_an_approval_has_its_historical_spelling() -> None:
    status = {
        "Rule": {"Name": "volume-resize", "Namespace": ""},
        "actionPreviews": [
            {"expectedResult": {"Message": "10Gi becomes 20Gi"}, "involvedObjects": [{"name": "pvc"}]}
        ],
    }
    found = admit(APPROVAL, {"spec": {}, "status": status})
    assert (found.problems, found.unknown) == ([], [])


def test_an_application_policy_names_policies_of_a_module() -> None:
    policy = {"name": "volume-resize", "parameters": {"maxsize": "400Gi"}}
    good: Json = {"application": "postgres", "policies": [policy]}
    assert admit(APPLICATION_POLICY, {"spec": good}).problems == []
    assert admit(APPLICATION_POLICY, {"spec": {**good, "policies": []}}).paths == ["spec.policies"]
    assert admit(APPLICATION_POLICY, {"spec": {**good, "policies": [policy, policy]}}).paths == [
        "spec.policies[1]"
    ]
    assert admit(APPLICATION_POLICY, {"spec": {**good, "application": "My SQL"}}).paths == [
        "spec.application"
    ]


def test_a_fired_action_can_not_be_changed() -> None:
    spec: Json = {
        "rule": "volume-resize",
        "object": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "uid": "u1"},
        "action": f"{ACTION}volume/resize",
        "parameters": {"scalepercentage": "50"},
        "cause": [{"expression": "usage > 50", "value": "71.2", "time": "2024-02-29T12:00:00Z"}],
    }
    fired = admit(APPLICATION_ACTION, {"spec": spec})
    assert fired.problems == []
    done = {
        **fired.obj,
        "status": {"phase": "Succeeded", "before": {"size": "10Gi"}, "after": {"size": "15Gi"}},
    }
    assert admit(APPLICATION_ACTION, done, fired.obj).problems == []
    changed = {**fired.obj, "spec": {**spec, "parameters": {"scalepercentage": "900"}}}
    assert admit(APPLICATION_ACTION, changed, fired.obj).paths == ["spec.parameters"]
    unknown = {**spec, "action": f"{ACTION}volume/paint"}
    assert admit(APPLICATION_ACTION, {"spec": unknown}).paths == ["spec.action"]


def causes(*levels: str, **more: Any) -> Admission:
    """A rule about volumes whose candidates look at these levels."""
    when = [{**USAGE, "on": level} for level in levels] or [USAGE]
    candidates = [{"name": "a", "when": when, "actions": [RESIZE]}]
    return rule(**{"actions": [], "candidates": candidates, **more})


def test_a_level_that_is_reached_from_the_object_is_accepted() -> None:
    assert not causes("pod", "device", "node").problems


def test_an_unquoted_on_of_yaml_is_understood() -> None:
    admitted = comparing(true="pod")
    assert not admitted.problems
    assert admitted.obj["spec"]["conditions"]["expressions"][0]["on"] == "pod"


def test_what_is_not_reached_from_the_object_is_refused() -> None:
    pools = causes("pod", object="storagepool")
    assert [problem.path for problem in pools.problems] == [
        "spec.candidates[0].when[0].on",
        "spec.candidates[0].actions[0].name",
    ]


def test_actions_and_candidates_exclude_each_other() -> None:
    assert [problem.path for problem in causes(actions=[RESIZE]).problems] == ["spec.actions"]
    assert [problem.path for problem in rule(actions=[]).problems] == ["spec.actions"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("workload/scale", {"step": "1", "min": "5", "max": "3"}),
        (
            "workload/resources",
            {"resource": "memory", "scalepercentage": "50", "min": "2Gi", "max": "1024Mi"},
        ),
        ("workload/resources", {"resource": "cpu", "scalepercentage": "50", "min": "1", "max": "500m"}),
        ("application/redundancy", {"step": "1", "min": "2", "max": "1"}),
        ("volume/setiops", {"scalepercentage": "50", "miniops": "9", "maxiops": "3"}),
    ],
)
def test_a_lower_bound_is_not_above_the_upper_one(name: str, params: dict[str, str]) -> None:
    low, high = (each for each in params if each.startswith(("min", "max")))
    (problem,) = acting(name, **params).problems
    assert problem.path == f"spec.actions[0].params.{low}"
    assert f"must not be above {high}, which is {params[high]}" in problem.message
    assert acting(name, **{**params, low: params[high]}).problems == []
