"""Providers come from Autopilot's configuration file, which is read again when it changes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.rules.providers.autopilot_config import ConfigError, config_of, read_config
from pilothouse.rules.providers.provider_set import ProviderSet, providers_from
from pilothouse.rules.samples import Answer, QueryFailure

ORIGINAL = Path("tests/originals/manifests/openstorage/autopilot-config.yaml")


class Collector:
    """Notes what it is to keep."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def keep(self, expressions: Collection[str]) -> None:
        self.kept = set(expressions)

    async def run(self) -> None: ...

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        return {each: [] for each in expressions}


def kind_of(providers: ProviderSet, name: str) -> str | None:
    found = providers.get(name)
    return found.type if found else None


def write(file: Path, text: str) -> None:
    """As an editor does: another file takes its place."""
    beside = file.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, file)


def test_the_shipped_file_is_read() -> None:
    shipped = yaml.safe_load(yaml.safe_load(ORIGINAL.read_text())["data"]["config.yaml"])
    config = config_of(shipped)
    assert [(each.name, each.type, dict(each.params)) for each in config.providers] == [
        ("default", "prometheus", {"url": "http://px-prometheus:9090"})
    ]
    assert config.warnings == (
        "min_poll_interval: is not used; each rule has its pollInterval, and timers end when they are due",
    )


def test_the_file_of_2019_is_read_and_says_what_it_never_honoured() -> None:
    config = config_of(
        {
            "providers": [{"name": "default", "type": "prometheus", "params": "url=http://h:9090/api/v1"}],
            "poll_rate": "5s",
        }
    )
    assert config.warnings == ("poll_rate: is not used; each rule has its pollInterval",)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], "must be a mapping with providers"),
        ({"provider": []}, "provider: not a field; there are"),
        ({"providers": {}}, None),
        ({"providers": {"a": 1}}, "providers: must be a list"),
        ({"providers": [{"type": "graphite"}]}, "providers[0].type: graphite is not one of prometheus"),
        ({"providers": [{"params": "url"}]}, "providers[0].params: 'url' is not KEY=VALUE"),
        ({"providers": [{"params": 5}]}, "providers[0].params: must be text such as"),
        ({"budget": 5}, "budget: must be a mapping such as {actionsPerHour: 100}"),
        ({"budget": {"perHour": 5}}, "budget.perHour: not a field; there are actionsPerHour,"),
        ({"budget": {"actionsPerHour": "many"}}, "budget.actionsPerHour: Expected `int"),
        ({"budget": {"concurrent": 0}}, "budget.concurrent: must be at least 1, not 0"),
        ({"budget": {"growthPerDay": "much"}}, "budget.growthPerDay: 'much' must be a quantity above zero"),
        ({"providers": [{"name": "a"}, {"name": "a"}]}, "providers[1].name: a is given twice"),
        (
            {"providers": [{"labels": {"volumes": ["x"]}}]},
            "providers[0].labels: Object contains unknown field",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_path(tree: object, message: str | None) -> None:
    if message is None:
        assert config_of(tree).providers == ()
        return
    with pytest.raises(ConfigError) as caught:
        config_of(tree)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("", "url must be such as http://prometheus:9090, not ''"),
        ("url=prometheus:9090", "url must be such as"),
        ("url=http://h:9x", "url must be such as"),
        ("url=http://h,tokenfile=/x", "tokenfile is not one of url,"),
        (
            "url=http://h,ignore_unhealthy_targets=no",
            "ignore_unhealthy_targets must be true or false, not 'no'",
        ),
        ("url=http://h,timeout=1h", "timeout must be a number of seconds"),
    ],
)
def test_parameters_of_a_prometheus_are_checked(tmp_path: Path, params: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"providers": [{"name": "p", "params": params}]}))
    with pytest.raises(ConfigError) as caught:
        providers_from(file, None)
    assert message in str(caught.value)


def test_a_file_that_is_not_yaml_or_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("providers: [")
    with pytest.raises(ConfigError, match="is not YAML"):
        read_config(file)
    file.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_config(file)


def test_without_a_file_the_embedded_one_answers_to_every_name(tmp_path: Path) -> None:
    for file in (None, tmp_path / "autopilot.yaml"):
        collector = Collector()
        providers = providers_from(file, collector)
        providers.keep({"prometheus": ["a"], "mine": ["b"]})
        assert kind_of(providers, "prometheus") == kind_of(providers, "mine") == "embedded"
        assert collector.kept == {"a", "b"}


def test_a_rule_names_a_provider_or_its_type(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "providers: [{name: first, params: 'url=http://a'}, {name: second, params: 'url=http://b'}]"
    )
    providers = providers_from(file, Collector())
    first, second = providers.get("first"), providers.get("second")
    assert first is not None
    assert second is not None
    assert providers.get("prometheus") is first
    assert first.provider is not second.provider
    assert providers.get("other") is None
    assert kind_of(providers, "embedded") == "embedded"


async def test_the_file_is_followed_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    collector = Collector()
    async with providers_from(file, collector) as providers:
        providers.keep({"prometheus": ["a"]})
        assert not providers.refresh()

        write(file, "providers: [{name: p, params: 'url=http://a'}]")
        assert providers.refresh()
        first = providers.get("prometheus")
        assert first is not None
        assert first.type == "prometheus"
        assert collector.kept == set()

        write(file, "providers: [")
        assert not providers.refresh()
        assert "is not YAML" in providers.problem
        assert providers.get("prometheus") is first

        write(file, "providers: [{name: p, params: 'url=http://a'}]")
        assert providers.refresh()
        assert providers.problem == ""
        again = providers.get("prometheus")
        assert again is not None
        assert again.provider is first.provider

        file.unlink()
        assert providers.refresh()
        assert kind_of(providers, "prometheus") == "embedded"
        assert collector.kept == {"a"}


async def test_the_budget_of_all_rules_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    async with providers_from(file, Collector()) as providers:
        assert providers.budget is None
        write(file, "budget: {actionsPerHour: 100, growthPerDay: 2Ti}")
        providers.refresh()
        assert providers.budget == ActionBudget(actions_per_hour=100, growth_per_day="2Ti")
        write(file, "budget: {actionsPerHour: -1}")
        providers.refresh()
        assert providers.problem.endswith("budget.actionsPerHour: must be at least 0, not -1")
        assert providers.budget == ActionBudget(actions_per_hour=100, growth_per_day="2Ti")
        write(file, "providers: []")
        providers.refresh()
        assert providers.budget is None


async def test_a_type_that_is_not_supported_says_so_to_its_rules(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("providers: [{name: dd, type: datadog}, {name: p, params: 'url=http://a'}]")
    providers = providers_from(file, None)
    found = providers.get("dd")
    assert found is not None
    assert await found.provider.query(["x"], 0.0) == {
        "x": QueryFailure("NotSupported", "providers of type datadog are not supported")
    }
