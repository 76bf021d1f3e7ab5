"""Without ``--data``, commands use the plane of this user that runs, and say which one that is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.up.manifests import stateful_set
from tests.cli.running import pilothouse
from tests.kit.containers import needs_root
from tests.kit.control_planes import UpPlane, as_ordinary_user

from pilothouse.app import plane_discovery
from pilothouse.app.plane_registry import RegistryEntry, entries, registered

STRANGER = 12345


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planes")


@pytest.fixture(scope="module")
def plane(folder: Path) -> Iterator[UpPlane]:
    """One that records requests and encrypts secrets."""
    keys = folder / "keys.txt"
    keys.write_text(pilothouse("encryption", "new-key", "k1").stdout)
    flags = ("--audit-log-path", str(folder / "audit.log"), "--encryption-key-file", str(keys))
    with UpPlane(folder, *flags, env={"PILOTHOUSE_RUNTIME_DIR": str(folder / "run")}) as plane:
        yield plane


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of somebody who has said nothing of where the plane is."""
    apart = {"PILOTHOUSE_RUNTIME_DIR": str(folder / "run"), "HOME": str(folder), "KUBECONFIG": ""}
    return pilothouse(*arguments, **{**apart, **environment})


@pytest.mark.parametrize(
    "command",
    [
        "status --once",
        "image list",
        "why node/n1",
        "token list",
        "certs list",
        "audit --limit 1",
        "encryption status",
        "prometheus-config --credentials {}/credentials",
        "backup {}/backup",
    ],
)
def test_a_command_takes_the_plane_that_runs_and_says_so(folder: Path, plane: UpPlane, command: str) -> None:
    done = run(folder, *command.format(folder).split())
    assert done.returncode == 0, done.stderr
    assert f"using {plane.data}, where `pilothouse up` runs\n" in done.stderr
    assert done.stdout


def test_up_takes_the_flags_for_audit_and_encryption(folder: Path, plane: UpPlane) -> None:
    audit = pilothouse("audit", "--limit", "1", "-o", "json", "--data", str(plane.data))
    assert '"kind":"Event"' in audit.stdout.replace(" ", ""), audit.stderr
    status = run(folder, "encryption", "status")
    assert status.stdout.splitlines()[1].startswith("k1"), status.stderr


def test_a_folder_that_is_named_needs_no_explanation(folder: Path, plane: UpPlane) -> None:
    done = run(folder, "image", "list", "--data", str(plane.data))
    assert (done.returncode, done.stderr) == (0, "")
    done = run(folder, "certs", "list", PILOTHOUSE_DATA=str(plane.data))
    assert (done.returncode, done.stderr) == (0, f"using {plane.data}, which PILOTHOUSE_DATA names\n")


def test_a_kubeconfig_of_the_environment_goes_before_the_plane(folder: Path, plane: UpPlane) -> None:
    other = folder / "other.kubeconfig"
    other.write_bytes((plane.data / "admin.kubeconfig").read_bytes())
    done = run(folder, "token", "list", KUBECONFIG=str(other))
    assert (done.returncode, done.stderr) == (0, f"using {other}, which KUBECONFIG names\n")


def test_an_image_that_no_node_will_see_is_imported_with_a_warning(folder: Path, plane: UpPlane) -> None:
    files = folder / "files"
    files.mkdir()
    (files / "greeting").write_text("hello")
    used = run(folder, "image", "import", "files:1", str(files))
    assert (used.returncode, used.stderr) == (0, f"using {plane.data}, where `pilothouse up` runs\n")
    unused = folder / "unused"
    done = run(folder, "image", "import", "files:1", str(files), "--data", str(unused))
    assert done.returncode == 0
    assert f"Warning: no node is running on {unused}" in done.stderr


def test_where_several_run_one_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_RUNTIME_DIR", str(tmp_path / "run"))
    first, second = tmp_path / "first", tmp_path / "second"
    for each in (first, second):
        each.mkdir(mode=0o700)
    with registered(first, "up", print), registered(second, "up", print):
        done = run(tmp_path, "status")
        assert done.returncode == 1
        assert f"several are running, on {first}, {second}: name one with --data" in done.stderr
    assert entries() == []


def test_without_any_plane_the_places_that_were_looked_at_are_named() -> None:
    checkout = plane_discovery._checkout()
    if os.geteuid() != 0 and checkout is not None and (checkout / ".data").exists():
        pytest.skip(f"there is a plane of this user's in {checkout}")
    with as_ordinary_user() as (home, command, env):
        env = {**os.environ, **env, "XDG_DATA_HOME": f"{home}/share", "KUBECONFIG": ""}
        for arguments in (
            "status",
            "down",
            "image list",
            "certs list",
            "why pod/x",
            "backup b",
            "token list",
        ):
            argv = [*command, *arguments.split()]
            done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 1, arguments
            assert f"{home}/share/pilothouse; start one with `pilothouse up`" in done.stderr


async def test_down_finds_what_a_killed_up_left_and_says_for_whom_it_waits(tmp_path: Path) -> None:
    env = {"PILOTHOUSE_RUNTIME_DIR": str(tmp_path / "run")}
    with UpPlane(tmp_path, env=env) as plane:
        # It takes its grace to the end, but for a small rest.
        script = "trap : TERM; echo began; while :; do sleep 0.1; done"
        await plane.kubectl("apply", "-f", "-", stdin=stateful_set(script=script, grace=4))
        (await plane.kubectl("rollout", "status", "statefulset/web", "--timeout=60s")).ok()
        plane.stop(signal.SIGKILL)
        assert [entry.running for entry in _entries(tmp_path)] == [False]
        done = run(tmp_path, "down")
        assert done.returncode == 0, done.stderr
        assert (
            f"using {plane.data}, where `pilothouse up` ran until it was killed; nothing is known to run there"
            in done.stderr
        )
        assert "waiting for 1 pod to stop: default/web-0 (up to 4 s)" in done.stderr


async def test_ctrl_c_says_for_whom_it_waits(tmp_path: Path) -> None:
    with UpPlane(tmp_path) as plane:
        script = "trap : TERM; echo began; while :; do sleep 0.1; done"
        await plane.kubectl("apply", "-f", "-", stdin=stateful_set(script=script, grace=4))
        (await plane.kubectl("rollout", "status", "statefulset/web", "--timeout=60s")).ok()
        assert plane.stop(signal.SIGINT) == 0
        assert "waiting for 1 pod to stop: default/web-0 (up to 4 s); press Ctrl-C again" in plane.output


def _entries(folder: Path) -> list[RegistryEntry]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PILOTHOUSE_RUNTIME_DIR", str(folder / "run"))
        return entries()


class TestAsAnAttacker:
    """Somebody else on the machine has a plane, and would like root to use it: root's secrets would go there."""

    @pytest.fixture
    def lure(self, tmp_path: Path) -> Path:
        """A data folder of the attacker's."""
        data = tmp_path / "lure"
        data.mkdir()
        (data / "admin.kubeconfig").write_text("{}")
        (data / "format").write_text("1\n")
        return data

    @pytest.fixture
    def registry(self, tmp_path: Path, lure: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """In which the plane is entered, as if it ran."""
        monkeypatch.setenv("PILOTHOUSE_RUNTIME_DIR", str(tmp_path / "run"))
        with registered(lure, "up", print):
            assert [each.data for each in entries()] == [lure]
            assert plane_discovery.find_running(plane_discovery.UP) is not None
            yield tmp_path / "run"

    def assert_not_taken(self) -> None:
        assert plane_discovery.find_running(plane_discovery.UP) is None
        assert plane_discovery.running_folders(plane_discovery.NODE) == {}

    @needs_root
    def test_a_data_folder_of_another_user_is_not_used(self, registry: Path, lure: Path) -> None:
        os.chown(lure, STRANGER, STRANGER)
        self.assert_not_taken()

    @needs_root
    def test_a_kubeconfig_of_the_user_whose_home_root_has_is_not_used(self, tmp_path: Path) -> None:
        config = tmp_path / ".kube" / "config"
        config.parent.mkdir()
        config.write_text("{}")
        assert f"using {config}" in run(tmp_path, "token", "list").stderr
        os.chown(config, STRANGER, STRANGER)
        assert f"using {config}" not in run(tmp_path, "token", "list").stderr

    def test_a_data_folder_that_others_can_write_is_not_used(self, registry: Path, lure: Path) -> None:
        lure.chmod(0o777)
        self.assert_not_taken()

    @needs_root
    def test_a_link_in_place_of_the_data_folder_is_not_followed(self, registry: Path, lure: Path) -> None:
        lure.rename(lure.with_name("elsewhere"))
        lure.symlink_to(lure.with_name("elsewhere"))
        assert plane_discovery.find_running(plane_discovery.UP) is not None, "a link of one's own is"
        os.lchown(lure, STRANGER, STRANGER)
        self.assert_not_taken()

    @needs_root
    def test_entries_of_another_user_are_passed_over(self, registry: Path) -> None:
        [entry] = registry.iterdir()
        os.chown(entry, STRANGER, STRANGER)
        assert entries() == []

    @needs_root
    def test_a_registry_of_another_user_is_not_read(self, registry: Path) -> None:
        os.chown(registry, STRANGER, STRANGER)
        assert entries() == []

    def test_a_registry_that_others_can_write_is_neither_read_nor_written(
        self, registry: Path, tmp_path: Path
    ) -> None:
        registry.chmod(0o777)
        assert entries() == []
        said: list[str] = []
        with registered(tmp_path, "node", said.append):
            assert len(list(registry.iterdir())) == 1
        assert "other users can write it" in said[0]

    def test_neither_links_nor_pipes_are_read(self, registry: Path, tmp_path: Path) -> None:
        [entry] = registry.iterdir()
        entry.rename(tmp_path / "moved")
        entry.symlink_to(tmp_path / "moved")
        os.mkfifo(registry / "up-pipe")
        assert stat.S_ISFIFO((registry / "up-pipe").stat().st_mode)
        assert entries() == []
        # What is left is removed by its owner alone.
        entry.unlink()
