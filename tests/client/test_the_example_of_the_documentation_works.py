from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.targets import Fleet

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


@pytest.mark.parametrize(
    "loop", ["import asyncio", "import uvloop; uvloop.install()"], ids=["stock", "uvloop"]
)
def test_the_example_runs_on_either_event_loop(fleet: Fleet, tmp_path: Path, loop: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = tmp_path / "colours.py"
    file.write_text(f"{loop}\n{example}")
    environ = {**os.environ, "KUBECONFIG": str(fleet.get("sqlite").target.kubeconfig)}
    ended = subprocess.run(
        [sys.executable, str(file)], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "ours\n['sky']\n"), ended.stderr
