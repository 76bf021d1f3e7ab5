from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.up.manifests import stateful_set
from tests.app.up.watching import lives, node_is_ready, pod_once, program_of
from tests.kit.containers import needs_root
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

from pilothouse.pki.certificate_request import is_signed_by

pytestmark = [pytest.mark.long, needs_root]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "pilothouse-test", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


async def test_a_role_that_dies_meanwhile_is_started_again_and_everything_goes_on(disk: Path) -> None:
    with UpPlane(disk) as plane:
        await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
        pid = program_of(plane, await pod_once(plane))
        await eventually(lambda: _is_certified(plane))
        filling = disk / "filling"
        with pytest.raises(OSError, match="No space left"):
            _write_on_and_on(filling)
        # Nobody has looked into a pod before; now is when somebody wants to.
        assert (await plane.kubectl("exec", "web-0", "--", "hostname")).ok() == "web-0\n"
        killed = plane.role("controller-manager")["pid"]
        os.kill(killed, signal.SIGKILL)

        async def another() -> bool:
            children = _children(plane)
            return len(children) == 3 and killed not in children

        await eventually(another)
        assert lives(pid)
        filling.unlink()
        await node_is_ready(plane)
        await plane.kubectl("scale", "statefulset", "web", "--replicas=2")
        await pod_once(plane, name="web-1")


async def _is_certified(plane: UpPlane) -> bool:
    """Whether the node's server can be called already."""
    mine = (plane.data / "node" / "serving" / "serving.pem").read_bytes()
    return is_signed_by(mine, (plane.data / "pki" / "ca.crt").read_bytes())


def _write_on_and_on(file: Path) -> None:
    """Others write to the disk meanwhile, so it is full when it says so."""
    with file.open("wb", buffering=0) as filling:
        while True:
            filling.write(bytes(1 << 16))


def _children(plane: UpPlane) -> list[int]:
    """Its own report can't be written while the disk is full; the kernel knows too."""
    assert plane.process is not None
    pid = plane.process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
