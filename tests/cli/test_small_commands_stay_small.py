from __future__ import annotations

import subprocess
import sys

from tests.cli.running import pilothouse

import pilothouse as package


def test_version() -> None:
    done = pilothouse("version")
    assert (done.returncode, done.stdout) == (0, f"pilothouse {package.__version__}\n")


def test_help_names_every_command_and_flag() -> None:
    assert "apiserver" in pilothouse("--help").stdout
    text = pilothouse("apiserver", "-h").stdout
    for flag in ("--data", "--listen", "--store", "--etcd-servers", "--token-auth-file", "--client-ca-file"):
        assert flag in text


def test_no_component_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, pilothouse.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"aiohttp", "cryptography", "msgspec", "google", "apsw", "yaml", "asyncio", "uvloop"} & set(
        modules
    )


def test_the_data_folder_is_where_the_system_wants_it() -> None:
    code = "from pilothouse.app.options import default_data; print(default_data())"
    run = subprocess.run(
        [sys.executable, "-c", f"import os; os.geteuid = lambda: 1000; {code}"],
        capture_output=True,
        text=True,
        check=True,
        env={"XDG_DATA_HOME": "/home/x/data", "HOME": "/home/x"},
    )
    assert run.stdout == "/home/x/data/pilothouse\n"
