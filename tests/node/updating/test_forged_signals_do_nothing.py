"""A signal alone does nothing: the Plan has to be there, to run, and to name the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.managed_programs import program
from tests.kit.waiting import eventually
from tests.node.updating.machine import UpdatedMachine, updated_machine

from pilothouse.api.kind_names import Plan


async def no_plan(machine: UpdatedMachine) -> None:
    plan = await machine.order("v2.0.0")
    await machine.api.delete(Plan, "autopilot")
    await machine.signal(plan=plan)


async def another_plan(machine: UpdatedMachine) -> None:
    plan = await machine.order("v2.0.0")
    await machine.order("v2.0.0")
    await machine.signal(plan=plan)


async def another_machine(machine: UpdatedMachine) -> None:
    await machine.order("v2.0.0", named="m2")
    await machine.signal()


async def an_ended_plan(machine: UpdatedMachine) -> None:
    await machine.order("v2.0.0", state="Completed")
    await machine.signal()


async def a_finished_machine(machine: UpdatedMachine) -> None:
    await machine.order("v2.0.0", target="SignalCompleted")
    await machine.signal()


async def another_command(machine: UpdatedMachine) -> None:
    await machine.order("v2.0.0")
    await machine.signal(kind="airgapupdate")


async def a_rollback_that_nobody_ordered(machine: UpdatedMachine) -> None:
    await machine.order("v2.0.0")
    await machine.signal(rollback=True)


@pytest.mark.parametrize(
    "forge",
    [
        no_plan,
        another_plan,
        another_machine,
        an_ended_plan,
        a_finished_machine,
        another_command,
        a_rollback_that_nobody_ordered,
    ],
    ids=lambda forge: str(forge.__name__),
)
async def test_a_forged_signal_does_nothing(tmp_path: Path, forge: object) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0"))
        assert callable(forge)
        await forge(machine)

        async def has_looked_twice() -> bool:
            return machine.plan_reads() >= 2

        await eventually(has_looked_twice)
        assert (await machine.read_signal()).step == ""
        assert machine.server.seen == []
        assert machine.journal().turn is None


async def test_the_plan_may_name_the_machine_after_the_signal(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0"))
        plan = await machine.order("v2.0.0", target="SignalMissingNode")
        await machine.signal()

        async def has_looked() -> bool:
            return machine.plan_reads() >= 1

        await eventually(has_looked)
        commands = plan.thawed()["status"]["commands"]
        commands[0]["k0supdate"]["workers"][0]["state"] = "SignalSent"
        await machine.patch_plan({"commands": commands})
        await machine.until("Completed")
        assert await machine.asked() == "v2.0.0"


async def test_a_signal_that_can_not_be_read_is_ignored_until_a_good_one_comes(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        annotations = {
            "k0sproject.io/autopilot-signal-version": "v2",
            "k0sproject.io/autopilot-signal-data": "{",
        }
        await machine.annotate(annotations)
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("Completed")
        assert await machine.asked() == "v2.0.0"
