"""A rule may have the longest name that the API allows: names that are derived from it are shortened."""

from __future__ import annotations

from tests.kit.rule_fleet import RuleFleet, claim, rule


def test_a_rule_with_the_longest_name_grows_a_volume() -> None:
    long = rule("g" * 253, "usage", "Gt", 50)
    long["spec"]["selector"] = {"matchLabels": {"case": "data"}}
    with RuleFleet() as fleet:
        fleet.create(long, claim("data", "8Gi"))
        fleet.fill(data=5)
        fleet.wait(300)
        assert fleet.sizes("data") == ["12Gi"]
