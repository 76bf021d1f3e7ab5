"""Two policies that would have one volume both ways: the heavier acts, and the other says which one goes first."""

from __future__ import annotations

from typing import Any

from tests.kit.rule_fleet import SPACE, RuleFleet, claim

from pilothouse.api.kind_names import PersistentVolumeClaim, VolumeAttributesClass
from pilothouse.api.openstorage.actions import SET_IOPS
from pilothouse.api.policies.expansion import expand
from pilothouse.sim.modelled_tiers import DRIVER

Json = dict[str, Any]
CLASSES = ("bronze", "silver", "gold")


def policies(**conditions: Json) -> list[Json]:
    """The rules of slow-volume and quiet-volume, each with one condition of the test and without candidates."""
    spec = {
        "application": "postgres",
        "policies": [
            {"name": name, "parameters": {"classes": ",".join(CLASSES)}}
            for name in ("slow-volume", "quiet-volume")
        ],
    }
    found = []
    for rule, condition in zip(expand("both", spec).rules, conditions.values(), strict=True):
        fields = {**rule.spec, "pollInterval": 10, "actionsCoolDownPeriod": 60}
        fields["conditions"] = {"expressions": [condition], "for": 30}
        if "candidates" in fields:
            fields["actions"] = fields.pop("candidates")[0]["actions"]
        metadata = {"name": rule.name}
        found.append(
            {
                "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
                "kind": "AutopilotRule",
                "metadata": metadata,
                "spec": fields,
            }
        )
    return found


def test_the_heavier_acts_and_the_other_waits_and_says_for_which() -> None:
    above: Json = {"key": "usage", "operator": "Gt", "values": ["50"]}
    with RuleFleet(tiers=True) as fleet:
        for name in CLASSES:
            tree = {"metadata": {"name": name}, "driverName": DRIVER, "parameters": {"iops": "100"}}
            fleet.create_any(VolumeAttributesClass, tree)
        made = claim("data", "8Gi")
        made["spec"]["volumeAttributesClassName"] = "silver"
        fleet.create(made)
        fleet.wait(10)
        reported = {"status": {"currentVolumeAttributesClassName": "silver"}}
        fleet.patch(PersistentVolumeClaim, "data", reported, SPACE, subresource="status")
        fleet.create(*policies(slow=above, quiet=above))
        fleet.fill(data=5)
        fleet.wait(45)

        (waits,) = (each for each in fleet.ask("PersistentVolumeClaim", "data")["answer"]
                    if each["rule"] == "both-quiet-volume")  # fmt: skip
        fleet.wait(15)

        assert "both-slow-volume" in waits["waiting"]["message"]
        (action,) = fleet.actions()
        assert (action.spec["rule"], action.spec["action"]) == ("both-slow-volume", SET_IOPS)
        assert action.spec["target"] == {"from": "silver", "to": "gold"}
        _, message = fleet.ready("both-quiet-volume")
        assert "the heavier acts" in message
        assert "both-slow-volume" in message
