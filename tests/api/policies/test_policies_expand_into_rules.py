"""Every policy of every module of ours is a rule that an API server accepts and the embedded provider evaluates."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import msgspec
import pytest
from tests.kit.admission import admit

from pilothouse.api.openstorage.actions import ACTIONS
from pilothouse.api.openstorage.aliases import ALIASES
from pilothouse.api.openstorage.rule_kinds import APPLICATION_POLICY, RULE
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.api.policies import module_registry
from pilothouse.api.policies.expansion import expand, rule_name
from pilothouse.api.policies.module_registry import BUILT_IN, InvalidModule, find_module
from pilothouse.api.policies.policy_module import PolicyModule, PolicyTemplate
from pilothouse.api.policies.volume_policies import volume_resize
from pilothouse.rules.promql.queries import compile_query

EVERY = [(module, policy) for module in BUILT_IN for policy in module.policies]
SELECTORS = {
    "selector": {"matchLabels": {"app": "db"}},
    "namespaceSelector": {"matchLabels": {"team": "databases"}},
}


def expanded(module: str, policy: str, parameters: dict[str, str] | None = None, **fields: Any) -> Any:
    each = {"name": policy, "parameters": parameters or {}, **fields}
    return expand("mine", {"application": module, "policies": [each], **SELECTORS})


def spec_of(module: str, policy: str, **parameters: str) -> dict[str, Any]:
    (rule,) = expanded(module, policy, parameters).rules
    return rule.spec  # type: ignore[no-any-return]


@pytest.mark.parametrize(("module", "policy"), EVERY, ids=lambda each: each.name)
def test_the_rule_is_accepted(module: PolicyModule, policy: PolicyTemplate) -> None:
    (rule,) = expanded(module.name, policy.name).rules
    tree = {
        "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
        "kind": "AutopilotRule",
        "metadata": {"name": rule.name},
        "spec": rule.spec,
    }

    found = admit(RULE, tree)

    assert (found.problems, found.unknown) == ([], [])
    assert rule.name == f"mine-{policy.name}"
    assert {name: rule.spec[name] for name in SELECTORS} == SELECTORS


def test_durations_of_part_of_a_second_are_ranges_of_promql() -> None:
    durations = [
        (module, policy, {each.name: f"{int(float(each.default_value.number) * 1000) + 500}ms"})
        for module, policy in EVERY
        for each in policy.parameters
        if each.type == "duration" and each.default_value and each.default_value.number >= 1
    ]
    assert len(durations) > 3
    for module, policy, parameters in durations:
        (rule,) = expanded(module.name, policy.name, parameters).rules
        tree = {
            "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
            "kind": "AutopilotRule",
            "metadata": {"name": rule.name},
            "spec": rule.spec,
        }
        assert admit(RULE, tree).problems == [], (policy.name, parameters)


@pytest.mark.parametrize(("module", "policy"), EVERY, ids=lambda each: each.name)
def test_the_embedded_provider_evaluates_it_and_the_metrics_are_named(
    module: PolicyModule, policy: PolicyTemplate
) -> None:
    spec = msgspec.convert(spec_of(module.name, policy.name), AutopilotRuleSpec)
    expressions = [*spec.conditions.expressions, *(each for one in spec.candidates for each in one.when)]
    texts = [ALIASES[each.key_alias] if each.key_alias else str(each.key) for each in expressions]
    read = {matcher.value for text in texts for matcher in _names(text)}

    assert read <= {metric for source in policy.sources for metric in source.metrics}


def _names(text: str) -> list[Any]:
    selections = compile_query(text).selections
    return [one for each in selections for one in each.selector.matchers if one.label == "__name__"]


@pytest.mark.parametrize(("module", "policy"), EVERY, ids=lambda each: each.name)
def test_defaults_are_within_the_bounds_and_described(module: PolicyModule, policy: PolicyTemplate) -> None:
    assert policy.summary.endswith(".")
    for parameter in policy.parameters:
        assert parameter.summary.endswith(".")
        if parameter.default:
            assert parameter.default_value.text == parameter.default


def test_parameters_arrive_in_conditions_and_actions() -> None:
    spec = spec_of("postgres", "volume-resize", threshold="70", maxsize="400Gi", scalepercentage="25")

    (expression,) = spec["conditions"]["expressions"]
    assert (expression["values"], expression["clearAt"]) == (["70"], "63")
    (action,) = spec["actions"]
    assert action["params"] == {"scalepercentage": "25", "minstep": "1Gi", "maxsize": "400Gi"}


def test_a_latency_is_compared_in_seconds() -> None:
    spec = spec_of("postgres", "slow-volume", latency="25ms")

    assert [each["values"] for each in spec["conditions"]["expressions"]] == [["0.025"], ["0.025"]]
    assert [each["name"] for each in spec["candidates"]] == [
        "reads-at-the-limit",
        "writes-at-the-limit",
        "disk-busy-with-others",
    ]
    assert spec["candidates"][0]["actions"][0]["params"] == {"scalepercentage": "50", "maxiops": "20000"}
    assert spec["candidates"][2]["actions"][0]["params"] == {"tier": "fast"}


def test_classes_are_stepped_along() -> None:
    spec = spec_of("postgres", "slow-volume", classes="bronze,silver,gold")

    assert spec["candidates"][0]["actions"][0]["params"] == {"classes": "bronze,silver,gold", "step": "up"}


@pytest.mark.parametrize(("given", "found"), [("", "approvalRequired"), ("recommend", "recommend")])
def test_held_wal_is_left_to_a_person(given: str, found: str) -> None:
    (rule,) = expanded("postgres", "wal-held", enforcement=given).rules
    assert rule.spec["enforcement"] == found


def test_held_wal_is_never_acted_on_without_asking() -> None:
    (problem,) = expanded("postgres", "wal-held", enforcement="required").problems
    assert (problem.reason, problem.choices) == ("InvalidEnforcement", ("approvalRequired", "recommend"))


def test_a_slot_is_named_by_a_label_value() -> None:
    spec = spec_of("postgres", "wal-held", slot="standby_1")
    assert '{slot_name="standby_1"}' in spec["conditions"]["expressions"][0]["key"]


@pytest.mark.parametrize(
    ("module", "policy", "parameters", "reason", "message"),
    [
        ("postgress", "x", {}, "UnknownModule", "cassandra, elasticsearch, kafka, postgres, redis"),
        (
            "postgres",
            "resize",
            {},
            "UnknownPolicy",
            "volume-resize, time-to-full, slow-volume, quiet-volume, wal-held",
        ),
        ("redis", "volume-resize", {"treshold": "70"}, "UnknownParameter", "threshold, scalepercentage"),
        ("redis", "volume-resize", {"threshold": "170"}, "InvalidParameter", "must be 1 to 99"),
    ],
)
def test_what_there_is_instead_is_said(
    module: str, policy: str, parameters: dict[str, str], reason: str, message: str
) -> None:
    (problem,) = expanded(module, policy, parameters).problems
    assert problem.reason == reason
    assert message in str(problem)


def test_good_policies_are_expanded_beside_bad_ones() -> None:
    policies = [{"name": "volume-resize"}, {"name": "nothing"}]
    found = expand("mine", {"application": "redis", "policies": policies})
    assert [each.policy for each in found.rules] == ["volume-resize"]
    assert [each.path for each in found.problems] == ["spec.policies[1].name"]


def test_mistakes_in_our_own_modules_are_refused_at_admission() -> None:
    tree: dict[str, Any] = {
        "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
        "kind": "ApplicationPolicy",
        "metadata": {"name": "mine"},
        "spec": {
            "application": "postgres",
            "policies": [
                {"name": "volume-resize", "parameters": {"threshold": "eighty"}},
                {"name": "resize"},
            ],
        },
    }
    problems = [str(each) for each in admit(APPLICATION_POLICY, tree).problems]
    assert [each.partition(":")[0] for each in problems] == [
        "spec.policies[0].parameters.threshold",
        "spec.policies[1].name",
    ]
    # A module of another package may be known to the controller-manager alone.
    tree["spec"] = {"application": "memcached", "policies": [{"name": "evictions"}]}
    assert not admit(APPLICATION_POLICY, tree).problems


def test_a_name_that_would_be_too_long_is_shortened() -> None:
    one, other = rule_name("a" * 250, "volume-resize"), rule_name("a" * 250, "time-to-full")
    assert len(one) == len(other) == 253
    assert one != other


MEMCACHED = PolicyModule(name="memcached", summary="memcached", policies=(volume_resize(),))


def _registered(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name, value, module_registry.GROUP)
    monkeypatch.setattr(module_registry, "entry_points", lambda group: [point])
    module_registry.modules.cache_clear()


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    yield
    module_registry.modules.cache_clear()


def test_a_package_adds_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    _registered(monkeypatch, "memcached", f"{__name__}:MEMCACHED")
    assert find_module("memcached") == MEMCACHED
    assert [each.policy for each in expanded("memcached", "volume-resize").rules] == ["volume-resize"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("postgres", f"{__name__}:MEMCACHED", "there is a module postgres already"),
        ("memcached", f"{__name__}:EVERY", "is not a PolicyModule"),
        ("memcached", f"{__name__}:NOTHING", "can't be loaded"),
        ("Bad_Name", f"{__name__}:MEMCACHED", "Bad_Name"),
    ],
)
def test_a_bad_entry_point_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    _registered(monkeypatch, name, value)
    with pytest.raises(InvalidModule, match=message):
        find_module("another")


def test_every_action_of_a_policy_exists() -> None:
    for module, policy in EVERY:
        spec = msgspec.convert(spec_of(module.name, policy.name), AutopilotRuleSpec)
        actions = [*spec.actions, *(each for one in spec.candidates for each in one.actions)]
        assert {each.name for each in actions} <= set(ACTIONS)
