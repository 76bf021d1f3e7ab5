"""ControlNodes whose heartbeat stops get ``Ready`` ``Unknown``, and nothing removes them."""

from __future__ import annotations

import pytest
from tests.kit.plan_fleet import EVERY, PlanFleet, control_node, update

from pilothouse.api.kind_names import ControlNode, Lease
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_micro_time
from pilothouse.controllers.control_node_silence import SILENCE_PERIOD, control_node_silence
from pilothouse.runtime.intents import Intent, RecordEvent, RequeueAfter, SetStatus
from pilothouse.runtime.snapshot import Snapshot, StaticView


class Plane:
    """One ControlNode, whose lease is renewed by hand, and the controller that looks at both."""

    def __init__(self) -> None:
        self.now = self.made = 1_000_000.0
        self.tree: Tree = control_node("c1")
        self.lease: Object | None = None

    def beat(self) -> None:
        self.lease = Object.of(self._lease(), arrived=self.now)

    def start_manager(self) -> None:
        """What a manager reads at its start arrives then."""
        assert self.lease is not None
        self.lease = Object.of(self.lease.tree, arrived=self.now)

    def look(self) -> list[Intent]:
        """Decide once, and write the status."""
        one = Object.of(self.tree, arrived=self.made)
        leases = [self.lease] if self.lease is not None else []
        views = {ControlNode: StaticView([one]), Lease: StaticView(leases)}
        intents = list(control_node_silence(one, Snapshot(views, now=self.now)))
        for each in written(intents):
            self.tree = {**self.tree, "status": each.status}
        return intents

    def _lease(self) -> Tree:
        return {
            "apiVersion": Lease.api_version,
            "kind": "Lease",
            "metadata": {"name": "k0s-ctrl-c1", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "c1", "renewTime": format_micro_time(self.now)},
        }

    @property
    def ready(self) -> Tree:
        return dict(Object.of(self.tree).condition("Ready") or {})


def written(intents: list[Intent]) -> list[SetStatus]:
    return [one for one in intents if isinstance(one, SetStatus)]


def events(intents: list[Intent]) -> list[tuple[str, bool]]:
    """The reasons, and whether each is a warning."""
    return [(one.event, one.warning) for one in intents if isinstance(one, RecordEvent)]


def test_one_that_renews_its_lease_is_ready_and_costs_no_more_writes() -> None:
    plane = Plane()
    plane.beat()
    assert events(plane.look()) == []
    assert plane.ready["status"] == "True"
    for _ in range(20):
        plane.now += 10
        plane.beat()
        assert written(plane.look()) == []


def test_one_that_stops_is_unknown_since_its_last_heartbeat() -> None:
    plane = Plane()
    plane.beat()
    plane.look()
    last = format_micro_time(plane.now)
    plane.now += SILENCE_PERIOD - 1
    [again] = plane.look()
    assert isinstance(again, RequeueAfter)
    assert again.seconds == pytest.approx(1)
    plane.now += 1
    assert events(plane.look()) == [("HeartbeatMissed", True)]
    assert (plane.ready["status"], plane.ready["reason"]) == ("Unknown", "HeartbeatMissed")
    assert plane.ready["message"].startswith(f"no heartbeat since {last}; ")
    assert plane.ready["message"].endswith("run: kubectl delete controlnode c1")
    plane.now += 3600
    assert written(plane.look()) == []
    plane.beat()
    assert events(plane.look()) == [("HeartbeatRenewed", False)]
    assert plane.ready["status"] == "True"


def test_another_leader_does_not_take_it_for_ready_without_a_heartbeat() -> None:
    """What arrives at the start of a manager counts as heard of then."""
    plane = Plane()
    plane.beat()
    plane.now += SILENCE_PERIOD
    plane.look()
    plane.start_manager()
    assert written(plane.look()) == []
    assert plane.ready["status"] == "Unknown"


def test_one_that_never_had_a_lease_is_silent_after_a_while() -> None:
    plane = Plane()
    assert written(plane.look()) == []
    plane.now += SILENCE_PERIOD
    assert len(written(plane.look())) == 1
    assert plane.ready["message"].startswith("no heartbeat was seen; ")


def test_a_plan_that_ends_because_of_it_says_since_when() -> None:
    fleet = PlanFleet(controllers=2)
    silence: Tree = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "HeartbeatMissed",
        "message": "no heartbeat since 2026-01-01T00:00:00.000000Z; its machine does not run",
    }

    def silent(tree: Tree) -> None:
        tree["status"]["conditions"] = [silence]

    machine: Object = fleet.machine("c1")
    fleet.change(machine, silent)
    fleet.not_ready["c1"] = "connection refused"
    fleet.add_plan(update(controllers=EVERY))
    fleet.run()
    assert fleet.state == "InconsistentTargets"
    assert fleet.condition("Failed")[2] == (
        "not every controller is ready: "
        "c1 (connection refused; no heartbeat since 2026-01-01T00:00:00.000000Z)"
    )
