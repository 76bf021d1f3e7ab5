"""What `tests.kit.fleet_watch` says about runs in which something has gone wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.fleet_watch import FleetWatch, Probe
from tests.kit.update_fleet import UpdateFleet

from pilothouse.api.k0s.signals import Signal, SignalCommand, SignalStatus, SignalUpdate

UPDATE = SignalCommand(0, k0supdate=SignalUpdate("https://x/v2", "v2"))


@pytest.fixture
def watch(tmp_path: Path) -> FleetWatch:
    return FleetWatch(UpdateFleet(tmp_path, controllers=2, workers=1))


def see(watch: FleetWatch, *steps: str, generation: int = 1, created: str = "2030-01-01T00:00:00Z") -> None:
    for step in steps:
        status = SignalStatus(step, "2030-01-01T00:00:00Z") if step else None
        signal = Signal("id", created, UPDATE, plan_uid="u", generation=generation, status=status)
        metadata = {"name": "worker0", "annotations": signal.annotations()}
        watch.events.append(("nodes", {"metadata": metadata}))


def test_one_turn_is_one_turn_however_often_it_is_written(watch: FleetWatch) -> None:
    see(watch, "", "", "Downloading", "Downloading", "Completed")
    [turn] = watch.turns("worker0")
    assert turn.steps == ("", "Downloading", "Completed")


def test_a_second_signal_of_the_same_run_is_a_second_turn(watch: FleetWatch) -> None:
    see(watch, "", "Downloading", "", "Downloading", "Completed")
    assert [turn.steps for turn in watch.turns("worker0")] == [
        ("", "Downloading"),
        ("", "Downloading", "Completed"),
    ]


def test_a_signal_that_is_replaced_before_the_machine_answers_is_a_second_turn(watch: FleetWatch) -> None:
    see(watch, "")
    see(watch, "", created="2030-01-01T00:00:01Z")
    assert len(watch.turns("worker0")) == 2


def test_a_step_back_shows(watch: FleetWatch) -> None:
    see(watch, "", "Downloading", "Cordoning", "Downloading")
    [turn] = watch.turns("worker0")
    assert turn.steps == ("", "Downloading", "Cordoning", "Downloading")


def test_each_run_has_turns_of_its_own(watch: FleetWatch) -> None:
    see(watch, "", "Completed")
    see(watch, "", "Completed", generation=2)
    assert [turn.generation for turn in watch.turns("worker0")] == [1, 2]


def test_two_hosts_that_are_away_at_once_show(watch: FleetWatch) -> None:
    watch.probes["controller0"] = [Probe(1, True), Probe(2, False), Probe(3, False), Probe(4, True)]
    watch.probes["controller1"] = [Probe(1.5, True), Probe(2.5, False), Probe(3.5, True)]
    assert watch.away_together() == ["controller0 and controller1 at 2.5"]


def test_hosts_that_are_away_one_after_the_other_do_not(watch: FleetWatch) -> None:
    watch.probes["controller0"] = [Probe(1, False), Probe(2, False), Probe(3, True), Probe(4, True)]
    watch.probes["controller1"] = [Probe(1.5, True), Probe(2.5, False), Probe(3.5, False)]
    assert watch.away_together() == []
