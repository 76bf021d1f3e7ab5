"""ApplicationPolicies become AutopilotRules that follow them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from tests.kit.controller_harness import WRITES, ControllerHarness, waits

from pilothouse.api.kind_names import ApplicationPolicy, AutopilotRule, AutopilotRuleObject
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.policies import module_registry
from pilothouse.api.policies.policy_module import PolicyModule, PolicyTemplate, RuleFields, Values
from pilothouse.api.policies.policy_parameters import PolicyParameter
from pilothouse.api.policies.rule_fields import action, conditions, expression
from pilothouse.api.policies.rule_fields import rule as rule_of
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_policies import (
    RULE_RESET,
    SILENCE,
    application_policies,
    policies_of_name,
)
from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, Update


def policy_tree(*policies: dict[str, Any], application: str = "postgres", name: str = "orders") -> Tree:
    return {
        "apiVersion": ApplicationPolicy.api_version,
        "kind": ApplicationPolicy.kind,
        "metadata": {"name": name, "uid": f"uid-of-{name}", "generation": 1},
        "spec": {
            "application": application,
            "selector": {"matchLabels": {"app": "postgres"}},
            "policies": list(policies) or [{"name": "volume-resize", "parameters": {"threshold": "70"}}],
        },
    }


def settled(harness: ControllerHarness, policy: Object) -> dict[str, Any]:
    for _ in range(5):
        if not any(isinstance(each, WRITES) for each in harness.step(application_policies, policy)):
            return harness.status(policy)
    raise AssertionError("it writes on and on")


def rule(harness: ControllerHarness, name: str = "orders-volume-resize") -> Object:
    found = harness.get(AutopilotRule, name, "")
    assert found is not None
    return found


def rules(harness: ControllerHarness) -> list[str]:
    return sorted(name for _, name in harness.trees[AutopilotRule])


def ready(status: dict[str, Any]) -> tuple[str, str, str]:
    (condition,) = status["conditions"]
    assert condition["type"] == "Ready"
    return condition["status"], condition["reason"], condition["message"]


@pytest.fixture
def memcached(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of another package, which builds its rules badly from some parameters."""
    point = EntryPoint("memcached", f"{__name__}:MEMCACHED", module_registry.GROUP)
    monkeypatch.setattr(module_registry, "entry_points", lambda group: [point])
    module_registry.modules.cache_clear()
    yield
    module_registry.modules.cache_clear()


def _evictions(values: Values) -> RuleFields:
    span, above = values["over"], values["above"]
    raises = action(RESIZE, scalepercentage=str(1000 / abs(10 - above.number)))
    when = conditions(expression(f"rate(memcached_evictions[{span}s])", "Gt", above))
    return rule_of(
        when, object="volume", actions=(raises,), pollInterval="often" if above.number > 90 else 10
    )


MEMCACHED = PolicyModule(
    name="memcached",
    summary="memcached servers",
    policies=(
        PolicyTemplate(
            name="evictions",
            summary="Grows a volume.",
            build=_evictions,
            parameters=(
                PolicyParameter("over", "duration", "Over which time.", "10m", "1s", "1h"),
                PolicyParameter("above", "count", "How many.", "5", "1", "100"),
            ),
        ),
    ),
)


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


def test_each_policy_becomes_a_rule_that_it_owns(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree({"name": "volume-resize"}, {"name": "slow-volume"}))

    status = settled(harness, policy)

    assert rules(harness) == ["orders-slow-volume", "orders-volume-resize"]
    owner = rule(harness).controller
    assert owner is not None
    assert (owner["kind"], owner["uid"]) == ("ApplicationPolicy", policy.uid)
    assert rule(harness).spec["selector"]["matchLabels"] == {"app": "postgres"}
    assert status["rules"] == [
        {"policy": "volume-resize", "name": "orders-volume-resize"},
        {"policy": "slow-volume", "name": "orders-slow-volume"},
    ]
    assert (status["ruleCount"], status["observedGeneration"]) == (2, 1)
    assert ready(status) == ("True", "Expanded", "rules: orders-slow-volume, orders-volume-resize")


def test_a_rule_follows_the_parameters(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)
    assert rule(harness).spec["conditions"]["expressions"][0]["values"] == ["70"]

    harness.edit(policy, policies=[{"name": "volume-resize", "parameters": {"threshold": "60"}}])
    settled(harness, policy)

    assert rule(harness).spec["conditions"]["expressions"][0]["values"] == ["60"]


def test_a_rule_that_was_edited_by_hand_is_put_right(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)

    def edit(tree: Tree) -> None:
        tree["spec"]["weight"] = 7
        tree["spec"]["actions"][0]["params"]["maxsize"] = "900Ti"
        tree["metadata"]["annotations"] = {"autopilot.libopenstorage.org/paused": "true"}

    harness.change(rule(harness), edit)
    settled(harness, policy)

    assert "weight" not in rule(harness).spec
    assert rule(harness).spec["actions"][0]["params"]["maxsize"] == "1Ti"
    # A pause is nothing that a policy says anything about.
    assert rule(harness).annotations["autopilot.libopenstorage.org/paused"] == "true"


def reset_events(intents: list[Intent]) -> list[tuple[str, str]]:
    found = [each for each in intents if isinstance(each, RecordEvent)]
    assert all((each.event, each.warning) == (RULE_RESET, True) for each in found)
    return [(each.about.kind, each.because) for each in found]


def managed_by(manager: str, second: int, *fields: str) -> Tree:
    owned: Tree = {"f:spec": {f"f:{name}": {} for name in fields}}
    time = f"2026-11-18T12:00:{second:02}Z"
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": owned}


def test_events_on_both_say_what_was_reset_and_where_to_edit(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)

    def edit(tree: Tree) -> None:
        tree["spec"]["weight"] = 7
        tree["metadata"]["managedFields"] = [
            managed_by("pilothouse-controller-manager", 1, "actions", "conditions"),
            managed_by("kubectl-edit", 2, "weight"),
        ]

    harness.change(rule(harness), edit)
    because = (
        "rule orders-volume-resize is as policy volume-resize has it again; reset: weight (changed by "
        "kubectl-edit); edit spec.policies of ApplicationPolicy orders instead"
    )
    assert reset_events(harness.step(application_policies, policy)) == [
        ("AutopilotRule", because),
        ("ApplicationPolicy", because),
    ]
    assert not reset_events(harness.step(application_policies, policy))


def test_a_field_that_was_removed_by_hand_is_reset_with_an_event(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)
    harness.change(rule(harness), lambda tree: tree["spec"].pop("selector"))

    (about_rule, _) = reset_events(harness.step(application_policies, policy))
    assert "reset: selector; edit spec.policies" in about_rule[1]


@pytest.mark.parametrize("what", ["policy", "module"])
def test_a_rule_that_follows_its_policy_is_not_called_reset(harness: ControllerHarness, what: str) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)
    if what == "policy":
        harness.edit(policy, policies=[{"name": "volume-resize", "parameters": {"threshold": "60"}}])
    else:
        # As an earlier version of the module made it.
        def earlier(tree: Tree) -> None:
            tree["spec"]["weight"] = 7
            tree["metadata"]["managedFields"] = [managed_by("pilothouse-controller-manager", 1, "weight")]

        harness.change(rule(harness), earlier)

    intents = harness.step(application_policies, policy)

    assert any(isinstance(each, Update) for each in intents)
    assert not reset_events(intents)


def test_defaults_of_the_server_are_no_difference(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)

    def complete(tree: Tree) -> None:
        # As they come from JSON: equal to the defaults, and not the same objects.
        tree["spec"]["conditions"]["provider"] = "".join(("prome", "theus"))
        tree["spec"] |= {"approvalExpiresAfter": int("86400"), "actionsCoolDownPeriod": int("300")}

    harness.change(rule(harness), complete)
    assert not [each for each in harness.step(application_policies, policy) if isinstance(each, WRITES)]


def test_the_rule_of_a_removed_policy_goes(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree({"name": "volume-resize"}, {"name": "time-to-full"}))
    settled(harness, policy)

    harness.edit(policy, policies=[{"name": "time-to-full"}])
    status = settled(harness, policy)

    assert rules(harness) == ["orders-time-to-full"]
    assert status["ruleCount"] == 1


def test_a_rule_that_was_deleted_comes_back(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)
    del harness.trees[AutopilotRule]["", "orders-volume-resize"]

    settled(harness, policy)

    assert rules(harness) == ["orders-volume-resize"]


def test_a_policy_that_is_being_deleted_makes_no_rules(harness: ControllerHarness) -> None:
    tree = policy_tree()
    tree["metadata"] |= {"deletionTimestamp": format_time(harness.now), "finalizers": ["example.com/x"]}
    policy = harness.add(tree)

    assert harness.step(application_policies, policy) == []


def test_the_rule_of_another_is_not_touched(harness: ControllerHarness) -> None:
    theirs = harness.add(
        {
            "apiVersion": AutopilotRule.api_version,
            "kind": AutopilotRule.kind,
            "metadata": {"name": "orders-volume-resize", "uid": "theirs"},
            "spec": {"conditions": {"expressions": []}},
        }
    )
    policy = harness.add(policy_tree())

    status = settled(harness, policy)

    assert rule(harness).tree["spec"] == theirs.tree["spec"]
    assert (status["rules"], status["ruleCount"]) == ([], 0)
    found, reason, message = ready(status)
    assert (found, reason) == ("False", "NameTaken")
    assert "orders-volume-resize" in message
    # It is looked at again once that rule changes or goes.
    assert list(policies_of_name(theirs, harness.world())) == [("", "orders")]
    del harness.trees[AutopilotRule]["", "orders-volume-resize"]
    assert ready(settled(harness, policy))[0] == "True"


@pytest.mark.parametrize(
    ("application", "policy", "reason", "said"),
    [
        ("mongodb", {"name": "volume-resize"}, "UnknownModule", "there are cassandra, elasticsearch, kafka"),
        ("postgres", {"name": "faster"}, "UnknownPolicy", "slow-volume"),
        ("postgres", {"name": "wal-held", "parameters": {"hold": "1"}}, "UnknownParameter", "it has held"),
        (
            "postgres",
            {"name": "slow-volume", "parameters": {"latency": "1h"}},
            "InvalidParameter",
            "spec.policies[0].parameters.latency: '1h' is more than 10s",
        ),
    ],
)
def test_what_can_not_be_expanded_is_said_with_what_there_is(
    harness: ControllerHarness, application: str, policy: dict[str, Any], reason: str, said: str
) -> None:
    one = harness.add(policy_tree(policy, application=application))

    found, why, message = ready(settled(harness, one))

    assert (found, why) == ("False", reason)
    assert said in message
    assert rules(harness) == []
    assert [each.reason for each in waits(harness.step(application_policies, one))] == [reason]


def test_a_mistake_takes_no_rule_away(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)

    harness.edit(policy, policies=[{"name": "volume-resize", "parameters": {"threshold": "x"}}])

    assert ready(settled(harness, policy))[1] == "InvalidParameter"
    assert rule(harness).spec["conditions"]["expressions"][0]["values"] == ["70"]


def test_it_says_what_its_rules_say(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree())
    settled(harness, policy)
    condition = {"type": "Ready", "status": "False", "reason": "UnknownProvider", "message": "no prometheus"}
    harness.change(rule(harness), lambda tree: tree.update(status={"conditions": [condition]}))

    assert ready(settled(harness, policy)) == (
        "False",
        "UnknownProvider",
        "rule orders-volume-resize: no prometheus",
    )


def test_metrics_that_nobody_has_are_named_with_their_exporter(harness: ControllerHarness) -> None:
    policy = harness.add(policy_tree({"name": "wal-held"}))
    settled(harness, policy)
    mine = rule(harness, "orders-wal-held")
    watched = harness.add(
        {
            "apiVersion": AutopilotRuleObject.api_version,
            "kind": AutopilotRuleObject.kind,
            "metadata": {
                "name": "pvc-1-orders-wal-held",
                "namespace": "shop",
                "ownerReferences": [owner_reference(mine)],
            },
            "status": {
                "state": "Initializing",
                "since": format_time(harness.now),
                "object": {"kind": "PersistentVolumeClaim", "name": "data-0"},
            },
        }
    )
    # A first value may still come.
    assert ready(settled(harness, policy))[0] == "True"
    assert any(isinstance(each, RequeueAfter) for each in harness.step(application_policies, policy))

    harness.now += SILENCE + 1
    found, reason, message = ready(settled(harness, policy))

    assert (found, reason) == ("False", "NoData")
    assert "pg_stat_archiver_failed_count" in message
    assert "of prometheus-postgres-exporter" in message

    harness.change(watched, lambda tree: tree["status"].update(state="Normal"))
    assert ready(settled(harness, policy))[0] == "True"
    assert not any(isinstance(each, RequeueAfter) for each in harness.step(application_policies, policy))


@pytest.mark.parametrize("after", [1, 2, 3])
def test_it_goes_on_after_a_crash(harness: ControllerHarness, after: int) -> None:
    policy = harness.add(policy_tree({"name": "volume-resize"}, {"name": "wal-held"}))
    harness.step(application_policies, policy, crash_after=after)

    assert ready(settled(harness, policy))[0] == "True"
    assert rules(harness) == ["orders-volume-resize", "orders-wal-held"]


@pytest.mark.usefixtures("memcached")
@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"over": "1500ms"}, "spec.conditions.expressions[0].key"),
        ({"above": "10"}, "DivisionByZero"),
        ({"above": "95"}, "pollInterval"),
    ],
)
def test_a_rule_that_a_server_would_refuse_is_not_written_and_said(
    harness: ControllerHarness, parameters: dict[str, str], why: str
) -> None:
    policy = harness.add(policy_tree({"name": "evictions"}, application="memcached"))
    assert ready(settled(harness, policy))[:2] == ("True", "Expanded")
    before = rule(harness, "orders-evictions").tree

    harness.edit(policy, policies=[{"name": "evictions", "parameters": parameters}])
    status, reason, message = ready(settled(harness, policy))

    assert (status, reason) == ("False", "InvalidRule")
    assert "evictions" in message
    assert why in message
    # A mistake takes no protection away.
    assert rule(harness, "orders-evictions").tree == before
