"""Who enters a container does not take modules, codecs or source lines from the container's files, whatever fails on the way."""

from __future__ import annotations

import encodings
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.containers import INSTALLATION, PLAIN_VIEW, Box, with_mounts

from pilothouse.supervise import shim
from pilothouse.supervise.cgroup_settings import Limits
from pilothouse.supervise.cgroups import Cgroup, find
from pilothouse.supervise.launch_spec import LaunchError, Mount

PROCESSES = 30
FILL = """
import threading
threading.stack_size(32768)
forever = threading.Event()
while True:
    try:
        threading.Thread(target=forever.wait, daemon=True).start()
    except RuntimeError:
        print("full", flush=True)
        forever.wait()
"""
CODEC = "open('/proof/ran', 'w').write('as the helper')\nraise SystemError\n"


@pytest.fixture
async def group() -> AsyncIterator[Cgroup]:
    cgroups = find(f"pilothouse-test-{uuid.uuid4().hex[:8]}")
    if "pids" in cgroups.unavailable:
        pytest.skip(f"pids can't be limited here: {cgroups.unavailable['pids']}")
    yield cgroups.group("pods/one/db")
    await cgroups.group(".").remove()


async def test_a_helper_that_cant_fork_runs_no_code_of_the_container(
    views: Box, group: Cgroup, tmp_path: Path
) -> None:
    codecs, sources, proof = tmp_path / "encodings", tmp_path / "shim", tmp_path / "proof"
    shutil.copytree(Path(encodings.__file__).parent, codecs)
    (codecs / "evil.py").write_text(CODEC)
    sources.mkdir()
    (sources / "entering.py").write_text("# -*- coding: evil -*-\n" * 2)
    proof.mkdir()
    view = with_mounts(
        PLAIN_VIEW,
        machine=INSTALLATION,
        mounts=(
            Mount(str(codecs), str(Path(encodings.__file__).parent)),
            Mount(str(sources), str(Path(shim.__file__).parent)),
            Mount(str(proof), "/proof"),
        ),
    )
    group.make(Limits(pids=PROCESSES))
    container = await views.run(sys.executable, "-S", "-c", FILL, view=view, cgroups=group.folders)
    await views.says(container, "full")

    with pytest.raises(LaunchError, match="can't start a program in the container"):
        await container.enter(["/bin/true"])
    assert list(proof.iterdir()) == []


def test_an_isolated_interpreter_imports_nothing_and_reports_nothing_itself() -> None:
    home = Path(shim.__file__).parents[3]
    program = (
        f"import sys; sys.path.append({str(home)!r})\n"
        "from pilothouse.supervise.shim.isolation import isolate_interpreter\n"
        "isolate_interpreter()\n"
        "for attempt in ('import traceback', 'b\"x\".decode(\"cp1250\")', 'import encodings.cp1250'):\n"
        "    try:\n"
        "        exec(attempt)\n"
        "    except (ImportError, LookupError):\n"
        "        print('refused', flush=True)\n"
        "raise RuntimeError('told by nobody')\n"
    )
    ended = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "refused\n" * 3, ""), ended
