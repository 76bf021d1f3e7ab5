from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.node.updating.machine import UpdatedMachine, updated_machine

from pilothouse.api.k0s.signals import Signal


async def bring(machine: UpdatedMachine, content: bytes, name: str = "bundle.tar", **file: Any) -> Signal:
    machine.serve(name, content, **file)
    await machine.order(name, kind="airgapupdate")
    await machine.signal(kind="airgapupdate")
    return await machine.until("Completed", "FailedDownload")


async def test_a_bundle_replaces_one_of_the_same_name_and_leaves_others(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        machine.images.mkdir()
        (machine.images / "other.tar").write_bytes(b"other")
        before = await machine.running()
        for content in (b"first", b"second"):
            assert (await bring(machine, content)).step == "Completed"
            assert (machine.images / "bundle.tar").read_bytes() == content
            assert await machine.noted("Completed") == ["Downloading", "Completed"]
        assert sorted(each.name for each in machine.images.iterdir()) == ["bundle.tar", "other.tar"]
        after = await machine.running()
        assert before is not None
        assert after is not None
        assert after.pid == before.pid


async def test_the_server_may_name_the_bundle(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        await bring(machine, b"images", disposition='attachment; filename="k0s-airgap-v2.tar"')
        assert [each.name for each in machine.images.iterdir()] == ["k0s-airgap-v2.tar"]


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "..", "x" * 256, "a\x01b", "c:x"])
async def test_a_bundle_can_not_leave_its_folder(tmp_path: Path, name: str) -> None:
    async with updated_machine(tmp_path) as machine:
        ended = await bring(machine, b"images", disposition=f'attachment; filename="{name}"')
        assert ended.step == "FailedDownload"
        assert ended.status is not None
        assert "can't be the name of a bundle" in ended.status.reason
        assert list(machine.images.iterdir()) == []
        assert not (tmp_path / "x").exists()


async def test_a_machine_without_an_images_folder_says_so(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, images=None) as machine:
        ended = await bring(machine, b"images")
        assert ended.status is not None
        assert ended.status.reason == "the update profile of this machine has no images folder"
