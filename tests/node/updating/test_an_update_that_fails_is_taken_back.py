from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.managed_programs import program
from tests.node.updating.machine import UpdatedMachine, updated_machine

from pilothouse.api.kind_names import Node


async def fail(machine: UpdatedMachine, version: str, content: bytes) -> str:
    """Order a version that does not work; returns the reason of its failure."""
    machine.serve(version, content)
    await machine.order(version)
    await machine.signal()
    ended = await machine.until("Failed", "Completed", "FailedDownload")
    assert ended.step == "Failed"
    assert ended.status is not None
    return ended.status.reason


async def succeed(machine: UpdatedMachine, version: str) -> None:
    machine.serve(version, program(version))
    await machine.order(version)
    await machine.signal()
    ended = await machine.until("Failed", "Completed", "FailedDownload")
    assert ended.step == "Completed", ended


async def test_a_version_that_crashes_is_taken_back(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        reason = await fail(machine, "v2.0.0", program("v2.0.0", behaviour="crashes"))
        assert reason == "it ended with exit code 3; back at v1.0.0"
        assert await machine.asked() == "v1.0.0"
        assert machine.path.read_bytes() == program("v1.0.0")
        assert machine.left_beside() == []


async def test_a_version_that_reports_another_one_is_taken_back_k0s_A24(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        reason = await fail(machine, "v2.0.0", program("v2.0.0", reports="v0.9.0"))
        assert reason == "it reports the version v0.9.0, not v2.0.0; back at v1.0.0"
        assert await machine.asked() == "v1.0.0"
        assert (await machine.noted("Failed"))[-2:] == ["Restart", "Failed"]


async def test_force_tolerates_another_version_k0s_A24(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0", reports="v0.9.0"))
        await machine.order("v2.0.0", forceupdate=True)
        await machine.signal()
        await machine.until("Completed")
        assert await machine.asked() == "v0.9.0"


async def test_a_version_that_stays_unhealthy_is_taken_back(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, healthWithin="300ms") as machine:
        reason = await fail(machine, "v2.0.0", program("v2.0.0", behaviour="unhealthy"))
        assert "it is not healthy" in reason
        assert "not well" in reason
        assert await machine.asked() == "v1.0.0"


async def test_a_version_that_can_not_be_restarted_is_taken_back(tmp_path: Path) -> None:
    async with updated_machine(
        tmp_path, agent=False, run=[], restart=["/bin/sh", "-c", "exit 7"], healthWithin="0s"
    ) as machine:
        machine.start_agent(
            run=[], restart=["/bin/sh", "-c", "echo no such unit >&2; exit 7"], healthWithin="0s"
        )
        reason = await fail(machine, "v2.0.0", program("v2.0.0"))
        assert reason.startswith("it can't be restarted: /bin/sh: no such unit; back at")
        assert machine.path.read_bytes() == program("v1.0.0")


async def test_a_version_that_failed_is_not_tried_again_in_its_run(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        first = await fail(machine, "v2.0.0", program("v2.0.0", behaviour="crashes"))
        requests = len(machine.server.seen)
        await machine.signal()
        again = await machine.until("Failed")
        assert again.status is not None
        assert again.status.reason == first
        assert await machine.noted("Failed") == ["Failed"]
        assert len(machine.server.seen) == requests


async def test_a_machine_that_is_updated_already_has_completed_a_second_signal(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await succeed(machine, "v2.0.0")
        requests = len(machine.server.seen)
        await machine.signal()
        await machine.until("Completed")
        assert await machine.noted("Completed") == ["Completed"]
        assert len(machine.server.seen) == requests


async def test_the_kept_version_is_the_last_one_that_worked(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await succeed(machine, "v2.0.0")
        for version in ("v3.0.0", "v4.0.0"):
            await fail(machine, version, program(version, behaviour="crashes"))
            assert await machine.asked() == "v2.0.0"
        kept = machine.journal().kept
        assert kept is not None
        assert kept.version == "v2.0.0"


async def test_a_broken_program_never_replaces_the_kept_one(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await succeed(machine, "v2.0.0")
        # Somebody installs a broken one by hand.
        await machine.stop_agent()
        await machine.stop_program()
        machine.install(program("v2.1.0", behaviour="crashes"))
        machine.start_agent()
        await fail(machine, "v3.0.0", program("v3.0.0", behaviour="crashes"))
        assert await machine.asked() == "v1.0.0"


async def test_a_rollback_returns_to_the_version_before(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await succeed(machine, "v2.0.0")
        await machine.patch_plan({"rollingBack": True})
        requests = len(machine.server.seen)
        await machine.signal(rollback=True)
        await machine.until("Completed")
        assert await machine.noted("Completed") == [
            "Downloading", "Cordoning", "ApplyingUpdate", "Restart", "UnCordoning", "Completed",
        ]  # fmt: skip
        assert await machine.asked() == "v1.0.0"
        assert len(machine.server.seen) == requests


async def test_a_rollback_of_a_machine_that_failed_has_nothing_to_do(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await fail(machine, "v2.0.0", program("v2.0.0", behaviour="crashes"))
        await machine.patch_plan({"rollingBack": True})
        await machine.signal(rollback=True)
        await machine.until("Completed")
        assert await machine.noted("Completed") == ["Completed"]
        assert await machine.asked() == "v1.0.0"


async def test_a_rollback_of_another_run_is_refused(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await succeed(machine, "v2.0.0")
        await machine.order("v3.0.0", url="http://127.0.0.1:1/")
        await machine.patch_plan({"rollingBack": True})
        await machine.signal(rollback=True)
        ended = await machine.until("Failed")
        assert ended.status is not None
        assert "this run has not updated the machine" in ended.status.reason
        assert await machine.asked() == "v2.0.0"


@pytest.mark.parametrize("step", ["Completed", "Failed"])
async def test_what_was_begun_is_brought_to_an_end_though_its_signal_is_gone(
    tmp_path: Path, step: str
) -> None:
    behaviour = "works" if step == "Completed" else "crashes"
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0", behaviour=behaviour))  # type: ignore[arg-type]
        await machine.order("v2.0.0")
        machine.removes_at = "Restart"
        await machine.signal()
        await machine.until_settled()
        assert await machine.asked() == ("v2.0.0" if step == "Completed" else "v1.0.0")
        assert not (await machine.api.get(Node, "m1")).annotations.get("k0sproject.io/autopilot-signal-data")
