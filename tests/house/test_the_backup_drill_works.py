"""The drill of the page on backups, typed as it stands there."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.docs_commands import ROOT, typed
from tests.kit.waiting import eventually

PAGE = ROOT / "docs" / "backup.md"
KINDS = "namespaces,services,statefulsets,persistentvolumeclaims,persistentvolumes,storageclasses,clusterroles,serviceaccounts"


def commands() -> list[str]:
    """What stands after ``$`` in the section."""
    section = PAGE.read_text().partition("\n## A drill\n")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (.+)$", section, re.M)


@pytest.mark.kubectl
async def test_objects_and_volumes_are_back_after_the_data_folder_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    said: dict[str, str] = {}
    with UpPlane(tmp_path) as plane:
        monkeypatch.setenv("DATA", str(plane.data))
        monkeypatch.setenv("KEEP", str(keep))
        before: dict[str, Any] = {}
        for command in commands():
            if command.startswith("export "):
                continue
            if command.startswith("pilothouse up "):
                # In a terminal of its own, and at a port that is free here.
                plane.start()
                continue
            if command.startswith("pilothouse backup "):
                before = await everything(plane)
            if command.startswith("kubectl exec "):
                # A status from before the disaster stands until the node has written its own: who is faster types it again.
                said[command] = await eventually(partial(rows_of, command, plane))
                continue
            done = typed(command, plane.data, seconds=120)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            said[command] = done.stdout
        after = await everything(plane)
    assert len(before) > 60
    assert {name: after.get(name) for name in before} == before
    [restored] = [text for command, text in said.items() if command.startswith("pilothouse restore ")]
    assert "verified" in restored
    [rows] = [text.splitlines() for command, text in said.items() if command.startswith("kubectl exec ")]
    assert len(rows) == 2, "the row from before the disaster, and one of the new start"
    assert all(row.startswith("hello-0 began at ") for row in rows)


async def rows_of(command: str, plane: UpPlane) -> str | None:
    """What a command printed, once that is more than one line."""
    done = await asyncio.to_thread(typed, command, plane.data, seconds=60)
    return done.stdout if done.returncode == 0 and len(done.stdout.splitlines()) > 1 else None


async def everything(plane: UpPlane) -> dict[str, Any]:
    """The uids and specs of all objects that are no pods, by kind, namespace and name. The identity alone is another."""
    listed = json.loads((await plane.kubectl("get", KINDS, "-A", "-o", "json")).ok())["items"]
    found = {}
    for each in listed:
        metadata = each["metadata"]
        name = f"{each['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        found[name] = (None if name == "Namespace//kube-system" else metadata["uid"], each.get("spec"))
    return found
