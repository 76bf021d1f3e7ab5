"""What `make payload` packs needs nothing of the repository, and runs from where it is installed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import Server

import pilothouse

ROOT = Path(__file__).parents[2]
PATHS = f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin"
SEEN_BY_PODS = (
    "from pilothouse.node.containers import environment, pilot_installation as seen;"
    "print(environment.OWN_PROGRAMS, *seen.installation())"
)


def output(*argv: str | Path) -> str:
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, check=True, cwd="/", env={"PATH": PATHS}, timeout=120
    )
    return done.stdout


def packed(output: Path, *flags: str) -> Path:
    argv: list[str | Path] = [sys.executable, ROOT / "scripts" / "payload", "--output", output, *flags]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return output


@pytest.mark.long
def test_it_is_unpacked_anywhere_and_installs_itself(tmp_path: Path) -> None:
    payload = packed(tmp_path / "pilothouse.tar.gz")
    unpacked, root = tmp_path / "unpacked", tmp_path / "root"
    unpacked.mkdir()
    output("tar", "-xzf", payload, "-C", unpacked)
    installed = output(unpacked / "bin" / "pilothouse", "updates", "install", payload, "--root", root)
    assert installed.startswith(f"installed {root}/versions/v{pilothouse.__version__}-")
    program = root / "bin" / "pilothouse"
    assert output(program, "--version") == f"pilothouse {pilothouse.__version__}\n"
    tree = (root / "current").resolve()
    # Pods find the pilot there, and see all that it needs.
    programs, *seen = output(tree / "bin" / "python3", "-c", SEEN_BY_PODS).split()
    assert os.access(Path(programs, "pilothouse"), os.X_OK)
    assert {str(tree / part) for part in ("bin", "lib", "pyvenv.cfg")} <= set(seen)
    # A service runs the version that is current when it starts.
    unit = output(program, "install-service", "up", "--dry-run", "--", "--data", tmp_path / "data")
    assert f"\nExecStart={program} up --data " in unit
    with Server(tmp_path / "data", command=(str(program),)) as server:
        assert server.get("/api/v1/namespaces/default").status == 200
        assert server.stop()[0] == 0


@pytest.mark.long
def test_it_runs_its_own_modules_whatever_the_environment_names(tmp_path: Path) -> None:
    payload = packed(tmp_path / "pilothouse.tar.gz", "--linked", "--version", "9.8.7")
    argv: list[str | Path] = [sys.executable, "-m", "pilothouse", "updates", "install", payload]
    subprocess.run([*argv, "--root", tmp_path / "root"], check=True, stdout=subprocess.DEVNULL)
    other = tmp_path / "other" / "pilothouse"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise SystemExit('another one')\n")
    env = {"PATH": PATHS, "PYTHONPATH": str(other.parent), "PYTHONHOME": str(tmp_path)}
    program = tmp_path / "root" / "bin" / "pilothouse"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, env=env)
    assert (done.stdout, done.stderr) == ("pilothouse 9.8.7\n", "")


@pytest.mark.long
def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    twice = [packed(tmp_path / f"{number}.tar.gz", "--linked") for number in range(2)]
    assert len({hashlib.sha256(each.read_bytes()).hexdigest() for each in twice}) == 1


def test_installing_what_is_no_payload_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("nothing")
    argv = [sys.executable, "-m", "pilothouse", "updates", "install", str(tmp_path / "file")]
    done = subprocess.run(
        [*argv, "--root", str(tmp_path / "root")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "is not a readable tar or zip archive" in done.stderr
