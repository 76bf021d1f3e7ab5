"""Rules over recorded series: what they would have done, with the effect of each action."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.cli import main
from pilothouse.rules.backtest import backtest, difference, queries_of
from pilothouse.rules.backtest_page import backtest_page
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.recorded_series import RecordingError, recorded_series
from pilothouse.rules.series_store import WantedSeries

GIB = 1024**3
START = 1_700_000_000


def rule(threshold: str = "80", percentage: str = "50", **fields: Any) -> RuleTerms:
    spec = {
        "conditions": {
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": [threshold]}]
        },
        "actions": [
            {"name": "openstorage.io.action.volume/resize", "params": {"scalepercentage": percentage}}
        ],
        **fields,
    }
    return RuleTerms("grow", 1, msgspec.convert(spec, AutopilotRuleSpec))


def recording(days: int = 2, volumes: int = 1, step: int = 60, resized: bool = False) -> MemorySeries:
    """Volumes of 10 GiB that fill by 3 GiB a day; recorded while, perhaps, another rule resized them."""
    series = MemorySeries()
    times = [(START + second) * 1000 for second in range(0, days * 86400, step)]
    for number in range(volumes):
        labels = {"namespace": "db", "persistentvolumeclaim": f"data-{number}"}
        used = [4 * GIB + 3 * GIB * (time / 1000 - START) / 86400 for time in times]
        capacity = [
            10.0 * GIB * (2 if resized and position > len(times) / 2 else 1) for position in range(len(times))
        ]
        free = [size - full for size, full in zip(capacity, used, strict=True)]
        series.add({"__name__": "kubelet_volume_stats_used_bytes", **labels}, times, used)
        series.add({"__name__": "kubelet_volume_stats_capacity_bytes", **labels}, times, capacity)
        series.add({"__name__": "kubelet_volume_stats_available_bytes", **labels}, times, free)
    return series


def sizes(rules: RuleTerms, series: MemorySeries) -> list[str]:
    return [each.target["to"] for each in backtest([rules], series).actions]


def test_each_action_shows_in_the_series_from_then_on() -> None:
    series = recording()
    found = backtest([rule()], series)
    assert [each.target["to"] for each in found.actions] == ["15Gi"]
    [volume] = found.volumes
    assert (volume.first_size, volume.last_size, volume.actions, volume.minutes_above) == (
        "10Gi",
        "15Gi",
        1,
        0,
    )
    assert sizes(rule(), series) == ["15Gi"], "the recording itself is left as it was"


def test_a_storage_that_refuses_the_second_resize_is_not_asked_for_more() -> None:
    """The runaway of others: each poll requests more than the last, as long as the storage refuses."""
    series = recording(days=6)
    assert sizes(rule(), series) == ["15Gi", "23040Mi", "34560Mi"]
    found = backtest([rule()], series, refuses_after=1)
    assert [(each.target["to"], each.refused) for each in found.actions] == [
        ("15Gi", False),
        ("23040Mi", True),
    ]
    assert found.volumes[0].last_size == "15Gi"
    assert found.volumes[0].minutes_above > 0


def test_without_an_action_it_would_have_been_nearly_full() -> None:
    found = backtest([rule("99.9", enforcement="recommend")], recording())
    assert found.actions == ()
    assert found.minutes_above > 200


def test_a_resize_that_was_recorded_does_not_count() -> None:
    assert sizes(rule(), recording(resized=True)) == ["15Gi"]


def test_room_grows_with_the_capacity() -> None:
    low: dict[str, Any] = {
        "conditions": {
            "expressions": [
                {"key": f"kubelet_volume_stats_available_bytes / {GIB}", "operator": "Lt", "values": ["2"]}
            ]
        }
    }
    assert sizes(rule(**low), recording()) == ["15Gi"]


def test_figures_from_before_an_action_cause_no_other() -> None:
    assert sizes(rule("50", actionsCoolDownPeriod=0), recording(days=1)) == ["15Gi"]


def test_a_volume_that_is_there_under_two_names_counts_once() -> None:
    """Nodes of ours report its figures by claim, and by volume for rules that were written for Portworx."""
    series = recording()
    twin = {"volumename": "pvc-1"}
    times = [(START + second) * 1000 for second in range(0, 2 * 86400, 60)]
    series.add({"__name__": "px_volume_usage_bytes", **twin}, times, [9.9 * GIB] * len(times))
    series.add({"__name__": "px_volume_capacity_bytes", **twin}, times, [10.0 * GIB] * len(times))
    found = backtest([rule()], series)
    assert [(each.name, each.minutes_above) for each in found.volumes] == [("db/data-0", 0)]
    assert found.warnings == ()


def test_two_rules_are_compared() -> None:
    series = recording(volumes=2)
    first, second = backtest([rule()], series), backtest([rule(percentage="100")], series)
    assert difference(first, second) == [
        f"db/data-{number}: 15Gi after 1 action, 20Gi after 1" for number in range(2)
    ]
    assert difference(first, first) == []


def test_a_week_of_a_hundred_volumes_is_one_run() -> None:
    found = backtest([rule(pollInterval=600)], recording(days=7, volumes=100, step=600))
    assert len(found.volumes) == 100
    assert {each.last_size for each in found.volumes} == {"33.8Gi"}


def openmetrics(series: MemorySeries) -> bytes:
    lines = []
    for labels, times, values in series.all():
        pairs = ",".join(f'{key}="{value}"' for key, value in labels.labels.items() if key != "__name__")
        name = labels.labels["__name__"]
        lines += [
            f"{name}{{{pairs}}} {value} {time / 1000}" for time, value in zip(times, values, strict=True)
        ]
    return "\n".join(["# TYPE x gauge", *lines, "# EOF", ""]).encode()


def range_answers(series: MemorySeries) -> bytes:
    result = [
        {
            "metric": dict(labels.labels),
            "values": [
                [time / 1000, str(value)] for time, value in zip(times.tolist(), values.tolist(), strict=True)
            ],
        }
        for labels, times, values in series.all()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


@pytest.mark.parametrize("written", [openmetrics, range_answers])
def test_recordings_are_read_in_both_forms(written: Any) -> None:
    wanted = WantedSeries(queries_of([rule()]))
    read = recorded_series(written(recording()), wanted)
    assert len(read) == 2, "what no rule reads is left out"
    assert sizes(rule(), read) == ["15Gi"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "none of its series is read by a rule"),
        (b"{}", "not an answer of query_range"),
        (b"[[[[", "not an answer of query_range"),
        (b"<html>", "line 1 is not OpenMetrics"),
        (b"kubelet_volume_stats_used_bytes 5\n", "line 1 has no value with a time"),
    ],
)
def test_what_is_no_recording_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        recorded_series(content, WantedSeries(queries_of([rule()])))


def test_the_page_has_a_chart_and_no_script() -> None:
    series = recording(days=1)
    series.add(
        {"__name__": "kubelet_volume_stats_capacity_bytes", "volumename": "<script>"}, [START * 1000], [5.0]
    )
    page = backtest_page([backtest([rule("50")], series)])
    assert "<polyline" in page
    assert 'class="action"' in page
    assert "&lt;script&gt;" in page
    assert "<script" not in page


POLICY = Path(__file__).parents[2] / "examples" / "application-policy.yaml"
SLOW = "rule databases-slow-volume has candidates, which are not modelled; see `rule test`"


def test_rules_that_are_not_modelled_are_left_out(tmp_path: Path) -> None:
    recorded = tmp_path / "series.om"
    recorded.write_bytes(openmetrics(recording(step=300)))
    done = run(POLICY, "--from", recorded)
    assert done.exit_code == 0, done.output
    assert f"{POLICY}: databases-volume-resize over" in done.stdout
    assert "db/data-0: 10Gi -> 15Gi, 1 action, 0 minutes above 95 %" in done.stdout
    assert f"warning: {SLOW}; it is left out" in done.stderr
    (found,) = json.loads(run(POLICY, "--from", recorded, "-o", "json").stdout)
    assert found["rules"] == ["databases-volume-resize"]
    assert f"{SLOW}; it is left out" in found["warnings"]


def test_without_a_rule_that_is_modelled_there_is_no_backtest(tmp_path: Path) -> None:
    recorded, file = tmp_path / "series.om", tmp_path / "policy.yaml"
    recorded.write_bytes(openmetrics(recording(step=300)))
    tree = yaml.safe_load(POLICY.read_text())
    tree["spec"]["policies"] = [each for each in tree["spec"]["policies"] if each["name"] == "slow-volume"]
    file.write_text(yaml.safe_dump(tree))
    done = run(file, "--from", recorded)
    assert (done.exit_code, done.stderr) == (1, f"Error: {SLOW}\n")


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["rule", "backtest", *map(str, args)])


def test_the_command(tmp_path: Path) -> None:
    file, other, recorded = tmp_path / "rule.yaml", tmp_path / "other.yaml", tmp_path / "series.om"
    tree = {
        "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
        "kind": "AutopilotRule",
        "metadata": {"name": "grow"},
        "spec": msgspec.to_builtins(rule().spec),
    }
    file.write_text(json.dumps(tree))
    tree["spec"]["actions"][0]["params"]["scalepercentage"] = "100"
    other.write_text(json.dumps(tree))
    recorded.write_bytes(openmetrics(recording(step=300)))
    done = run(file, other, "--from", recorded, "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "actions: 1 (0.50 a day)" in done.output
    assert "db/data-0: 10Gi -> 15Gi, 1 action, 0 minutes above 95 %" in done.output
    assert "difference: 1 volume" in done.output
    assert "<svg" in (tmp_path / "page.html").read_text()

    config = tmp_path / "config.yaml"
    for field, actions in (("actionsPerHour: 0", 0), ("growthPerDay: 1Gi", 0), ("growthPerDay: 1Ti", 1)):
        config.write_text(f"budget: {{{field}}}")
        limited = json.loads(run(file, "--from", recorded, "-f", config, "-o", "json").stdout)
        assert (field, len(limited[0]["actions"])) == (field, actions)
    config.write_text("budget: {actionsPerHour: -1}")
    assert "budget.actionsPerHour: must be at least 0" in run(file, "--from", recorded, "-f", config).output

    found = json.loads(run(file, "--from", recorded, "-o", "json").stdout)
    assert math.isclose(found[0]["start"], START)
    assert run(file).exit_code == 2
    assert "--range needs --prometheus" in run(file, "--from", recorded, "--range", "1d").output
    assert (
        "is not a duration such as 7d"
        in run(file, "--prometheus", "http://127.0.0.1:1", "--range", "week").output
    )
    assert "can't be read" in run(file, "--prometheus", "http://127.0.0.1:1").output
