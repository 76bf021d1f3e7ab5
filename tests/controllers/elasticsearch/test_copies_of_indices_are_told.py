"""The copies that a cluster asks for reach its Pilots without a restart, and the condition Redundant says how far they are."""

from __future__ import annotations

from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot
from pilothouse.api.objects import Tree


def test_from_the_spec_to_the_condition_and_back() -> None:
    harness = ElasticsearchHarness()
    test = harness.add(elastic("test", pools=[pool("data", 2)]))
    harness.run_until_idle(test)
    started = {each.name: each.status["lastStartedTime"] for each in harness.all(Pilot)}
    assert harness.condition(test, "Redundant") == ("", "")

    def ask(tree: Tree) -> None:
        tree["spec"]["redundancy"] = {"copies": 1}

    harness.change(harness.of(ElasticsearchCluster, "test"), ask)
    harness.run_until_idle(test)
    assert [each.at("spec", "elasticsearch", "redundancy") for each in harness.all(Pilot)] == [
        {"copies": 1}
    ] * 2
    assert harness.condition(test, "Redundant") == ("False", "NotTakenUp")
    harness.redundancy = {"copies": 1, "indices": [], "kept": False, "message": "Copies are being built."}
    harness.run_until_idle(test)
    assert harness.condition(test, "Redundant") == ("False", "CopiesMissing")
    harness.redundancy = {"copies": 1, "indices": [], "kept": True, "message": "1 index has 1 copy each."}
    harness.run_until_idle(test)
    assert harness.condition(test, "Redundant") == ("True", "CopiesKept")
    assert {each.name: each.status["lastStartedTime"] for each in harness.all(Pilot)} == started

    harness.redundancy = None
    harness.change(harness.of(ElasticsearchCluster, "test"), lambda tree: tree["spec"].pop("redundancy"))
    harness.run_until_idle(test)
    assert harness.condition(test, "Redundant") == ("", "")
    assert not any(each.at("spec", "elasticsearch", "redundancy") for each in harness.all(Pilot))
