"""Unit tests of rules: series and objects in, states and actions at certain times out."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
import yaml

from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.rule_fixtures import FixtureError, FixtureOutcome, expanded, run_fixtures

GIB = 1024**3


def rule(
    threshold: str = "50", percentage: str = "50", maxsize: str = "", name: str = "grow", **fields: Any
) -> RuleTerms:
    params = {"scalepercentage": percentage, **({"maxsize": maxsize} if maxsize else {})}
    spec = {
        "conditions": {
            "for": 30,
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": [threshold]}],
        },
        "actions": [{"name": "openstorage.io.action.volume/resize", "params": params}],
        "pollInterval": 10,
        "actionsCoolDownPeriod": 60,
        **fields,
    }
    return RuleTerms(name, 1, msgspec.convert(spec, AutopilotRuleSpec))


def series(name: str, values: str) -> dict[str, str]:
    return {"series": f'{name}{{namespace="db",persistentvolumeclaim="data"}}', "values": values}


def fixture(used: str, size: int = 8, **fields: Any) -> dict[str, Any]:
    """A volume of so many GiB, of which so much is used, a sample each 15 seconds."""
    return {
        "interval": "15s",
        "input_series": [
            series("kubelet_volume_stats_used_bytes", used),
            series("kubelet_volume_stats_capacity_bytes", f"{size * GIB}x2000"),
        ],
        "objects": [
            {
                "metadata": {"namespace": "db", "name": "data"},
                "spec": {"resources": {"requests": {"storage": f"{size}Gi"}}},
            }
        ],
        **fields,
    }


def expect(time: str, state: str | None = None, actions: list[Any] | None = None) -> dict[str, Any]:
    wanted = {"exp_state": state, "exp_actions": actions}
    return {
        "eval_time": time,
        "object": "db/data",
        **{key: value for key, value in wanted.items() if value is not None},
    }


def run(rules: list[RuleTerms], *tests: dict[str, Any]) -> FixtureOutcome:
    return run_fixtures({"tests": list(tests)}, rules)


@pytest.mark.parametrize(
    ("used", "rules", "sizes", "state"),
    [
        pytest.param(8, rule(), ["12Gi", "18Gi"], "Normal", id="px-T1"),
        pytest.param(10, rule(), ["12Gi", "18Gi", "27Gi"], "Normal", id="px-T1-ten"),
        pytest.param(10, rule("85"), ["12Gi"], "Normal", id="px-T2"),
        pytest.param(10, rule(maxsize="20Gi"), ["12Gi", "18Gi", "20Gi"], None, id="px-T3"),
        pytest.param(8, rule(percentage="300"), ["32Gi"], "Normal", id="px-T4"),
    ],
)
def test_volumes_grow_as_in_the_original_cases(
    used: int, rules: RuleTerms, sizes: list[str], state: str | None
) -> None:
    checks = [expect("30m", state, sizes)]
    found = run([rules], fixture(f"{used * GIB}x2000", rule_test=checks))
    assert found == FixtureOutcome(1, ())


def test_exactly_half_is_not_above_half() -> None:
    """px-T8"""
    assert run([rule()], fixture(f"{4 * GIB}x200", rule_test=[expect("30m", "Normal", [])])).mismatches == ()


def test_states_are_those_of_the_live_machine() -> None:
    checks = [
        expect("5s", "Normal", []),
        expect("2m10s", "Triggered", []),
        expect("2m50s", "ActiveActionsTaken", ["12Gi"]),
        expect(
            "5m", "Normal", [{"from": "8Gi", "to": "12Gi", "action": "openstorage.io.action.volume/resize"}]
        ),
    ]
    found = run([rule()], fixture(f"{GIB}x7 {5 * GIB}x100", rule_test=checks))
    assert found == FixtureOutcome(4, ())


def test_timers_end_between_polls_as_they_do_live() -> None:
    checks = [
        expect("29s", "Triggered", []),
        expect("31s", "ActiveActionsInProgress", ["12Gi"]),
        expect("36s", "ActiveActionsTaken", ["12Gi"]),
        expect("94s", "ActiveActionsTaken", ["12Gi"]),
        expect("96s", "Normal", ["12Gi"]),
    ]
    found = run([rule(pollInterval=60)], fixture(f"{5 * GIB}x100", rule_test=checks))
    assert found == FixtureOutcome(5, ())


def test_a_mismatch_says_what_was_expected_and_what_came() -> None:
    found = run(
        [rule()], fixture(f"{5 * GIB}x100", name="full", rule_test=[expect("5m", "Normal", ["10Gi"])])
    )
    assert [(each.test, each.what, each.expected) for each in found.mismatches] == [
        ("full", "actions", ["10Gi"])
    ]
    assert found.mismatches[0].found == [
        {"action": "openstorage.io.action.volume/resize", "from": "8Gi", "to": "12Gi"}
    ]


def test_nothing_happens_without_data_and_the_hold_starts_anew() -> None:
    """px-T18"""
    full = 5 * GIB
    checks = [expect("1m", "Triggered"), expect("9m", "Triggered", []), expect("20m", None, ["12Gi"])]
    found = run(
        [
            rule(
                conditions={
                    "for": 120,
                    "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["50"]}],
                }
            )
        ],
        fixture(f"{full}x4 stale _x35 {full}x100", rule_test=checks),
    )
    assert found.mismatches == ()


def test_an_approval_is_waited_for_unless_the_test_grants_it() -> None:
    """px-D3"""
    asks = rule(enforcement="approvalRequired")
    waits = fixture(f"{5 * GIB}x100", rule_test=[expect("10m", "ActionAwaitingApproval", [])])
    granted = fixture(f"{5 * GIB}x100", approve=True, rule_test=[expect("10m", "Normal", ["12Gi"])])
    assert run([asks], waits, granted) == FixtureOutcome(2, ())


def test_of_two_rules_on_one_object_the_heavier_acts() -> None:
    light, heavy = rule(name="light", percentage="10"), rule(name="heavy", percentage="100", weight=5)
    checks = [
        {"eval_time": "15m", "rule": "light", "object": "db/data", "exp_actions": []},
        {"eval_time": "15m", "rule": "heavy", "object": "db/data", "exp_actions": ["16Gi"]},
    ]
    assert run([light, heavy], fixture(f"{5 * GIB}x200", rule_test=checks)) == FixtureOutcome(2, ())


def test_objects_that_are_not_selected_have_no_state() -> None:
    picky = rule(selector={"matchLabels": {"app": "postgres"}})
    assert run([picky], fixture(f"{5 * GIB}x100", rule_test=[expect("10m", "", [])])).mismatches == ()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 2.5 -3", [1, 2.5, -3]),
        ("0+10x3", [0, 10, 20, 30]),
        ("5-1x2", [5, 4, 3]),
        ("-2+4x1", [-2, 2]),
        ("5x2", [5, 5, 5]),
        ("1 _ 2 _x2 3", [1, None, 2, None, None, 3]),
        ("4e9+1e8x1", [4e9, 4.1e9]),
        ("", []),
    ],
)
def test_series_are_written_as_promtool_reads_them(text: str, values: list[float | None]) -> None:
    assert list(expanded(text)) == values


def test_stale_marks_and_not_a_number_differ() -> None:
    stale, other = list(expanded("stale NaN"))
    assert stale is not None
    assert other is not None
    assert math.isnan(stale)
    assert math.isnan(other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "there is no list of tests"),
        ("tests: [5]", "tests[0]: must be a mapping"),
        ("tests: [{interval: soon}]", "tests[0].interval: 'soon' is not a duration"),
        (
            "tests: [{input_series: [{series: 'a{', values: '1'}]}]",
            "tests[0].input_series[0].series: 'a{' is not",
        ),
        (
            "tests: [{input_series: [{series: a, values: '1y2'}]}]",
            "input_series[0].values: '1y2' is not a value such as",
        ),
        ("tests: [{input_series: [{series: a, values: '1x9999999'}]}]", "more than 5000000 samples"),
        (
            "tests: [{objects: [{metadata: {name: a}}]}]",
            "objects[0].spec.resources.requests.storage: is missing",
        ),
        ("tests: [{objects: [{}]}]", "objects[0].metadata.name: is missing"),
        ("tests: [{objects: {}}]", None),
        ("tests: [{rule_test: [{object: x}]}]", "rule_test[0].object: there is no 'x' among the objects"),
        ("tests: [{rule_test: [{object: x, rule: y}]}]", "rule_test[0].rule: must be one of grow"),
        ("tests: [{rule_test: [{object: x, exp_alerts: []}]}]", "rule_test[0].exp_alerts: not a field"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_path(text: str, message: str | None) -> None:
    tree = yaml.safe_load(text)
    if message is None:
        assert run_fixtures(tree, [rule()]).checks == 0
        return
    with pytest.raises(FixtureError) as caught:
        run_fixtures(tree, [rule()])
    assert message in str(caught.value)
