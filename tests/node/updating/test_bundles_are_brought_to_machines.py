from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.images import image_folder
from tests.node.updating.machine import UpdatedMachine, updated_machine

from pilothouse.api.k0s.payloads import Payload
from pilothouse.api.k0s.signals import Signal
from pilothouse.base.clock import SystemClock
from pilothouse.node.images.airgap_bundles import write_bundle
from pilothouse.node.images.image_store import ImageStore
from pilothouse.node.updating.update_journal import Phase, TurnIdentity, TurnRecord, UpdateJournal


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


async def test_a_bundle_whose_name_can_not_be_encoded_is_refused(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        ended = await bring(machine, b"images", disposition="attachment; filename*=unicode_escape''%5Cud800")
        assert ended.step == "FailedDownload"
        assert ended.status is not None
        assert r"'\ud800' can't be the name of a bundle" in ended.status.reason
        assert list(machine.images.iterdir()) == []


async def test_a_reason_that_can_not_be_encoded_is_kept_escaped(tmp_path: Path) -> None:
    journal = UpdateJournal(tmp_path / "bundle.json")
    key = TurnIdentity("u-1", 1, 0, "airgapupdate")
    journal.accept(TurnRecord(key=key, payload=Payload("http://a/b", "v1.0.0", "linux-amd64")))
    journal.end(Phase.ENDED, changed=False, reason="file \udcff of the bundle is not readable")
    turn = UpdateJournal(tmp_path / "bundle.json").turn
    assert turn is not None
    assert turn.reason == r"file \udcff of the bundle is not readable"


async def test_without_a_folder_the_images_go_into_the_library_of_the_node(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, images=None) as machine:
        for word in ("one", "two"):
            bundle = bundle_of(tmp_path / word, word)
            assert (await bring(machine, bundle)).step == "Completed"
            library = ImageStore(machine.folder / "library", SystemClock())
            root = library.resolve("app:1").root
            assert root is not None
            assert (root / "bin" / "app").read_text() == f"#!/bin/sh\necho {word}\n"
        assert sorted(each.name for each in machine.data.glob("*bundle*")) == ["bundle.json"]


async def test_a_bundle_that_is_none_is_not_imported(tmp_path: Path) -> None:
    async with updated_machine(tmp_path, images=None) as machine:
        ended = await bring(machine, b"images")
        assert ended.step == "FailedDownload"
        assert ended.status is not None
        assert "bundle.tar can't be imported:" in ended.status.reason


def bundle_of(folder: Path, word: str) -> bytes:
    """A bundle of one image, with a program in it."""
    content = image_folder(folder / "content", "bin/app", f"echo {word}", entrypoint=["bin/app"])
    library = ImageStore(folder / "library", SystemClock())
    library.import_("app:1", content)
    write_bundle(folder / "bundle.tar.gz", ["app:1"], library)
    return (folder / "bundle.tar.gz").read_bytes()
