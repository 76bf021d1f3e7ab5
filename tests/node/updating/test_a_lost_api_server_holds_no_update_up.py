"""The program that is updated may serve the API of its machine: an agent without it finishes what it has begun."""

from __future__ import annotations

from pathlib import Path

from tests.kit.managed_programs import program
from tests.kit.waiting import eventually
from tests.node.updating.machine import UpdatedMachine, updated_machine


async def begin(machine: UpdatedMachine, content: bytes) -> None:
    """Begin an update, and lose the API server when its restart is reported."""

    async def lose() -> None:
        machine.transport.lost = True

    machine.transport.before["Restart"] = lose
    machine.serve("v2.0.0", content)
    await machine.order("v2.0.0")
    await machine.signal()


async def test_an_update_that_fails_is_taken_back_without_it(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await begin(machine, program("v2.0.0", behaviour="crashes"))
        await machine.until_settled()
        assert machine.transport.lost
        assert machine.path.read_bytes() == program("v1.0.0")
        await machine.answers("v1.0.0")
        machine.transport.lost = False
        ended = await machine.until("Failed", "Completed")
        assert ended.status is not None
        assert ended.status.reason == "it ended with exit code 3; back at v1.0.0"
        assert (await machine.noted("Failed"))[-2:] == ["Restart", "Failed"]


async def test_an_update_that_works_is_finished_without_it(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await begin(machine, program("v2.0.0"))
        await machine.answers("v2.0.0")
        await machine.until_settled()
        machine.transport.lost = False
        await machine.until("Completed")
        assert (await machine.noted("Completed"))[-3:] == ["Restart", "UnCordoning", "Completed"]


async def test_an_agent_that_is_started_without_it_finishes_too(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, healthWithin="10m") as machine:
        await begin(machine, program("v2.0.0", behaviour="unhealthy"))
        await machine.answers("v2.0.0")

        async def is_checked() -> bool:
            turn = machine.journal().turn
            return turn is not None and turn.phase == "Checking"

        await eventually(is_checked)
        await machine.stop_agent()
        machine.start_agent(healthWithin="300ms")
        await machine.until_settled()
        await machine.answers("v1.0.0")
        assert machine.transport.lost
        machine.transport.lost = False
        ended = await machine.until("Failed", "Completed")
        assert ended.status is not None
        assert "it is not healthy" in ended.status.reason
