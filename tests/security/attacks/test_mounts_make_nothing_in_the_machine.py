"""A volume in which a pod has put links, and a second mount whose place is behind one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit import containers
from tests.kit.containers import PLAIN_VIEW, Box, needs_root, with_mounts

from pilothouse.supervise.launch_spec import LaunchError, Mount

views = containers.views


@needs_root
@pytest.mark.parametrize("is_file", [False, True], ids=["a folder", "a file"])
async def test_the_place_of_a_mount_is_made_in_the_view_alone(
    views: Box,
    tmp_path: Path,
    is_file: bool,
) -> None:
    volume, second, outside = (tmp_path / name for name in ("volume", "second", "outside"))
    for folder in (volume, outside):
        folder.mkdir()
    second.write_text("x") if is_file else second.mkdir()
    (volume / "way").symlink_to(f"/.machine{outside}")
    mounts = [Mount(str(volume), "/data"), Mount(str(second), "/data/way/made", is_file=is_file)]
    try:
        container = await views.shell("true", view=with_mounts(PLAIN_VIEW, mounts=mounts))
        await container.exited()
    except LaunchError as refused:
        assert refused.reason == "MountFailed"  # noqa: PT017 (whether it starts is not what is asked here)
    assert list(outside.iterdir()) == []
