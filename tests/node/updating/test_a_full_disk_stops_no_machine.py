"""A disk that fills up at any point of an update: what runs goes on, the reason is reported, and room is all it takes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.managed_programs import program
from tests.kit.program_trees import entry, installed, payload, stage
from tests.kit.small_disks import small_disk
from tests.kit.waiting import eventually
from tests.node.updating.machine import UpdatedMachine, updated_machine
from tests.node.updating.test_bundles_are_brought_to_machines import bring, bundle_of

from pilothouse.api.k0s.signals import Signal

pytestmark = needs_root
FULL = "No space left on device"
BULK = b"\n#" + b"x" * 100_000


async def update(machine: UpdatedMachine, version: str) -> Signal:
    machine.serve(version, program(version) + BULK)
    await machine.order(version)
    await machine.signal()
    return await machine.until("Completed", "Failed", "FailedDownload")


def reason(signal: Signal) -> str:
    assert signal.status is not None
    return signal.status.reason


async def test_no_room_to_keep_the_version_that_works(tmp_path: Path) -> None:
    # There is room for the program and for the next one, and none for a copy.
    with small_disk(tmp_path / "bin", "256k") as disk:
        async with updated_machine(tmp_path, agent=False, installed=program("v1.0.0") + BULK) as machine:
            machine.start_agent()
            await machine.answers("v1.0.0")
            before = await machine.running()
            ended = await update(machine, "v2.0.0")
            assert (ended.step, reason(ended)) == ("Failed", f"{machine.path} can't be kept: {FULL}")
            after = await machine.running()
            assert before is not None
            assert after is not None
            assert (after.pid, await machine.asked()) == (before.pid, "v1.0.0")
            assert [each.name for each in disk.folder.iterdir()] == ["db"]
            disk.make_room()
            assert (await update(machine, "v2.0.1")).step == "Completed"
            assert await machine.asked() == "v2.0.1"


async def test_no_room_for_the_journal_is_reported_and_waited_out(tmp_path: Path) -> None:
    with small_disk(tmp_path / "updates", "1m") as disk:
        async with updated_machine(tmp_path) as machine:
            disk.fill()
            machine.serve("v2.0.0", program("v2.0.0"))
            await machine.order("v2.0.0")
            await machine.signal()

            async def reported() -> Signal | None:
                found = await machine.read_signal()
                return found if found.status is not None and FULL in found.status.reason else None

            found = await eventually(reported)
            assert found.step == "Downloading"
            assert reason(found) == f"{machine.data / 'program.json'}: {FULL}; trying again"
            assert await machine.asked() == "v1.0.0"
            disk.make_room()
            done = await machine.until("Completed")
            assert reason(done) == ""
            assert await machine.asked() == "v2.0.0"


async def test_no_room_for_the_images_of_a_bundle(tmp_path: Path) -> None:
    with small_disk(tmp_path / "library", "64k") as disk:
        async with updated_machine(tmp_path, images=None) as machine:
            bundle = bundle_of(tmp_path / "one", "x" * 100_000)
            ended = await bring(machine, bundle)
            assert ended.step == "FailedDownload"
            assert FULL in reason(ended)
            assert str(disk.folder) in reason(ended)
            assert await machine.asked() == "v1.0.0"
            assert [each.name for each in machine.data.glob("*bundle*")] == ["bundle.json"]
            disk.make_room()
            assert (await bring(machine, bundle)).step == "Completed"


async def test_no_room_to_unpack_a_tree(tmp_path: Path) -> None:
    bulk = entry("share/bulk", random.Random(1).randbytes(300_000))
    script = "#!/bin/sh\necho v1.0.0\n"
    with small_disk(tmp_path / "tree", "768k") as disk:
        files = await installed(disk.folder, "v1.0.0", payload("v1.0.0", script))
        before = await files.digest()
        versions = {each.name for each in (disk.folder / "versions").iterdir()}
        disk.fill()
        next_one = payload("v2.0.0", script, entries=[bulk])
        disk.folder.joinpath("filler").write_bytes(b"x" * 200_000)
        with pytest.raises(OSError, match=FULL):
            await stage(files, "v2.0.0", next_one)
        assert await files.digest() == before
        assert {each.name for each in (disk.folder / "versions").iterdir()} == versions
        disk.make_room()
        digest = await stage(files, "v2.0.0", next_one)
        assert await files.keep() == before
        await files.swap()
        assert await files.digest() == digest
