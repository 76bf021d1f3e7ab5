from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.managed_programs import program
from tests.kit.waiting import eventually
from tests.node.updating.machine import NAME, updated_machine

from pilothouse.api.kind_names import ControlNode, Node
from pilothouse.api.objects import Object

CHAIN = ["Downloading", "Cordoning", "ApplyingUpdate", "Restart", "UnCordoning", "Completed"]


async def test_a_worker_takes_every_step_in_order_k0s_A17(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("Completed")
        assert await machine.noted("Completed") == CHAIN
        assert await machine.asked() == "v2.0.0"
        assert machine.path.read_bytes() == program("v2.0.0")
        assert machine.left_beside() == []


async def test_nothing_is_replaced_before_the_leader_has_drained(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.holds = {"Cordoning"}
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("Cordoning")
        assert machine.path.read_bytes() == program("v1.0.0")
        await machine.move("ApplyingUpdate")
        await machine.until("Completed")
        assert await machine.asked() == "v2.0.0"


async def test_a_pure_controller_takes_the_same_steps_and_reports_its_version_k0s_A18(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, mode="controller") as machine:
        machine.holds = {"UnCordoning"}
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("UnCordoning")
        # Whoever sees that the restart is done sees the version, too.
        status = (await machine.api.get(ControlNode, NAME)).status
        assert status["k0sVersion"] == "v2.0.0"
        await machine.move("Completed")
        assert await machine.noted("Completed") == CHAIN


async def test_a_controller_reports_addresses_port_and_version_as_soon_as_its_object_is_there(
    tmp_path: Path,
) -> None:
    async with updated_machine(tmp_path, mode="controller") as machine:

        async def reported() -> Object | None:
            found = await machine.api.get(ControlNode, NAME)
            return found if found.status.get("k0sVersion") else None

        status = (await eventually(reported)).status
        assert status["addresses"] == [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": NAME},
        ]
        assert (status["apiPort"], status["k0sVersion"]) == (7443, "v1.0.0")


async def test_a_machine_at_the_version_is_done_at_once_k0s_A12(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        before = await machine.running()
        machine.serve("v1.0.0", program("v1.0.0"))
        await machine.order("v1.0.0")
        await machine.signal()
        await machine.until("Completed")
        assert await machine.noted("Completed") == ["Completed"]
        after = await machine.running()
        assert before is not None
        assert after is not None
        assert after.pid == before.pid
        assert machine.server.seen == []


async def test_force_updates_a_machine_at_the_version_too_k0s_A12(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        before = await machine.running()
        machine.serve("v1.0.0", program("v1.0.0"))
        await machine.order("v1.0.0", forceupdate=True)
        await machine.signal()
        await machine.until("Completed")
        assert await machine.noted("Completed") == CHAIN
        after = await machine.running()
        assert before is not None
        assert after is not None
        assert after.pid != before.pid


@pytest.mark.parametrize("digest", [str.upper, str.lower, lambda _: None], ids=["upper", "lower", "none"])
async def test_a_hash_may_have_either_case_or_be_absent_k0s_A14(tmp_path: Path, digest: object) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0"))
        assert callable(digest)
        await machine.order("v2.0.0", sha256=digest(machine.digest("v2.0.0")))
        await machine.signal()
        await machine.until("Completed")
        assert await machine.asked() == "v2.0.0"


async def test_a_program_is_restarted_by_its_service_manager(tmp_path: Path) -> None:
    manager = tmp_path / "manager"
    pids = tmp_path / "pids"
    manager.write_text(
        '#!/bin/sh\n[ -f "$3" ] && kill "$(cat "$3")" && while kill -0 "$(cat "$3")" 2>/dev/null; do sleep 0.02; done\n'
        'setsid "$1" serve "$2" >/dev/null 2>&1 &\necho $! >"$3"\n'
    )
    manager.chmod(0o755)
    async with updated_machine(tmp_path, agent=False) as machine:
        restart = [str(manager), "{path}", str(machine.port), str(pids)]
        machine.start_agent(run=[], restart=restart)
        machine.serve("v2.0.0", program("v2.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        try:
            await machine.until("Completed")
            assert await machine.asked() == "v2.0.0"
        finally:
            machine.kill(pids)


async def test_signals_of_controllers_with_pods_are_on_the_control_node_alone(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, mode="controller+worker") as machine:
        machine.serve("v2.0.0", program("v2.0.0"))
        machine.serve("bundle.tar", b"images")
        await machine.order("v2.0.0")
        await machine.signal(noun=Node)
        await machine.signal()
        await machine.until("Completed")
        assert (await machine.read_signal(Node)).step == ""
        await machine.order("bundle.tar", kind="airgapupdate")
        await machine.signal(kind="airgapupdate", noun=Node)
        await machine.until("Completed", noun=Node)
        assert (machine.images / "bundle.tar").read_bytes() == b"images"


async def test_a_newer_signal_replaces_one_that_waits(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.holds = {"Cordoning"}
        machine.serve("v2.0.0", program("v2.0.0"))
        machine.serve("v3.0.0", program("v3.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("Cordoning")
        machine.holds = set()
        await machine.order("v3.0.0")
        await machine.signal()
        await machine.until("Completed")
        assert await machine.asked() == "v3.0.0"
        assert machine.left_beside() == []


async def test_a_download_ends_when_its_signal_is_withdrawn(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.serve("v2.0.0", program("v2.0.0"), stall_after=10)
        machine.serve("v3.0.0", program("v3.0.0"))
        await machine.order("v2.0.0")
        await machine.signal()
        await machine.until("Downloading")
        await machine.order("v3.0.0")
        await machine.signal()
        await machine.until("Completed")
        assert await machine.asked() == "v3.0.0"
        assert machine.left_beside() == []
