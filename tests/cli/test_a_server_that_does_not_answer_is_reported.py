from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.processes import Process

COMMANDS = [
    ("why", "pod/web-0"),
    ("token", "list"),
    ("token", "create"),
    ("token", "delete", "abcdef"),
    ("audit",),
    ("encryption", "status"),
    ("backup", "FILE"),
]


def kubeconfig(folder: Path, url: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "it", "user": {"token": "secret"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config))
    return str(file)


def words(command: tuple[str, ...], folder: Path, url: str) -> list[str]:
    named = [str(folder / "file") if word == "FILE" else word for word in command]
    return [*named, "--kubeconfig", kubeconfig(folder, url)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_refused_connection_is_one_line_that_names_the_server_once(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = pilothouse(*words(command, tmp_path, "https://127.0.0.1:1"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: https://127.0.0.1:1 can't be reached: Connection refused\n"


@pytest.mark.parametrize("command", [("why", "pod/web-0"), ("audit",)], ids=" ".join)
def test_a_command_says_which_server_it_waits_for(tmp_path: Path, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        argv = [sys.executable, "-m", "pilothouse", *words(command, tmp_path, url)]
        process = Process.start("pilothouse", argv, log=tmp_path / "log")
        try:
            process.wait_until(lambda: f"waiting for {url} …" in process.output(), seconds=30)
        finally:
            process.kill()


@pytest.mark.parametrize("command", [("plan", "status"), ("why", "pod/web-0")], ids=" ".join)
def test_an_interrupted_command_does_not_claim_that_something_was_aborted(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        # A shell's background jobs ignore SIGINT, and so would what they start.
        interruptible = ["env", "--default-signal=INT", sys.executable]
        argv = [*interruptible, "-m", "pilothouse", *words(command, tmp_path, url)]
        process = Process.start("pilothouse", argv, log=tmp_path / "log")
        try:
            process.wait_until(lambda: f"waiting for {url} …" in process.output(), seconds=30)
            process.popen.send_signal(signal.SIGINT)
            assert process.popen.wait(30) == 130, process.output()
        finally:
            process.kill()
        assert process.output().strip() == f"waiting for {url} …"
