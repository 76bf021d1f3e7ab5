"""Candidates: causes that are looked for along the chain once the conditions hold; and rules about other objects than volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.rule_fleet import SPACE, RuleFleet, claim, rule

from pilothouse.api.kind_names import ActionApproval
from pilothouse.api.openstorage.actions import RESIZE

INFO = "pilothouse_volume_info"
SNAPSHOT = "example.com.action.volume/snapshot"


@pytest.fixture
def fleet() -> Iterator[RuleFleet]:
    with RuleFleet() as running:
        running.volumes.series[INFO] = [
            ({"namespace": SPACE, "persistentvolumeclaim": name, "node": "n1", "device": f"loop{number}",
              "disk": "sda", "tier": "fast"}, 1.0)
            for number, name in enumerate(("one", "two"))
        ]  # fmt: skip
        yield running


def expression(key: str, operator: str, value: float, on: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"key": key, "operator": operator, "values": [str(value)]}
    return {**found, "on": on} if on else found


def with_candidates(name: str = "slow") -> dict[str, Any]:
    """Full volumes: snapshot if the disk is busy, grow if it is idle."""
    tree = rule(name, "usage", "Gt", 50)
    del tree["spec"]["actions"]
    tree["spec"]["candidates"] = [
        {
            "name": "disk-busy",
            "when": [expression("busy", "Gt", 0.8, "device")],
            "actions": [{"name": SNAPSHOT}],
        },
        {
            "name": "disk-idle",
            "when": [expression("busy", "Lt", 0.2, "device"), expression("usage", "Gt", 10)],
            "actions": [{"name": RESIZE}],
        },
    ]
    return tree


def disk(value: float) -> list[tuple[dict[str, str], float]]:
    return [({"instance": "n1:9100", "device": "sda"}, value)]


def test_the_chain_decides_and_is_recorded(fleet: RuleFleet) -> None:
    fleet.volumes.series["busy"] = disk(0.1)
    fleet.create(with_candidates(), claim("one", "8Gi", case="slow"), claim("two", "8Gi", case="slow"))
    fleet.fill(one=5, two=1)
    fleet.wait(120)
    assert fleet.sizes("one") == ["12Gi"]
    (action,) = fleet.actions()
    assert action.spec["action"] == RESIZE
    chain = [
        (one.get("candidate", ""), one["level"], one["object"], one["value"], one["held"])
        for one in action.spec["cause"]
    ]
    assert chain == [
        ("", "volume", "db/one", "62.5", True),
        ("disk-busy", "device", "n1/sda", "0.1", False),
        ("disk-idle", "device", "n1/sda", "0.1", True),
        ("disk-idle", "volume", "db/one", "62.5", True),
    ]


def test_a_busy_disk_is_the_cause_for_all_volumes_on_it(fleet: RuleFleet) -> None:
    fleet.volumes.series["busy"] = disk(0.9)
    fleet.create(with_candidates(), claim("one", "8Gi", case="slow"), claim("two", "8Gi", case="slow"))
    fleet.fill(one=5, two=5)
    fleet.wait(120)
    assert {(one.at("spec", "object", "name"), one.spec["action"]) for one in fleet.actions()} == {
        ("one", SNAPSHOT),
        ("two", SNAPSHOT),
    }
    assert {one.status["candidate"] for one in fleet.objects().values()} == {"disk-busy"}


def test_none_holds_and_the_link_that_failed_is_named(fleet: RuleFleet) -> None:
    fleet.volumes.series["busy"] = disk(0.5)
    fleet.create(with_candidates("one"), claim("one", "8Gi"))
    fleet.fill(one=5)
    fleet.wait(80)
    assert fleet.state("one") == "ActionsDeclined"
    assert not fleet.actions()
    message = fleet.objects()["one/one"].status["items"][-1]["message"]
    assert "disk-busy: on device n1/sda, busy is 0.5, not Gt 0.8" in message
    assert "disk-idle: on device n1/sda, busy is 0.5, not Lt 0.2" in message
    fleet.volumes.series["busy"] = disk(0.1)
    fleet.wait(180)
    assert fleet.sizes("one") == ["12Gi"]


def test_no_data_does_not_hold_and_says_so(fleet: RuleFleet) -> None:
    fleet.volumes.series["busy"] = []
    fleet.create(with_candidates("one"), claim("one", "8Gi"))
    fleet.fill(one=5)
    fleet.wait(80)
    assert fleet.state("one") == "ActionsDeclined"
    assert "busy has no data" in fleet.objects()["one/one"].status["items"][-1]["message"]


def test_a_question_names_what_the_series_is_about(fleet: RuleFleet) -> None:
    """Such as the replication slot that keeps WAL: growing the volume would hide it."""
    labels = {"namespace": SPACE, "persistentvolumeclaim": "one", "node": "n1", "job": "postgres"}
    fleet.volumes.series["held"] = [
        ({**labels, "slot_name": "standby"}, 9e9),
        ({**labels, "slot_name": "read"}, 10.0),
    ]
    tree = rule("one", "held", "Gt", 1e9)
    tree["spec"]["enforcement"] = "approvalRequired"
    fleet.model(approvals="declined")
    fleet.create(tree, claim("one", "8Gi"))
    fleet.wait(45)
    (asked,) = fleet.list(ActionApproval)
    (preview,) = asked.status["actionPreviews"]
    message = preview["expectedResult"]["Message"]
    assert message.endswith("from 8Gi to 12Gi, because of slot_name standby")
    tree["spec"] |= {"enforcement": "", "actionsCoolDownPeriod": 3600}
    fleet.edit("one", **tree["spec"])
    fleet.wait(90)
    (action,) = fleet.actions()
    assert [(one["series"], one["held"]) for one in action.spec["cause"]] == [
        ({"slot_name": "standby"}, True),
        ({"slot_name": "read"}, False),
    ]


def test_an_answer_has_the_candidates(fleet: RuleFleet) -> None:
    fleet.volumes.series["busy"] = disk(0.1)
    fleet.create(with_candidates("one"), claim("one", "8Gi"))
    fleet.fill(one=5)
    fleet.wait(25)
    (found,) = fleet.ask("PersistentVolumeClaim", "one")["answer"]
    assert found["candidate"] == "disk-idle"
    assert [(one["name"], one.get("holds", False)) for one in found["candidates"]] == [
        ("disk-busy", False),
        ("disk-idle", True),
    ]


def pool(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "pilothouse.io/v1alpha1",
        "kind": "StoragePool",
        "metadata": {"name": name, "labels": {"case": "pools"}},
        "status": {"node": node, "tier": "fast"},
    }


def test_pools_take_turns_and_their_records_are_in_kube_system(fleet: RuleFleet) -> None:
    tree = rule("pools", "deviation", "NotInRange", -20, 20)
    tree["spec"]["actions"] = [{"name": "example.com.action.storagepool/even"}]
    fleet.volumes.series["deviation"] = [({"pool": "n1-fast"}, 30.0), ({"pool": "n2-fast"}, -30.0)]
    fleet.create(pool("n1-fast", "n1"), pool("n2-fast", "n2"), tree)
    fleet.wait(90)
    (action,) = fleet.actions()
    assert action.namespace == "kube-system"
    states = {key: one.status["state"] for key, one in fleet.objects().items()}
    assert sorted(states.values()) == ["ActiveActionsInProgress", "ActiveActionsPending"]
