"""``pilothouse rule test`` and ``policy test``, as a user runs them."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.running import Server
from tests.kit.prometheus import Prometheus
from tests.kit.steady_prometheus import steady_prometheus
from tests.kit.tools import MissingTool, find

from pilothouse.api.kind_names import PersistentVolumeClaim
from pilothouse.base.clock import SystemClock
from pilothouse.cli import main
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

EXAMPLES = Path(__file__).parents[2] / "examples"
RULE = """
apiVersion: autopilot.libopenstorage.org/v1alpha1
kind: AutopilotRule
metadata: {name: grow}
spec:
  selector: {matchLabels: {app: postgres}}
  conditions:
    expressions:
    - {keyAlias: VolumeUsagePercent, operator: Gt, values: ["50"]}
    - {key: px_volume_capacity_bytes / 1e9, operator: Lt, values: ["400"]}
  actions:
  - {name: openstorage.io.action.volume/resize, params: {maxsize: 1Gi}}
"""


SERIES = (({"volumename": "pv-a"}, "60"), ({"volumename": "pv-b"}, "40"), ({"volumename": "pv-c"}, "70"))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with steady_prometheus(SERIES) as url:
        file = tmp_path_factory.mktemp("config") / "config.yaml"
        file.write_text(f"providers: [{{name: default, type: prometheus, params: 'url={url}'}}]\n")
        yield file


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    file = tmp_path / "rule.yaml"
    file.write_text(RULE)
    return file


def run(*args: object) -> Result:
    return CliRunner().invoke(main, list(map(str, args)), env={"CONFIG_FILE": "", "KUBERNETES_CONFIG": ""})


def test_without_a_server_all_objects_that_series_name_are_shown(
    rule: Path, config: Path, tmp_path: Path
) -> None:
    done = run("rule", "test", rule, "-f", config, "-o", "json", "--without-server")
    assert done.exit_code == 0, done.stderr
    [report] = json.loads(done.stdout)
    assert [(each["name"], each["met"]) for each in report["objects"]] == [
        ("pv-a", True),
        ("pv-b", False),
        ("pv-c", True),
    ]
    assert report["objects"][0]["would"] == "volume/resize maxsize=1Gi"
    assert report["objects"][0]["readings"][0]["values"] == [60]
    assert "the selectors are not looked at" in report["warnings"][0]


def test_the_table_is_for_people(rule: Path, config: Path, tmp_path: Path) -> None:
    done = run("rule", "test", rule, "--autopilot-config", config, "--without-server")
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["OBJECT", "EXPRESSION", "VALUE", "THRESHOLD", "MET"] in lines
    assert ["pv-b", "VolumeUsagePercent", "40", "Gt", "50", "no"] in lines
    assert "would: pv-a: volume/resize maxsize=1Gi" in done.stdout


def test_with_a_server_the_claims_that_the_rule_selects_are_shown(
    rule: Path, config: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Server(tmp_path_factory.mktemp("plane")) as server:
        asyncio.run(_create_claims(server))
        done = run("rule", "test", rule, "-f", config, "--kubeconfig", server.kubeconfig)
        assert done.exit_code == 0, done.stderr
        assert "rule grow: 2 objects" in done.stdout
        assert "would: default/a: volume/resize from 320Mi to 480Mi" in done.stdout
        assert "pv-c" not in done.stdout

        done = run("rule", "test", rule, "--kubeconfig", server.kubeconfig)
        assert done.exit_code == 1
        assert "ProviderUnavailable: no metrics page could be read" in done.stderr


async def _create_claims(server: Server) -> None:
    async with HttpTransport.open(load(server.kubeconfig), SystemClock(), agent="test") as transport:
        api = Api(transport, random.Random(1), manager="test")
        for name, labels in (("a", {"app": "postgres"}), ("b", {"app": "postgres"}), ("c", {})):
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "volumeName": f"pv-{name}",
                "resources": {"requests": {"storage": "320Mi"}},
            }
            tree = {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}
            await api.create(
                PersistentVolumeClaim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **tree}
            )
            status = {"phase": "Bound", "capacity": {"storage": "320Mi"}}
            await api.patch(PersistentVolumeClaim, name, "default", {"status": status}, subresource="status")


def test_a_policy_of_2019_is_translated_and_tested(config: Path, tmp_path: Path) -> None:
    done = run(
        "-f", config, "policy", "test", EXAMPLES / "autopilot" / "policy-example.yaml", "--without-server"
    )
    assert done.exit_code == 0, done.stderr
    assert "kind: AutopilotRule" in done.stdout
    assert "# action.params: --scalefactor 1.3 was never used; a volume grew by 2Gi each time" in done.stdout


def test_the_fixtures_of_the_page_hold(tmp_path: Path) -> None:
    page = (EXAMPLES.parent / "docs" / "rules-metrics.md").read_text()
    fixtures = tmp_path / "fixtures.yaml"
    [block] = (each for each in page.split("```") if each.startswith("yaml\ntests:"))
    fixtures.write_text(block.removeprefix("yaml\n"))
    done = run("rule", "test", EXAMPLES / "postgres-rule.yaml", "--fixtures", fixtures)
    assert (done.exit_code, done.stdout) == (0, "2 checks, 0 mismatches\n")


def test_the_examples_of_fixtures_hold(tmp_path: Path) -> None:
    fixtures = EXAMPLES / "autopilot" / "fixtures-example.yaml"
    done = run("rule", "test", EXAMPLES / "autopilot-rule.yaml", "--fixtures", fixtures)
    assert (done.exit_code, done.stdout) == (0, "5 checks, 0 mismatches\n")


def test_a_mismatch_is_an_exit_code(tmp_path: Path) -> None:
    wrong = tmp_path / "fixtures.yaml"
    text = (EXAMPLES / "autopilot" / "fixtures-example.yaml").read_text()
    wrong.write_text(text.replace("exp_state: Triggered", "exp_state: Normal"))
    done = run("rule", "test", EXAMPLES / "autopilot-rule.yaml", "--fixtures", wrong)
    assert done.exit_code == 1
    assert "shop/data-0 at 7m30s: state: expected Normal, found Triggered" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "document 1 can't be read"),
        ("kind: Pod", "there is no AutopilotRule, no ApplicationPolicy and no StoragePolicy in it"),
        (RULE.replace("Gt", "Above"), "AutopilotRule grow:"),
        (
            RULE.replace("VolumeUsagePercent", "Fullness"),
            "spec.conditions.expressions[0].keyAlias: Unsupported",
        ),
        (
            "kind: AutopilotRule\nmetadata: {name: grow}\nspec: {conditions: [{key: a}]}",
            "spec.conditions: is a list",
        ),
        ("kind: StoragePolicy\nspec: {}", "StoragePolicy: spec.conditions: there are none"),
    ],
)
def test_a_file_that_is_wrong_is_refused(text: str, message: str, tmp_path: Path, config: Path) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(text)
    done = run("rule", "test", file, "-f", config)
    assert done.exit_code == 1
    assert message in done.stderr


def test_without_any_provider_it_says_what_to_give(rule: Path, tmp_path: Path) -> None:
    done = run("rule", "test", rule, "--without-server")
    assert done.exit_code == 1
    assert "name a configuration file with --autopilot-config" in done.stderr


@pytest.mark.long
def test_a_backtest_reads_the_series_of_a_real_prometheus(tmp_path: Path) -> None:
    """Two volumes of 10 GB that fill by 500 MB an hour; one is half full after the first hour."""
    rule = tmp_path / "rule.yaml"
    rule.write_text(RULE.replace("{maxsize: 1Gi}", "{maxsize: 400Gi}"))
    lines = []
    began = int(time.time()) - 12 * 3600
    for name in ("used", "capacity"):
        lines.append(f"# TYPE kubelet_volume_stats_{name}_bytes gauge")
        for claim, first in (("a", 4.5e9), ("b", 1e9)):
            labels = f'namespace="db",persistentvolumeclaim="{claim}"'
            lines += [
                f"kubelet_volume_stats_{name}_bytes{{{labels}}} "
                f"{first + 5e8 * minute / 60 if name == 'used' else 1e10} {began + 60 * minute}"
                for minute in range(11 * 60)
            ]
    lines.append("# TYPE px_volume_capacity_bytes gauge")
    lines += [
        f'px_volume_capacity_bytes{{namespace="db",persistentvolumeclaim="{claim}"}} 1e10 {began + 60 * minute}'
        for claim in "ab"
        for minute in range(11 * 60)
    ]
    with past_of_prometheus(tmp_path, lines) as server:
        done = run("rule", "backtest", rule, "--prometheus", server.url, "--range", "12h", "-o", "json")
        assert done.exit_code == 0, done.output
        [found] = json.loads(done.stdout)
        assert [(each["object"], each["target"]["to"]) for each in found["actions"]] == [
            ("db/a", "14306Mi"),
            ("db/a", "21459Mi"),
            ("db/b", "14306Mi"),
        ]
        hours = [(each["time"] - began) / 3600 for each in found["actions"]]
        assert hours == pytest.approx([1, 6, 8], abs=0.1), "half of 10 GB, of 15 GB, and of 10 GB"


@contextmanager
def past_of_prometheus(folder: Path, lines: list[str]) -> Iterator[Prometheus]:
    """A Prometheus that has these samples."""
    try:
        promtool = find("promtool")
        server = Prometheus("scrape_configs: []\n", folder)
    except MissingTool as missing:
        pytest.skip(str(missing))
    text = folder / "series.om"
    text.write_text("\n".join([*lines, "# EOF", ""]))
    argv = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run(argv, check=True, capture_output=True)
    with server:
        assert server.process is not None
        server.process.wait_until(lambda: bool(server.query("vector(1)")), seconds=60)
        yield server


@pytest.mark.long
def test_a_real_prometheus_is_asked_also_about_the_past(tmp_path: Path) -> None:
    past = int(time.time()) - 4 * 3600
    lines = []
    for name, value in (("px_volume_capacity_bytes", 10e9), ("px_volume_usage_bytes", 4e9)):
        lines.append(f"# TYPE {name} gauge")
        lines += [f'{name}{{volumename="pvc-1"}} {value} {past + 60 * minute}' for minute in range(10)]
    example = (EXAMPLES / "autopilot" / "config-example.yaml").read_text()
    with past_of_prometheus(tmp_path, lines) as server:
        config = tmp_path / "config.yaml"
        config.write_text(example.replace("http://127.0.0.1:9090", server.url))
        policy = EXAMPLES / "autopilot" / "policy-example.yaml"
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(past + 300))
        done = run("-f", config, "policy", "test", policy, "--at", at, "-o", "json", "--without-server")
        assert done.exit_code == 0, done.output
        [report] = json.loads(done.stdout)
        assert [(each["name"], each["met"], each["would"]) for each in report["objects"]] == [
            ("pvc-1", True, "volume/resize scalepercentage=30")
        ]
        assert [each["values"] for each in report["objects"][0]["readings"]] == [[40], [10]]

        done = run("-f", config, "policy", "test", policy, "-o", "json", "--without-server")
        assert json.loads(done.stdout)[0]["objects"] == []
