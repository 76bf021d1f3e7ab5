"""``pilothouse policy``, and the commands about rules for ApplicationPolicies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pilothouse.api.policies.module_registry import BUILT_IN
from pilothouse.api.policies.policy_module import PolicyModule
from pilothouse.cli import main
from pilothouse.cli.policy import show

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policies.md").read_text()
EXAMPLE = ROOT / "examples" / "application-policy.yaml"
GIB = 2**30


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def printed(*words: str) -> str:
    found = run(*words)
    assert found.exit_code == 0, found.output
    return found.stdout


COMMANDS = re.findall(r"```console\n\$ pilothouse (policy .+)\n((?:(?!```).*\n)*)```", PAGE)


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_the_page_shows_what_commands_print(command: str, output: str) -> None:
    assert printed(*command.split()) == output


def test_the_page_names_each_flag_of_show() -> None:
    table = PAGE.partition("| flag of `policy show` |")[2].partition("\n\n")[0]
    real = {name for each in show.params for name in each.opts if name.startswith("--")}
    assert set(re.findall(r"--[a-z]+", table)) == real - {"--help"}


def test_the_module_on_the_page_works() -> None:
    source = PAGE.partition("```python\n")[2].partition("```")[0]
    found: dict[str, Any] = {}
    exec(compile(source, "docs/policies.md", "exec"), found)
    module = found["MEMCACHED"]
    assert isinstance(module, PolicyModule)
    (policy,) = module.policies
    spec = policy.build({each.name: each.default_value for each in policy.parameters})
    assert spec["actions"][0]["params"] == {"step": "1", "max": "5"}


def test_the_page_has_every_policy() -> None:
    for module in BUILT_IN:
        for policy in module.policies:
            assert f"`{policy.name}`" in PAGE


def test_a_policy_is_shown_with_what_it_needs() -> None:
    text = printed("policy", "show", "postgres", "slow-volume")
    assert re.search(r"latency +duration +25ms +100us to 10s", text)
    assert "prometheus-postgres-exporter: pg_up, pg_stat_database_blk_read_time" in text
    assert "with a file of queries, if there are any: pg_stat_wal_wal_sync_time" in text


def test_all_policies_of_an_application_are_shown() -> None:
    text = printed("policy", "show", "elasticsearch")
    assert [line for line in text.splitlines() if line.startswith("elasticsearch ")] == [
        f"elasticsearch {name}"
        for name in ("volume-resize", "time-to-full", "heap-pressure", "few-copies", "uneven-shards")
    ]


def test_a_rule_is_printed_for_programs() -> None:
    rule = json.loads(
        printed("policy", "show", "kafka", "catching-up", "--set", "threshold=40", "-o", "json")
    )
    assert rule["metadata"]["name"] == "kafka-catching-up"
    assert rule["spec"]["conditions"]["expressions"][0]["values"] == ["40"]
    rules = list(yaml.safe_load_all(printed("policy", "show", "kafka", "-o", "yaml")))
    assert [each["kind"] for each in rules] == ["AutopilotRule"] * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mongodb",), "there is no module 'mongodb'; there are cassandra"),
        (("redis", "faster"), "redis has no policy 'faster'; it has volume-resize"),
        (("redis", "volume-resize", "--set", "threshold=101"), "--set threshold: '101' is more than 99"),
        (("redis", "volume-resize", "--set", "thresh=1"), "it has threshold, scalepercentage"),
        (("redis", "volume-resize", "--set", "threshold"), "is not NAME=VALUE, such as threshold=70"),
        (("redis", "--set", "threshold=1"), "--set needs a POLICY"),
    ],
)
def test_mistakes_are_told(words: tuple[str, ...], message: str) -> None:
    found = run("policy", "show", *words)
    assert found.exit_code != 0
    assert message in found.stderr


def policy_file(folder: Path, application: str, *policies: dict[str, Any]) -> str:
    tree = {
        "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
        "kind": "ApplicationPolicy",
        "metadata": {"name": "mine"},
        "spec": {"application": application, "policies": list(policies)},
    }
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(tree))
    return str(file)


def test_a_file_with_mistakes_is_refused_with_the_path(tmp_path: Path) -> None:
    file = policy_file(tmp_path, "redis", {"name": "volume-resize", "parameters": {"threshold": "x"}})
    for command in (("rule", "test", "--without-server"), ("policy", "test", "--without-server")):
        found = run(*command, file)
        assert found.exit_code == 1
        assert "ApplicationPolicy mine: spec.policies[0].parameters.threshold" in found.stderr


def fixtures(folder: Path, series: dict[str, str], *checks: dict[str, Any]) -> str:
    """A volume of 100 GiB that the pod db-0 mounts."""
    claim = '{namespace="shop",persistentvolumeclaim="data-0"}'
    capacity = f"kubelet_volume_stats_capacity_bytes{claim}"
    test = {
        "name": "recorded",
        "interval": "1m",
        "input_series": [
            {"series": capacity, "values": f"{100 * GIB}x120"},
            *({"series": each, "values": values} for each, values in series.items()),
        ],
        "objects": [
            {
                "metadata": {"namespace": "shop", "name": "data-0"},
                "spec": {"resources": {"requests": {"storage": "100Gi"}}},
            },
            {
                "kind": "Pod",
                "metadata": {"namespace": "shop", "name": "db-0"},
                "spec": {
                    "containers": [{"name": "db"}],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}],
                },
            },
        ],
        "rule_test": [{"object": "shop/data-0", **each} for each in checks],
    }
    file = folder / "fixtures.yaml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    return str(file)


USED = 'kubelet_volume_stats_used_bytes{namespace="shop",persistentvolumeclaim="data-0"}'
POD = 'namespace="shop",pod="db-0"'


def test_cassandra_gets_room_for_compactions(tmp_path: Path) -> None:
    pending = f'cassandra_table_estimated_pending_compactions{{{POD},keyspace="k",table='
    series = {
        USED: f"{60 * GIB}x120",
        # 12 of two tables each: 24 are more than 20.
        f'{pending}"a"}}': "2x30 12x60",
        f'{pending}"b"}}': "2x30 12x60",
    }
    checks = fixtures(
        tmp_path,
        series,
        {"eval_time": "30m", "exp_state": "Normal", "exp_actions": []},
        {"eval_time": "45m", "exp_actions": ["150Gi"]},
    )
    file = policy_file(tmp_path, "cassandra", {"name": "compaction-room"})
    assert printed("rule", "test", file, "--fixtures", checks) == "2 checks, 0 mismatches\n"


def test_kafka_grows_earlier_while_it_catches_up(tmp_path: Path) -> None:
    behind = f"kafka_server_replicamanager_underreplicatedpartitions{{{POD}}}"
    checks = fixtures(
        tmp_path,
        {USED: f"{70 * GIB}x120", behind: "0x30 4x60"},
        {"eval_time": "30m", "exp_state": "Normal", "exp_actions": []},
        {"eval_time": "45m", "exp_actions": ["150Gi"]},
    )
    file = policy_file(tmp_path, "kafka", {"name": "catching-up"})
    assert printed("rule", "test", file, "--fixtures", checks) == "2 checks, 0 mismatches\n"


@pytest.mark.parametrize(
    ("slots", "archiver", "state"),
    [
        pytest.param("0x120", "0x120", "Normal", id="nothing is held"),
        pytest.param("0+200000000x120", "0x120", "ActionAwaitingApproval", id="an idle slot"),
        pytest.param("0x120", "0+1x120", "ActionAwaitingApproval", id="an archiver that fails"),
    ],
)
def test_postgres_is_asked_about_before_it_grows(
    tmp_path: Path, slots: str, archiver: str, state: str
) -> None:
    slot = f'{POD},slot_name="standby"'
    series = {
        f"pg_up{{{POD}}}": "1x120",
        f"pg_replication_slots_pg_wal_lsn_diff{{{slot}}}": slots,
        f"pg_replication_slots_active{{{slot}}}": "0x120",
        f"pg_stat_archiver_failed_count{{{POD}}}": archiver,
        f"pg_stat_archiver_archived_count{{{POD}}}": "7x120",
    }
    checks = fixtures(tmp_path, series, {"eval_time": "60m", "exp_state": state, "exp_actions": []})
    file = policy_file(tmp_path, "postgres", {"name": "wal-held"})
    assert printed("rule", "test", file, "--fixtures", checks) == "1 check, 0 mismatches\n"


def test_a_slot_that_is_read_holds_nothing(tmp_path: Path) -> None:
    slot = f'{POD},slot_name="standby"'
    series = {
        f"pg_up{{{POD}}}": "1x120",
        f"pg_replication_slots_pg_wal_lsn_diff{{{slot}}}": "9000000000x120",
        f"pg_replication_slots_active{{{slot}}}": "1x120",
        f"pg_stat_archiver_failed_count{{{POD}}}": "3x120",
        f"pg_stat_archiver_archived_count{{{POD}}}": "0+1x120",
    }
    checks = fixtures(tmp_path, series, {"eval_time": "60m", "exp_state": "Normal", "exp_actions": []})
    file = policy_file(tmp_path, "postgres", {"name": "wal-held"})
    assert printed("rule", "test", file, "--fixtures", checks) == "1 check, 0 mismatches\n"


def test_policies_that_are_not_modelled_are_left_out_of_fixtures(tmp_path: Path) -> None:
    series = {USED: f"{60 * GIB}x120"}
    check = {"eval_time": "30m", "rule": "mine-volume-resize", "exp_state": "Normal", "exp_actions": []}
    checks = fixtures(tmp_path, series, check)
    file = policy_file(tmp_path, "postgres", {"name": "volume-resize"}, {"name": "slow-volume"})
    done = CliRunner().invoke(main, ["rule", "test", file, "--fixtures", checks])
    assert (done.exit_code, done.stdout) == (0, "1 check, 0 mismatches\n")
    why = "rule mine-slow-volume has candidates, which are not modelled; see `rule test`"
    assert done.stderr == f"warning: {why}; it is left out\n"
    alone = policy_file(tmp_path, "postgres", {"name": "slow-volume"})
    refused = CliRunner().invoke(main, ["rule", "test", alone, "--fixtures", checks])
    assert (refused.exit_code, refused.stderr) == (1, f"Error: {checks}: {why}\n")


@pytest.mark.parametrize("application", [each.name for each in BUILT_IN])
def test_policies_are_backtested(tmp_path: Path, application: str) -> None:
    claim = '{namespace="shop",persistentvolumeclaim="data-0"}'
    lines = []
    for metric, start, step in (
        ("kubelet_volume_stats_capacity_bytes", 10 * GIB, 0.0),
        ("kubelet_volume_stats_used_bytes", 5 * GIB, GIB / 60),
        ("kubelet_volume_stats_available_bytes", 5 * GIB, -GIB / 60),
    ):
        lines.append(f"# TYPE {metric} gauge")
        lines += [f"{metric}{claim} {start + minute * step:.0f} {minute * 60}" for minute in range(240)]
    recording = tmp_path / "recording.txt"
    recording.write_text("\n".join([*lines, "# EOF", ""]))
    file = policy_file(tmp_path, application, {"name": "volume-resize", "parameters": {"threshold": "70"}})

    text = printed("rule", "backtest", file, "--from", str(recording))

    assert "mine-volume-resize over" in text
    assert "shop/data-0: 10Gi -> 15Gi, 1 action, 0 minutes above 95 %" in text
