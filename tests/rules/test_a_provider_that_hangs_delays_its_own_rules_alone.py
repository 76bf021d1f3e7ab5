"""Each provider is asked in rounds of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tests.kit.rule_fleet import RuleFleet, claim, rule

from pilothouse.api.kind_names import AutopilotRule
from pilothouse.rules.samples import Answer, Sample


class Hanging:
    """A provider that does not answer before it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.asked = 0
        self.claims: list[str] = []

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        self.asked += 1
        await self.released.wait()
        labels = [{"namespace": "db", "persistentvolumeclaim": name} for name in self.claims]
        return {text: [Sample(each, 90.0, now) for each in labels] for text in expressions}


def test_rules_of_other_providers_go_on_also_when_they_change() -> None:
    stuck = rule("stuck", "usage", "Gt", 50)
    stuck["spec"]["conditions"]["provider"] = "hanging"
    with RuleFleet() as fleet:
        hanging = fleet.volumes.others["hanging"] = Hanging()
        fleet.create(stuck, rule("grow", "usage", "Gt", 50), claim("stuck", "8Gi"), claim("grow", "8Gi"))
        fleet.fill(grow=5, stuck=5)
        fleet.wait(300)
        assert fleet.sizes("grow") == ["12Gi"]
        fleet.edit("grow", conditions={"expressions": [{"key": "usage", "operator": "Gt", "values": ["40"]}]})
        fleet.create(rule("later", "usage", "Gt", 50), claim("later", "8Gi"))
        fleet.fill(later=5)
        fleet.wait(300)
        assert fleet.sizes("grow") == ["12Gi", "18Gi"]
        assert fleet.sizes("later") == ["12Gi"]
        assert hanging.asked == 1, "it is not asked again before it has answered"
        assert fleet.sizes("stuck") == ["8Gi"]


def test_an_answer_that_comes_late_is_about_the_objects_and_rules_of_that_time() -> None:
    late, edited = rule("late", "usage", "Gt", 50), rule("edited", "usage", "Gt", 50)
    gone = rule("gone", "usage", "Gt", 50)
    for each in (late, edited, gone):
        each["spec"]["conditions"]["provider"] = "hanging"
    with RuleFleet() as fleet:
        hanging = fleet.volumes.others["hanging"] = Hanging()
        hanging.claims = ["m-late", "m-edited", "m-gone"]
        fleet.create(late, edited, gone, rule("grow", "usage", "Gt", 50), claim("grow", "8Gi"))
        fleet.create(*(claim(f"m-{name}", "8Gi", case=name) for name in ("late", "edited", "gone")))
        fleet.wait(60)
        # They come before the others in the tables, which are built anew for the other provider's rule.
        fleet.create(*(claim(f"a-{number}", "8Gi", case="late") for number in range(3)))
        fleet.edit("edited", selector={"matchLabels": {"case": "nothing"}})
        fleet.delete(AutopilotRule, "gone", "")
        fleet.wait(60)
        hanging.released.set()
        fleet.wait(120)
        names = {f"late/{name}" for name in ("m-late", "a-0", "a-1", "a-2")}
        assert set(fleet.objects()) == {"grow/grow", *names}
        assert [one.at("spec", "object", "name") for one in fleet.actions()] == ["m-late"]
