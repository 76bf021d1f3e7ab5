"""Notes in the condition Ready of a rule: volumes above maxsize, and other rules on the same volume."""

from __future__ import annotations

from tests.kit.rule_fleet import RuleFleet, claim, rule


def test_volumes_that_are_larger_than_maxsize_are_counted() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50, maxsize="10Gi"))
        fleet.create(claim("small", "8Gi", case="grow"), claim("large", "20Gi", case="grow"))
        fleet.wait(60)
        larger = "2 objects are watched; objects that do not grow, because they are larger than maxsize: 1"
        assert fleet.ready("grow") == ("True", larger)
        fleet.edit("grow", actions=[{**rule("grow", "usage", "Gt", 50)["spec"]["actions"][0]}])
        fleet.wait(60)
        assert fleet.ready("grow") == ("True", "2 objects are watched")


def test_a_volume_that_has_grown_to_maxsize_is_not_above_it_until_it_is_grown_by_hand() -> None:
    with RuleFleet() as fleet:
        fleet.create(rule("grow", "usage", "Gt", 50, maxsize="10Gi"), claim("grow", "8Gi"))
        fleet.fill(grow=4.5)
        fleet.wait(300)
        assert fleet.sizes("grow") == ["10Gi"]
        assert fleet.ready("grow") == ("True", "1 object is watched")
        fleet.request("grow", "16Gi")
        fleet.wait(60)
        assert "because they are larger than maxsize: 1" in fleet.ready("grow")[1]


def test_rules_on_the_same_volume_name_each_other() -> None:
    both = rule("both", "usage", "Gt", 90)
    both["spec"]["selector"] = None
    with RuleFleet() as fleet:
        fleet.create(both, rule("one", "usage", "Gt", 90), rule("two", "usage", "Gt", 90))
        fleet.create(claim("one", "8Gi"), claim("three", "8Gi"))
        fleet.wait(60)
        shared = "other rules select one of them too, and the heavier acts: "
        assert fleet.ready("one") == ("True", f"1 object is watched; {shared}both")
        assert fleet.ready("both") == ("True", f"2 objects are watched; {shared}one")
        assert fleet.ready("two")[0] == "False"


def test_of_many_rules_on_a_volume_five_are_named() -> None:
    with RuleFleet() as fleet:
        for number in range(8):
            every = rule(f"r{number}", "usage", "Gt", 90)
            every["spec"]["selector"] = None
            fleet.create(every)
        fleet.create(claim("data", "8Gi"))
        fleet.wait(60)
        assert fleet.ready("r0")[1].endswith(": r1, r2, r3, r4, r5 and others")
        assert fleet.ready("r7")[1].endswith(": r0, r1, r2, r3, r4 and others")
