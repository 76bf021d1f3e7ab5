"""``pilothouse install-service``: a unit that systemd takes, and that runs what was asked for."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.containers import needs_root

from pilothouse.app.service_unit import changeable_by_others, service_unit, unit_file

STRANGER = 12345


def sections(unit: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # As configparser documents it.
    parsed.read_string(unit)
    return parsed


def verified(unit: str, folder: Path, *flags: str) -> None:
    """As far as systemd can be asked on this machine."""
    if shutil.which("systemd-analyze") is None:
        return
    file = folder / "pilothouse.service"
    file.write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", *flags, "verify", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("scope", [[], ["--user"]])
def test_the_unit_is_what_systemd_expects(tmp_path: Path, scope: list[str]) -> None:
    flags = ("--listen", "127.0.0.1:7443", "--data", str(tmp_path / "my data"))
    done = pilothouse("install-service", "up", "--dry-run", *scope, "--", *flags)
    assert done.returncode == 0, done.stderr
    service = sections(done.stdout)["Service"]
    assert shlex.split(service["ExecStart"])[-5:] == ["up", *flags]
    assert service["KillMode"] == "process"
    assert service["Delegate"] == "yes"
    assert sections(done.stdout)["Install"]["WantedBy"] == ("default" if scope else "multi-user") + ".target"
    verified(done.stdout, tmp_path, *scope)


def test_what_systemd_would_read_otherwise_is_quoted(tmp_path: Path) -> None:
    words = [sys.executable, 'a "b"', "50%", "$HOME", "back\\slash", "é"]
    unit = service_unit("node", words, user=True)
    told = sections(unit)["Service"]["ExecStart"]
    assert shlex.split(told.replace("%%", "%").replace("$$", "$")) == words
    verified(unit, tmp_path)
    with pytest.raises(ValueError, match="control characters"):
        service_unit("node", ["/bin/true", "a\nExecStart=/bin/evil"], user=True)


def test_mistakes_are_reported_before_anything_is_written(tmp_path: Path) -> None:
    done = pilothouse("install-service", "up", "--dry-run", "--", "--lisen", "x")
    assert done.returncode == 2
    assert "No such option '--lisen'" in done.stderr
    done = pilothouse("install-service", "up", "--dry-run", "--", "--audit-log-path", "audit.log")
    assert "--audit-log-path audit.log: in a service, the path must be absolute" in done.stderr
    for flag, value in (("--update-profile", "db.yaml"), ("--download-ca", "dl.example=ca.pem")):
        done = pilothouse("install-service", "up", "--dry-run", "--", flag, value)
        assert f"{flag} {value.rpartition('=')[2]}: in a service, the path must be absolute" in done.stderr
    assert pilothouse("install-service", "up", "--dry-run", "--", "--update-profile", "k0s").returncode == 0
    done = pilothouse("install-service", "node", "--dry-run", "--", "--data", str(tmp_path))
    assert done.returncode == 1
    assert f"there is no {tmp_path}/node.kubeconfig: join first" in done.stderr
    done = pilothouse("install-service", "up", "--dry-run", "--name", "../evil")
    assert "is not a valid name of a service" in done.stderr


def test_a_machine_without_systemd_is_told_so() -> None:
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs this machine, where a service would be installed")
    done = pilothouse("install-service", "up", "--user")
    assert done.returncode == 1
    assert "systemd does not run on this machine" in done.stderr
    assert not unit_file("pilothouse", user=True).exists()


@needs_root
def test_a_program_that_others_can_change_is_noticed(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "pilothouse"
    program.parent.mkdir()
    program.touch(mode=0o755)
    before = changeable_by_others([program])
    assert before == []
    program.parent.chmod(0o777)
    assert changeable_by_others([program]) == [program]
    program.parent.chmod(0o755)
    os.chown(program.parent, STRANGER, STRANGER)
    assert changeable_by_others([program]) == [program]
