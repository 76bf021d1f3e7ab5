"""What a pilot decides to do next, and what it says of an end: nothing before its Pilot, hooks once, restarts by hash."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.labels import CONFIGURATION
from pilothouse.api.objects import Object
from pilothouse.pilot.driver import DesiredState, Observation
from pilothouse.pilot.instance_lifecycle import (
    ExitPilot,
    InstanceHistory,
    Names,
    RestartInstance,
    RunHook,
    StartDatabase,
    StopDatabase,
    WaitForChange,
    decide,
    gives_up,
)
from pilothouse.pilot.pilot_status import InstanceFacts, pilot_status, worth_writing
from pilothouse.pilot.process_exit import classify_exit

HOOKS: Names = {
    "PreStart": ["WriteConfiguration", "InstallPlugins"],
    "PostStart": ["Greet"],
    "PreStop": ["Flush"],
    "PostStop": ["Sweep"],
}


def desired(hash: str = "a", generation: int = 1, **spec: Any) -> DesiredState:
    return DesiredState(generation, hash, spec)


def prepared() -> InstanceHistory:
    return (
        InstanceHistory().preparing().ran("PreStart", "WriteConfiguration").ran("PreStart", "InstallPlugins")
    )


def running(hash: str = "a") -> InstanceHistory:
    return prepared().launched(desired(hash)).ran("PostStart", "Greet")


def test_nav_P24_nothing_is_started_without_a_pilot() -> None:
    assert decide(InstanceHistory(), None, asked=False, hooks={}) == WaitForChange()


def test_nav_P25_hooks_come_first_then_the_database_then_its_hooks() -> None:
    life = InstanceHistory()
    assert decide(life, desired(), asked=False, hooks=HOOKS) == RunHook("PreStart", "WriteConfiguration")
    life = life.ran("PreStart", "WriteConfiguration")
    assert decide(life, desired(), asked=False, hooks=HOOKS) == RunHook("PreStart", "InstallPlugins")
    assert decide(prepared(), desired(), asked=False, hooks=HOOKS) == StartDatabase()
    life = prepared().launched(desired())
    assert decide(life, desired(), asked=False, hooks=HOOKS) == RunHook("PostStart", "Greet")
    assert decide(running(), desired(), asked=False, hooks=HOOKS) == WaitForChange()


def test_nav_P26_asked_to_stop_it_stops_the_database_and_ends_after_it() -> None:
    assert decide(running(), desired(), asked=True, hooks=HOOKS) == RunHook("PreStop", "Flush")
    life = running().ran("PreStop", "Flush")
    act = decide(life, desired(), asked=True, hooks=HOOKS)
    assert isinstance(act, StopDatabase)
    life = life.halting(act.because).ended(clean=True)
    assert decide(life, desired(), asked=True, hooks=HOOKS) == RunHook("PostStop", "Sweep")
    assert decide(life.ran("PostStop", "Sweep"), desired(), asked=True, hooks=HOOKS) == ExitPilot(0)


def test_nav_P28_what_was_done_is_not_done_again_when_a_later_hook_fails() -> None:
    life = InstanceHistory().preparing().ran("PreStart", "WriteConfiguration")
    assert decide(life, desired(), asked=False, hooks=HOOKS) == RunHook("PreStart", "InstallPlugins")
    assert not gives_up("PreStart", 100, asked=False, urgency=0)


def test_another_configuration_that_comes_before_the_start_is_prepared_for_from_the_beginning() -> None:
    life = InstanceHistory().preparing().preparing_for("a").ran("PreStart", "WriteConfiguration")
    same = life.preparing_for("a")
    assert decide(same, desired("a"), asked=False, hooks=HOOKS) == RunHook("PreStart", "InstallPlugins")
    other = life.preparing_for("b")
    assert decide(other, desired("b"), asked=False, hooks=HOOKS) == RunHook("PreStart", "WriteConfiguration")
    assert running("a").preparing_for("b") == running("a"), "what runs is stopped first"


def test_another_hash_restarts_the_database_in_place_with_all_its_hooks() -> None:
    life = running("a").ran("PreStop", "Flush")
    act = decide(life, desired("b", 2), asked=False, hooks=HOOKS)
    assert isinstance(act, StopDatabase)
    assert "generation 2" in act.because
    life = life.halting(act.because).ended(clean=True).ran("PostStop", "Sweep")
    assert decide(life, desired("b", 2), asked=False, hooks=HOOKS) == RestartInstance()
    life = life.anew()
    assert decide(life, desired("b", 2), asked=False, hooks=HOOKS) == RunHook(
        "PreStart", "WriteConfiguration"
    )
    assert life.starts == 1


def test_the_same_hash_in_a_newer_generation_is_no_reason_to_restart() -> None:
    assert decide(running("a"), desired("a", 9), asked=False, hooks=HOOKS) == WaitForChange()


def test_what_its_cluster_has_not_written_is_no_reason_to_restart() -> None:
    edited = Object(Pilot, {"metadata": {"name": "a", "annotations": {CONFIGURATION: "a"}}, "spec": {}})
    theirs = DesiredState.of(edited)
    assert not theirs.vouched
    assert decide(running("a"), theirs, asked=False, hooks=HOOKS) == WaitForChange()
    ours = DesiredState.of(Object(Pilot, {"metadata": {"name": "a"}, "spec": {}}))
    assert ours.vouched, "it is nobody's but its author's"
    assert isinstance(
        decide(running("a").ran("PreStop", "Flush"), ours, asked=False, hooks=HOOKS), StopDatabase
    )
    assert decide(prepared(), theirs, asked=False, hooks=HOOKS) == StartDatabase(), (
        "it starts with what there is"
    )


def test_it_is_told_for_as_long_as_the_database_goes_on_without_it() -> None:
    theirs = DesiredState(2, "b", {}, vouched=False)
    status = pilot_status(pilot(), known(life=running("a"), desired=theirs), 0.0)
    assert conditions(status)["EditedByHand"] == "True"
    status = pilot_status(pilot(**status), known(life=running("a"), desired=desired("a", 3)), 0.0)
    assert "EditedByHand" not in conditions(status)


def test_a_pilot_that_is_deleted_leaves_the_database_running() -> None:
    assert decide(running(), None, asked=False, hooks=HOOKS) == WaitForChange()


def test_a_database_that_ends_by_itself_ends_the_pilot_with_a_code() -> None:
    life = running().ended(clean=False).ran("PostStop", "Sweep")
    assert decide(life, desired(), asked=False, hooks=HOOKS) == ExitPilot(1)


@pytest.mark.parametrize(("asked", "then"), [(False, RestartInstance()), (True, ExitPilot(1))])
def test_who_ends_while_it_is_prepared_for_its_stop_is_prepared_no_further(
    asked: bool, then: RestartInstance | ExitPilot
) -> None:
    life = running("a").halting("its configuration has changed").ended(clean=False)
    assert decide(life, desired("b", 2), asked=asked, hooks=HOOKS) == RunHook("PostStop", "Sweep")
    assert decide(life.ran("PostStop", "Sweep"), desired("b", 2), asked=asked, hooks=HOOKS) == then


def test_a_database_that_had_to_be_killed_is_told_by_the_code() -> None:
    life = running().halting("stop").ended(clean=False).ran("PostStop", "Sweep")
    assert decide(life, desired(), asked=True, hooks=HOOKS) == ExitPilot(1)


def test_on_the_way_to_the_end_a_hook_that_fails_is_given_up() -> None:
    assert not gives_up("PreStop", 1, asked=True, urgency=1)
    assert gives_up("PreStop", 1, asked=True, urgency=2)
    assert gives_up("PreStop", 3, asked=True, urgency=1)


@pytest.mark.parametrize(
    ("returncode", "asked_by", "clean", "code", "signal"),
    [
        (0, 15, True, 0, ""),
        (143, 15, True, 143, ""),
        (-15, 15, True, None, "SIGTERM"),
        (-9, 15, False, None, "SIGKILL"),
        (0, None, False, 0, ""),
        (137, None, False, 137, ""),
        (-11, None, False, None, "SIGSEGV"),
    ],
)
def test_an_end_is_clean_if_it_was_asked_for_and_orderly(
    returncode: int, asked_by: int | None, clean: bool, code: int | None, signal: str
) -> None:
    exit = classify_exit(returncode, asked_by=asked_by, clean_codes=(0,), now=0.0)
    assert (exit.clean, exit.code, exit.signal) == (clean, code, signal)


def test_a_kill_for_want_of_memory_says_what_helps() -> None:
    exit = classify_exit(-9, asked_by=None, clean_codes=(0,), now=0.0, out_of_memory=True, log=["last"])
    assert "memory limit" in exit.sentence
    assert exit.tree()["outOfMemory"] is True
    assert exit.tree()["log"] == ["last"]


def pilot(**status: Any) -> Object:
    tree = {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": {"name": "es-demo-data-0", "namespace": "default", "generation": 1},
        "spec": {},
    }
    return Object(Pilot, {**tree, "status": status})


def known(**fields: Any) -> InstanceFacts:
    defaults: dict[str, Any] = {
        "life": running(),
        "desired": desired(),
        "application": "elasticsearch",
        "pid": 7,
    }
    return InstanceFacts(**{**defaults, **fields})


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


def test_a_pilot_that_was_taken_for_silent_says_anew_that_it_is_ready() -> None:
    before = pilot(
        conditions=[{"type": "Ready", "status": "Unknown"}, {"type": "PodPresent", "status": "True"}]
    )
    status = pilot_status(before, known(observation=Observation(ready=True)), 10.0)
    assert conditions(status) == {
        "Ready": "True",
        "PodPresent": "True",
        "Started": "True",
        "Stopped": "False",
    }
    assert worth_writing(before.status, status, since=0.0)


def test_decommissioned_is_said_of_this_generation_once_nothing_is_left() -> None:
    leaving = desired(generation=4, decommission=True)
    full, empty = Observation(ready=True, left="2 shards"), Observation(ready=True, left="")
    status = pilot_status(pilot(), known(desired=leaving, observation=full, observed=4), 0.0)
    assert conditions(status)["Decommissioned"] == "False"
    status = pilot_status(pilot(), known(desired=leaving, observation=empty, observed=4), 0.0)
    said = next(each for each in status["conditions"] if each["type"] == "Decommissioned")
    assert (said["status"], said["observedGeneration"]) == ("True", 4)
    status = pilot_status(pilot(**status), known(desired=desired(generation=5)), 0.0)
    assert "Decommissioned" not in conditions(status)


@pytest.mark.parametrize(
    ("left", "observed"), [pytest.param(None, 4, id="nobody-looked"), pytest.param("", 3, id="seen-before")]
)
def test_what_was_seen_before_a_decommission_does_not_count_for_it(left: str | None, observed: int) -> None:
    leaving = desired(generation=4, decommission=True)
    seen = Observation(ready=True, left=left)
    status = pilot_status(pilot(), known(desired=leaving, observation=seen, observed=observed), 0.0)
    assert conditions(status)["Decommissioned"] == "False"


def test_an_empty_instance_that_stops_is_still_empty() -> None:
    leaving = desired(generation=4, decommission=True)
    empty = Observation(ready=True, left="")
    status = pilot_status(pilot(), known(desired=leaving, observation=empty, observed=4), 0.0)
    stopped = known(desired=leaving, life=running().halting("its pod goes").ended(clean=True))
    assert conditions(pilot_status(pilot(**status), stopped, 1.0))["Decommissioned"] == "True"
    again = known(desired=desired(generation=6, decommission=True), life=stopped.life)
    assert conditions(pilot_status(pilot(**status), again, 1.0))["Decommissioned"] == "False"


def test_another_number_of_documents_alone_waits_for_a_while() -> None:
    def seen(documents: int) -> dict[str, Any]:
        observation = Observation(ready=True, status={"documents": documents})
        return pilot_status(pilot(), known(observation=observation), 0.0)

    assert not worth_writing(seen(1), seen(2), since=5.0)
    assert worth_writing(seen(1), seen(2), since=60.0)


def test_facts_of_the_whole_cluster_go_with_the_lead() -> None:
    facts = {"health": "Green", "observedTime": "2026-01-01T00:00:00Z"}
    status = pilot_status(pilot(), known(cluster=facts), 0.0)
    assert status["elasticsearch"]["cluster"] == facts
    assert "cluster" not in pilot_status(pilot(**status), known(), 0.0).get("elasticsearch", {})
