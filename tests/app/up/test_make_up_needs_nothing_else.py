"""``make up`` on a machine that has seen nothing of us: clone, one command, the printed lines, Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.app.up.watching import is_mounted_below
from tests.kit.control_planes import as_ordinary_user
from tests.kit.kubectl import Kubectl, newest
from tests.kit.processes import Process

ROOT = Path(__file__).parents[3]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Newcomer:
    """Somebody with an empty home, who has this Python and nothing that we have installed."""

    home: Path
    words: tuple[str, ...]
    """What comes before a command to run it as this user."""
    python: str

    @property
    def env(self) -> dict[str, str]:
        """Where packages come from is the machine's affair; the rest is as after a first login."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "SSL_", "LANG")) or name.lower().endswith("_proxy")
        }
        path = f"{self.home}/bin:{SYSTEM_PATH}"
        return {**kept, "HOME": str(self.home), "PATH": path, "PYTHON": self.python}

    def run(self, *command: str, seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, *command],
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def up(self, checkout: Path) -> Process:
        """`make up` in the checkout, in a session of its own, as a terminal would have it."""
        cleared = ["env", "-i", *(f"{name}={value}" for name, value in self.env.items())]
        make = ["make", "-C", str(checkout), "up", "PILOTHOUSE_LISTEN=127.0.0.1:0"]
        argv = ["setsid", *self.words, *cleared, *make]
        return Process.start("make up", argv, log=self.home / "up.log")

    def processes(self) -> list[str]:
        """The command lines of all that runs from below this home."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            # One that ends meanwhile is none.
            with contextlib.suppress(OSError):
                told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
                if str(self.home).encode() in told:
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found


@contextlib.contextmanager
def _newcomer(who: str) -> Iterator[Newcomer]:
    """Skips where there can be none."""
    if who == "ordinary user":
        with as_ordinary_user() as (home, (*words, python, _, _), _):
            yield Newcomer(home, tuple(words), python)
        return
    if os.geteuid() != 0:
        pytest.skip("only root can try it as root")
    with tempfile.TemporaryDirectory() as name:
        yield Newcomer(Path(name), (), sys.executable)


def _cloned(newcomer: Newcomer) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip(f"{ROOT} is no checkout that could be cloned")
    for program in ("git", "make", "setsid"):
        if shutil.which(program, path=SYSTEM_PATH) is None:
            pytest.skip(f"{program} is not there (Debian: apt-get install git make util-linux)")
    # Git trusts no repository of another user unless it is told to.
    (newcomer.home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    checkout = newcomer.home / "pilothouse"
    # Whatever else may be read by its owner alone: pods of other users run what is in a clone.
    clone = f"umask 077; git clone --quiet '{ROOT}' '{checkout}'"
    done = newcomer.run("sh", "-c", clone, seconds=120)
    if done.returncode != 0 and newcomer.words:
        pytest.skip(f"another user can't clone {ROOT}: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    (newcomer.home / "bin").mkdir()
    shutil.copy(newest().path, newcomer.home / "bin" / "kubectl")
    return checkout


def _printed(output: str) -> str:
    [lines] = re.findall(r"^In another terminal:\n((?:  .+\n)+)", output, re.MULTILINE)
    return str(lines)


@pytest.mark.long
@pytest.mark.parametrize("who", ["root", "ordinary user"])
def test_from_a_clone_to_running_pods(who: str) -> None:
    with contextlib.ExitStack() as stack:
        newcomer = stack.enter_context(_newcomer(who))
        checkout = _cloned(newcomer)
        process = newcomer.up(checkout)
        try:
            process.wait_until(lambda: "stops it, pods too" in process.output(), seconds=600)
            installed = {each.name.partition("-")[0] for each in checkout.glob(".venv/lib/*/*/*.dist-info")}
            assert "aiohttp" in installed
            assert not installed & {"pytest", "pip", "setuptools", "hatchling"}, "only what running needs"
            if who == "root":
                assert (checkout / "src" / "pilothouse" / "__init__.py").stat().st_mode & 0o044 == 0o044
            printed = _printed(process.output())
            assert f"export KUBECONFIG={checkout}/.data/admin.kubeconfig" in printed
            assert "kubectl apply -f " in printed
            nodes = newcomer.run("sh", "-ec", printed, seconds=60)
            assert nodes.returncode == 0, nodes.stderr
            assert " Ready " in nodes.stdout
            more = (
                "kubectl rollout status statefulset/hello --timeout=120s >&2\nkubectl get pods --no-headers"
            )
            pods = newcomer.run("sh", "-ec", printed.splitlines()[0] + "\n" + more, seconds=180)
            assert pods.returncode == 0, pods.stderr
            assert [line.split()[:3] for line in pods.stdout.splitlines()] == [
                ["hello-0", "1/1", "Running"],
                ["hello-1", "1/1", "Running"],
            ]
            assert len(newcomer.processes()) > 4
            # Ctrl-C: all that is in the foreground of the terminal hears it.
            os.killpg(process.pid, signal.SIGINT)
            process.popen.wait(60)
            assert "Traceback" not in process.output()
            assert newcomer.processes() == []
            assert not is_mounted_below(newcomer.home)
        finally:
            program = checkout / ".venv" / "bin" / "pilothouse"
            if newcomer.processes() and program.exists():
                newcomer.run(str(program), "down", "--data", f"{checkout}/.data", seconds=90)
            # Whatever it was still installing with.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.popen.wait()


@pytest.mark.long
async def test_one_command_brings_up_a_control_plane(tmp_path: Path) -> None:
    data = tmp_path / "data"
    env = {
        "PILOTHOUSE_DATA": str(data),
        "PILOTHOUSE_LISTEN": "127.0.0.1:0",
        "PILOTHOUSE_VENV": sys.prefix,
        "PYTHONPATH": "",
    }
    process = Process.start("up", [str(ROOT / "scripts" / "up")], log=tmp_path / "up.log", env=env)
    try:
        process.wait_until(lambda: "Pilothouse is up at" in process.output(), seconds=120)
        kubectl = Kubectl(newest(), data / "admin.kubeconfig", tmp_path / "home")
        assert "Ready" in (await kubectl("get", "nodes")).ok()
    finally:
        status = process.end(seconds=60)
    assert status == 0, process.output()
    assert "Traceback" not in process.output()
