"""What a user installs is the wheel, not the repository."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.cli.running import Server

import pilothouse

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_installed_into_a_clean_environment(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    bin = tmp_path / "venv" / "bin"
    subprocess.run([bin / "python", "-m", "pip", "install", "--quiet", wheel], check=True)
    said = subprocess.run(
        [bin / "pilothouse", "version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert said.stdout == f"pilothouse {pilothouse.__version__}\n"
    with Server(tmp_path / "data", command=(str(bin / "pilothouse"),)) as server:
        assert server.get("/api/v1/namespaces/default").status == 200
        assert server.get("/apis/navigator.jetstack.io/v1beta1/elasticsearchclusters").status == 200
        assert server.stop()[0] == 0
