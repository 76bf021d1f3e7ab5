"""The manifests of the founding documents, mended as `tests.kit.seeds` says and pointed at a local server, with real
machines: the plans run to their end, and the UpdateConfigs make plans of what `pilothouse updates serve` offers.

The clocks of the control hosts are set to a Tuesday: the manifests have windows on Tuesdays and Wednesdays from 13:00
to 15:00. All tests use one fleet, each of them other versions.
"""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from tests.kit.fleet_watch import FleetWatch
from tests.kit.managed_programs import program
from tests.kit.seeds import SEEDS
from tests.kit.update_channels import UpdateChannels
from tests.kit.update_fleet import CONTROLLERS, GROUP, MERGE, PLATFORM, Machine, UpdateFleet

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
Json = dict[str, Any]
CONTROL_HOSTS = ("ip-172-31-39-65", "ip-172-31-42-134", "ip-172-31-44-131")
SEED = {seed.file: seed for seed in SEEDS}


class Staging(NamedTuple):
    fleet: UpdateFleet
    channels: UpdateChannels

    def follow(self, file: str) -> str:
        """Create an UpdateConfig of the seed, which follows our server; returns its path."""
        [tree] = SEED[file].mended()
        tree["spec"]["updateServer"] = self.channels.url
        return f"{GROUP}/updateconfigs/{self.fleet.send('POST', f'{GROUP}/updateconfigs', tree)['metadata']['name']}"


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staging]:
    folder = tmp_path_factory.mktemp("staging")
    with UpdateChannels.serving(folder / "updates") as channels:
        authority = f"127.0.0.1={channels.authority}"
        fleet = UpdateFleet(
            folder / "fleet",
            controllers=CONTROL_HOSTS,
            workers=("worker2", "worker3"),
            manager_flags=["--controllers", f"{CONTROLLERS},update-configs", "--update-server-ca", authority],
            agent_flags=["--download-ca", authority],
        )
        fleet.clock_ahead = on_tuesday("13:30") - time.time()
        with fleet:
            labels = {"metadata": {"labels": {"environment": "staging"}}}
            fleet.send("PATCH", "/api/v1/nodes/worker2", labels, MERGE)
            yield Staging(fleet, channels)


def on_tuesday(clock: str, *, weeks: int = 1, days: int = 0) -> float:
    """A time of a coming Tuesday, or days after it."""
    today = datetime.now(UTC)
    tuesday = today + timedelta(days=(1 - today.weekday()) % 7 + 7 * weeks + days)
    hour, minute = map(int, clock.split(":"))
    return tuesday.replace(hour=hour, minute=minute, second=0, microsecond=0).timestamp()


def versions(fleet: UpdateFleet) -> dict[str, str]:
    return {machine.name: machine.version() for machine in fleet.machines}


PLANS = (
    ("plan-static.yaml", "v1.32.4+k0s.0", CONTROL_HOSTS),
    ("plan-selector.yaml", "v1.32.4+k0s.0", ("worker2",)),
    ("plan-every-node.yaml", "v1.32.4+k0s.0", ("worker2", "worker3")),
    ("plan.yaml", "v1.32.5+k0s.0", (*CONTROL_HOSTS, "worker2")),
)
"""Workers after controllers: a plan that would make them newer ends with a warning."""


def test_the_plans_of_the_seed_complete(staging: Staging) -> None:
    fleet = staging.fleet
    for file, version, updated in PLANS:
        before = versions(fleet)
        fleet.offer(version, program(version))
        fleet.replace(pointed_at(fleet, file, version))
        fleet.completed()
        assert versions(fleet) == before | dict.fromkeys(updated, version), file


def pointed_at(fleet: UpdateFleet, file: str, version: str) -> Json:
    """A plan of the seed: its name, the version and the hash of the payload stand for others in the documents."""
    [plan] = SEED[file].mended()
    [command] = plan["spec"]["commands"]
    plan["metadata"]["name"] = "autopilot"
    payload = fleet.platforms(version)[PLATFORM]
    if "sha256" in command["k0supdate"]["platforms"]["linux-amd64"]:
        payload["sha256"] = hashlib.sha256(program(version)).hexdigest()
    command["k0supdate"] |= {"version": version, "platforms": {PLATFORM: payload}}
    return dict(plan)


def test_an_update_config_of_the_seed_brings_bundles_and_programs(staging: Staging) -> None:
    fleet, version = staging.fleet, "v1.33.0+k0s.0"
    fleet.replace()
    staging.channels.publish("stable", version, program(version), bundle=b"images")
    before = versions(fleet)
    config = staging.follow("updater-config.yaml")
    try:
        fleet.wait(lambda: fleet.answers("GET", f"{GROUP}/plans/autopilot"), "the plan")
        fleet.completed()
    finally:
        fleet.send("DELETE", config)
    assert versions(fleet) == before | dict.fromkeys((*CONTROL_HOSTS, "worker2"), version)
    assert (fleet.machine("worker2").folder / "images" / "bundle.tar").read_bytes() == b"images"
    assert not (fleet.machine("worker3").folder / "images").exists()


def test_two_versions_in_a_row_arrive_unattended_across_the_end_of_a_window(staging: Staging) -> None:
    """What is in progress when the window closes finishes, and nothing begins until it opens again. When the channel
    offers another version later, it follows."""
    fleet, version, later = staging.fleet, "v1.34.0+k0s.0", "v1.34.1+k0s.0"
    fleet.replace()
    fleet.set_clocks(on_tuesday("14:30", weeks=2))
    staging.channels.publish("edge_release", version, program(version))
    first, *others = fleet.machines
    with FleetWatch(fleet) as watch:
        config = staging.follow("update-config.yaml")
        watch.at(lambda view: view.step(first.name) == "Downloading", functools.partial(stop, first))
        fleet.set_clocks(on_tuesday("15:01", weeks=2))
        in_progress = fleet.until(lambda plan: is_waiting(plan, "OutsideWindow"))
        assert states(in_progress)[first.name] == "SignalSent"
        os.kill(agent_pid(first), signal.SIGCONT)
        closed = fleet.until(lambda plan: states(plan)[first.name] == "SignalCompleted")
        assert closed["status"]["state"] in ("Schedulable", "SchedulableWait")
        waiting = fleet.until(lambda plan: plan["status"]["state"] == "Schedulable")
        assert states(waiting) == {first.name: "SignalCompleted"} | {
            each.name: "SignalPending" for each in others
        }
        assert is_waiting(waiting, "OutsideWindow")
        watch.caught_up()
        assert [each.name for each in fleet.machines if watch.turns(each.name)] == [first.name]

        fleet.set_clocks(on_tuesday("13:05", weeks=2, days=1))
        fleet.completed()
        assert set(versions(fleet).values()) == {version}
        fleet.wait(lambda: reason(fleet.send("GET", config)) == "UpToDate", "the config to be up to date")

        staging.channels.publish("edge_release", later, program(later))
        fleet.set_clocks(on_tuesday("13:20", weeks=2, days=1))
        fleet.until(lambda plan: plan["status"].get("observedGeneration") == 2)
        fleet.completed()
        watch.caught_up()
    assert set(versions(fleet).values()) == {later}
    for machine in fleet.machines:
        assert [turn.generation for turn in watch.turns(machine.name)] == [1, 2]
        assert {turn.steps[-1] for turn in watch.turns(machine.name)} == {"Completed"}


def stop(machine: Machine) -> None:
    os.kill(agent_pid(machine), signal.SIGSTOP)


def agent_pid(machine: Machine) -> int:
    assert machine.agent is not None
    return machine.agent.pid


def states(plan: Json) -> dict[str, str]:
    [command] = plan["status"]["commands"]
    return {
        each["name"]: each["state"]
        for part in ("controllers", "workers")
        for each in command["k0supdate"].get(part) or ()
    }


def is_waiting(plan: Json, reason: str) -> bool:
    conditions = plan["status"].get("conditions") or ()
    return any((each["type"], each["reason"]) == ("Progressing", reason) for each in conditions)


def reason(config: Json) -> str:
    conditions = config["status"].get("conditions") or ()
    return next((each["reason"] for each in conditions if each["type"] == "Progressing"), "")
