"""The signature of an old version stays valid, so a machine remembers what it has had."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.kit.managed_programs import program
from tests.node.updating.machine import PLATFORM, QUICK, UpdatedMachine, updated_machine

from pilothouse.api.k0s.signals import Signal
from pilothouse.pki.minisign import SecretKey, sign_file
from pilothouse.updates.payload_trust import PayloadTrust

KEY = SecretKey.generate()
SIGNED = dataclasses.replace(QUICK, trust=PayloadTrust("signed", (KEY.public(),)))
SILENT = ["/bin/false"]
"""A command that reports no version."""


def serve(machine: UpdatedMachine, version: str, content: bytes) -> None:
    file = machine.folder / "signed"
    file.write_bytes(content)
    signature = sign_file(file, KEY, trusted_comment=f"version:{version}\tplatform:{PLATFORM}")
    machine.serve(version, content)
    machine.serve(f"{version}.minisig", signature.encode())


async def update(machine: UpdatedMachine, version: str, kind: str = "k0supdate") -> Signal:
    await machine.order(version, kind=kind)
    await machine.signal(kind=kind)
    return await machine.until("Completed", "Failed", "FailedDownload")


def reason(ended: Signal) -> str:
    assert ended.step == "FailedDownload"
    assert ended.status is not None
    return ended.status.reason


async def test_an_older_bundle_does_not_replace_the_last_one(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, agent=False) as machine:
        machine.downloads = SIGNED
        machine.start_agent()
        for version in ("v1.0.0", "v1.2.0", "v1.1.0"):
            serve(machine, version, f"images of {version}".encode())
        assert (await update(machine, "v1.0.0", "airgapupdate")).step == "Completed"
        assert (await update(machine, "v1.2.0", "airgapupdate")).step == "Completed"
        refused = await update(machine, "v1.1.0", "airgapupdate")
        assert reason(refused) == "v1.1.0 is older than v1.2.0, which this machine had last"
        await machine.stop_agent()
        machine.start_agent()
        refused = await update(machine, "v1.0.0", "airgapupdate")
        assert reason(refused) == "v1.0.0 is older than v1.2.0, which this machine had last"
        assert (await update(machine, "v1.2.0", "airgapupdate")).step == "Completed"
        assert sorted(each.name for each in machine.images.iterdir()) == ["v1.0.0", "v1.2.0"]


async def test_a_program_that_reports_no_version_is_not_replaced_by_an_older_one(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, agent=False) as machine:
        machine.downloads = SIGNED
        machine.start_agent()
        await machine.answers("v1.0.0")
        for version in ("v1.5.0", "v2.0.0"):
            serve(machine, version, program(version))
        assert (await update(machine, "v2.0.0")).step == "Completed"
        await machine.stop_agent()
        machine.start_agent(version=SILENT)
        refused = await update(machine, "v1.5.0")
        assert reason(refused).startswith("v1.5.0 is older than v2.0.0, which this machine had last")
        assert machine.path.read_bytes() == program("v2.0.0")


async def test_a_program_of_an_unknown_version_is_replaced_by_force_only(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, agent=False) as machine:
        machine.downloads = SIGNED
        # Only the next version answers.
        machine.start_agent(version=["grep", "-m1", "-o", "v2.0.0", "{path}"])
        serve(machine, "v2.0.0", program("v2.0.0"))
        assert reason(await update(machine, "v2.0.0")) == (
            "the version that is installed is not known, so v2.0.0 may be older; forceupdate installs it"
        )
        assert machine.path.read_bytes() == program("v1.0.0")
        await machine.order("v2.0.0", forceupdate=True)
        await machine.signal()
        assert (await machine.until("Completed", "Failed", "FailedDownload")).step == "Completed"
        assert machine.path.read_bytes() == program("v2.0.0")
