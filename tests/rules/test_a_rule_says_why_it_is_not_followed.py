"""The condition Ready of a rule that selects nothing, or whose provider is unknown, away or refuses the query."""

from __future__ import annotations

import pytest
from tests.kit.rule_fleet import RuleFleet, claim, rule
from tests.kit.watched_rules import bound_claim, watched

from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.rules.samples import QueryFailure


def test_a_rule_that_selects_nothing() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("other", "8Gi"))
        fleet.wait(60)
        nothing = "no bound claim has the labels and the namespace that the rule selects"
        assert fleet.reason("grow") == ("False", "NothingSelected")
        assert fleet.ready("grow") == ("False", nothing)
        fleet.create(claim("grow", "8Gi"))
        fleet.wait(60)
        assert fleet.ready("grow") == ("True", "1 object is watched")


def test_a_provider_that_is_not_configured() -> None:
    elsewhere = rule("grow", "usage", "Gt", 50)
    elsewhere["spec"]["conditions"]["provider"] = "elsewhere"
    with RuleFleet() as fleet:
        fleet.create(elsewhere, claim("grow", "8Gi"))
        fleet.fill(grow=7)
        fleet.wait(120)
        assert fleet.reason("grow") == ("False", "UnknownProvider")
        assert fleet.ready("grow")[1] == "there is no provider 'elsewhere' in the configuration"
        assert fleet.state("grow") == "Initializing"
        assert fleet.actions() == []


@pytest.mark.parametrize("reason", ["ProviderUnavailable", "QueryRefused", "NotSupported", "TooManySamples"])
def test_a_query_without_an_answer_stops_its_rule_alone(reason: str) -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.create(rule("small", "capacity", "Lt", 10), claim("small", "8Gi"))
        fleet.volumes.failures["usage"] = QueryFailure(reason, "the provider said so")
        fleet.fill(grow=7)
        fleet.wait(300)
        assert fleet.reason("grow") == ("False", reason)
        assert fleet.ready("grow")[1] == "the provider said so"
        assert fleet.sizes("grow") == ["8Gi"]
        assert fleet.reason("small") == ("True", "Evaluated")
        assert fleet.sizes("small") == ["12Gi"]
        assert fleet.events("RuleCheckFailed") == {"rule: grow: the provider said so": 1}

        fleet.volumes.failures.clear()
        fleet.wait(300)
        assert fleet.reason("grow") == ("True", "Evaluated")
        assert fleet.sizes("grow") == ["12Gi", "18Gi"]


def test_series_that_name_no_object_are_said() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "latency", "Gt", 50), claim("grow", "8Gi"))
        fleet.volumes.series["latency"] = [({"instance": "somewhere"}, 99.0)]
        fleet.wait(120)
        assert "there are series without a label that names an object" in fleet.ready("grow")[1]
        assert fleet.state("grow") == "Initializing"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"conditions": {"expressions": [{"key": "sum(", "operator": "Gt", "values": ["5"]}]}}, "[0].key"),
        ({"conditions": {"expressions": [{"key": "up[5m]", "operator": "Gt", "values": ["5"]}]}}, "[0].key"),
        ({"conditions": {"expressions": [{"keyAlias": "Fullness", "operator": "Gt", "values": ["5"]}]}},
         "[0].keyAlias"),
        ({"conditions": {"expressions": [{"key": "usage", "operator": "Gt", "values": ["half"]}]}},
         "[0].values[0]"),
        ({"actions": [{"name": RESIZE, "params": {"scalepercentage": "0"}}]},
         "spec.actions[0].params.scalepercentage"),
        ({"actions": [{"name": "openstorage.io.action.volume/paint"}]}, "spec.actions[0].name"),
        ({"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}, "spec.selector"),
        ({"pollInterval": "often"}, "spec.pollInterval: "),
    ],
)  # fmt: skip
async def test_what_our_server_refuses_and_another_one_stores(changes: Tree, path: str) -> None:
    """On Kubernetes only the schema is checked: the condition Ready has the path, and other rules go on."""
    trees = [rule("wrong", "usage", "Gt", 50), rule("right", "usage", "Gt", 50)]
    for number, tree in enumerate(trees):
        tree["metadata"] |= {"uid": f"rule-{number}", "generation": 1}
        tree["spec"]["selector"] = None
    trees[0]["spec"] |= changes
    wrong, right = map(Object.of, trees)
    found = await watched([wrong, right], [bound_claim("data")], lambda _: 90.0)
    failure = found.findings(wrong).failure
    assert failure is not None
    assert failure.reason == "Invalid"
    assert path in failure.message
    assert found.findings(right).failure is None
    assert found.named == {"data"}
    assert [each.terms.name for each in found.watch.rules.values()] == ["right"]


@pytest.mark.parametrize(
    "spec",
    [
        {
            "actionWindow": {
                "timezone": "Mars/Crater",
                "windows": [{"startTime": "02:00", "endTime": "04:00"}],
            }
        },
        {"actionWindow": {"timezone": "UTC", "windows": [{"startTime": "25:99", "endTime": "04:00"}]}},
        {"budget": {"growthPerDay": "much"}},
        {"actions": [{"name": RESIZE, "params": {"scalepercentage": "half"}}]},
    ],
    ids=["timezone", "time", "budget", "parameter"],
)
def test_a_rule_that_another_server_has_stored_holds_up_no_other_on_its_objects(spec: Tree) -> None:
    wrong, right = rule("wrong", "usage", "Gt", 50), rule("right", "usage", "Gt", 50)
    for each in (wrong, right):
        each["spec"]["selector"] = None
    wrong["spec"] |= {"weight": 2, "enforcement": "approvalRequired"}
    with RuleFleet() as fleet:
        fleet.create(wrong, right, claim("data", "8Gi"))
        fleet.wait(60)
        before = fleet.objects()["wrong/data"]
        fleet.store("wrong", **spec)
        fleet.fill(data=5)
        fleet.wait(300)
        assert fleet.reason("wrong") == ("False", "Invalid")
        assert fleet.sizes("data") == ["12Gi"]
        assert fleet.objects()["wrong/data"].uid == before.uid, "it is needed when the rule is valid again"
        fleet.edit("wrong", actionWindow=None, budget=None, enforcement="", actions=[{"name": RESIZE}])
        fleet.fill(data=7)
        fleet.wait(300)
        assert fleet.sizes("data") == ["12Gi", "18Gi"]
        assert fleet.actions()[-1].spec["rule"] == "wrong"
