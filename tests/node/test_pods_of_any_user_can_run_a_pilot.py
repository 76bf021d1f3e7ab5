"""This installation is in reach of whoever a container runs as, wherever it is installed; and nothing else is that was not before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.node.real import real_node, shell
from tests.node.stage import phase

from pilothouse.node.installation import installation, mounts, ways
from pilothouse.supervise.launching import Mount, User

SOMEBODY = User(uid=4321, gid=4321)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that its owner alone may enter, in one that anybody may, as far as this test sees to it."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def below(folder: Path, found: tuple[Mount, ...]) -> list[tuple[str, str]]:
    """Where things are shown below a folder, and what."""
    return [
        (each.target.removeprefix(str(folder)), each.source.removeprefix(str(folder)))
        for each in found
        if each.kind == "bind"
    ]


def test_what_is_in_open_folders_is_left_as_it_is() -> None:
    assert mounts(["/usr/bin/env", "/usr"], SOMEBODY) == ()


def test_the_agent_itself_and_root_need_nothing(home: Path) -> None:
    assert mounts([str(home / "python")], None) == ()
    assert mounts([str(home / "python")], User(uid=0, gid=0)) == ()


def test_the_outermost_closed_folder_is_covered_once(home: Path) -> None:
    (home / "closed").mkdir(mode=0o700)
    for name in ("python", "closed/venv"):
        (home / name).mkdir()
    found = mounts([str(home / "python"), str(home / "closed/venv")], SOMEBODY)
    (cover,) = [each for each in found if each.kind == "tmpfs"]
    # Those above may be closed, too: pytest's own folders are.
    assert str(home).startswith(cover.target)
    assert cover.read_only
    assert found[0] == cover, "what is shown in it comes after it"
    assert sorted(below(home, found)) == [("/closed/venv", "/closed/venv"), ("/python", "/python")]
    assert all(each.read_only for each in found)


def test_the_group_and_the_owner_of_a_folder_may_enter_it(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    folder.chmod(0o710)
    found, above = folder.stat(), tmp_path.stat()
    member = User(uid=4321, gid=4321, groups=(found.st_gid, above.st_gid))
    assert not any(each.target == str(folder) for each in mounts([str(folder / "venv")], member))
    folder.chmod(0o010)
    owner = User(uid=found.st_uid or 4321, gid=found.st_gid)
    if owner.uid == found.st_uid:
        assert mounts([str(folder / "venv")], owner), "an owner without the right has none by its group"


def test_links_on_the_way_are_followed(tmp_path: Path) -> None:
    (tmp_path / "python-3.11.7/bin").mkdir(parents=True)
    (tmp_path / "python-3.11.7/bin/python").touch()
    (tmp_path / "python-3.11").symlink_to("python-3.11.7")
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to("../../python-3.11/bin/python")
    assert [each.removeprefix(str(tmp_path)) for each in ways(str(tmp_path / "venv/bin/python"))] == [
        "/venv/bin/python",
        "/python-3.11",
        "/python-3.11.7/bin/python",
    ]


def test_a_link_in_a_closed_folder_is_shown_as_what_it_leads_to(home: Path) -> None:
    (home / "python-3.11.7").mkdir()
    (home / "python-3.11").symlink_to("python-3.11.7")
    assert below(home, mounts([str(home / "python-3.11")], SOMEBODY)) == [
        ("/python-3.11", "/python-3.11.7"),
        ("/python-3.11.7", "/python-3.11.7"),
    ]


@needs_root
async def test_somebody_else_runs_the_very_program(tmp_path: Path) -> None:
    script = "id -u; pilothouse pilot --help | head -1; ls -A /root 2>&1; touch /root/x 2>&1 || echo closed"
    async with real_node(tmp_path) as node:
        pod = await node.pod(
            {
                "restartPolicy": "Never",
                "securityContext": {"runAsUser": 4321},
                "containers": [shell(script)],
            }
        )
        await node.until(lambda pod: phase(pod) in ("Succeeded", "Failed"))
        said = node.log(pod).splitlines()
    assert said[0] == "4321"
    assert said[1].startswith("Usage: "), said
    assert said[-1] == "closed"
    first = {Path(each).relative_to("/root").parts[0] for each in installation() if each.startswith("/root/")}
    listed = {line for line in said[2:-1] if not line.startswith(("ls: ", "touch: "))}
    assert listed <= first, "it sees what it must, and nothing else"
