from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.node.volumes.conftest import World

from pilothouse.node.interfaces import PreparedVolume, VolumeNotReady
from pilothouse.node.volumes.container_mounts import mounts
from pilothouse.node.volumes.pod_volumes import PodVolumes
from pilothouse.node.volumes.private_directories import PrivateDirectories
from pilothouse.node.volumes.removal import remove
from pilothouse.node.volumes.subpaths import SubpathError, opened
from pilothouse.supervise.launch_spec import Mount


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    (folder / "data" / "pg").mkdir(parents=True)
    (folder / "data" / "conf").write_text("x")
    (folder / "inner").symlink_to("data")
    (folder / "etc").symlink_to("/etc")
    (folder / "up").symlink_to("..")
    (folder / "data" / "out").symlink_to("../../outside")
    (tmp_path / "outside").mkdir()
    return folder


def shown(one: Mount) -> Path:
    """What a container sees; who may not mount names the part, and has it looked up in the container's view."""
    return Path(one.source, one.part)


def content(one: Mount) -> str:
    return shown(one).read_text()


def where(volume: Path, part: str) -> str:
    with opened(volume, part) as handle:
        return os.readlink(f"/proc/self/fd/{handle}")


@pytest.mark.parametrize("part", ["data/pg", "data/conf", "inner/pg", "new/deeper", "data/./pg"])
def test_what_is_within_is_opened_and_made_where_it_is_missing(volume: Path, part: str) -> None:
    assert where(volume, part) == os.path.realpath(volume / part)
    assert (volume / part).exists()


def test_what_is_made_has_the_rights_of_the_volume(volume: Path) -> None:
    volume.chmod(0o2770)
    where(volume, "new/deeper")
    assert {stat.S_IMODE((volume / part).stat().st_mode) for part in ("new", "new/deeper")} == {0o2770}


@pytest.mark.parametrize("part", ["etc", "etc/passwd", "up", "up/outside", "data/out", "../outside", "/etc"])
def test_what_leads_out_is_refused(volume: Path, part: str) -> None:
    with pytest.raises(SubpathError), opened(volume, part):
        pass


def test_a_path_through_a_file_is_refused(volume: Path) -> None:
    with pytest.raises((SubpathError, NotADirectoryError)), opened(volume, "data/conf/below"):
        pass


def test_what_was_opened_stays_what_it_was(volume: Path) -> None:
    with opened(volume, "data/pg") as handle:
        (volume / "data" / "pg").rename(volume / "data" / "moved")
        (volume / "data" / "pg").symlink_to("/etc")
        assert os.listdir(f"/proc/self/fd/{handle}") == []


async def test_containers_see_volumes_where_they_ask(world: World, volumes: PodVolumes) -> None:
    await world.config("app", {"a.conf": "1"})
    pod = await world.pod(
        {"name": "e", "emptyDir": {}},
        {"name": "c", "configMap": {"name": "app"}},
        container={
            "volumeMounts": [
                {"name": "e", "mountPath": "/data"},
                {"name": "e", "mountPath": "/ro", "readOnly": True},
                {"name": "c", "mountPath": "/etc/app"},
                {"name": "c", "mountPath": "/etc/one.conf", "subPath": "a.conf"},
                {"name": "e", "mountPath": "/mine", "subPathExpr": "$(POD)/x"},
            ]
        },
    )
    prepared = await volumes.prepare(pod)
    container = pod.spec["containers"][0]
    found = volumes.mounts(pod, container, prepared, env={"POD": "web"})
    assert [(one.target, one.read_only, one.is_file) for one in found] == [
        ("/data", False, False),
        ("/ro", True, False),
        ("/etc/app", True, False),
        ("/etc/one.conf", True, True),
        ("/mine", False, False),
    ]
    assert content(found[3]) == "1"
    assert (prepared["e"].path / "web" / "x").is_dir()
    (prepared["e"].path / "web" / "x" / "mark").write_text("x")
    assert os.listdir(shown(found[4])) == ["mark"]
    # A container that starts again is given the same, as it is then.
    again = volumes.mounts(pod, container, prepared, env={"POD": "web"})
    assert os.listdir(shown(again[4])) == ["mark"]
    await volumes.release(pod.uid)
    assert not prepared["e"].path.exists()


def test_what_root_gives_to_a_container_can_not_be_exchanged(
    root: None, volume: Path, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    container = {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "data/pg"}]}
    (one,) = mounts(container, {"v": PreparedVolume(volume)}, {}, held, PrivateDirectories(()))
    (volume / "data" / "pg").rename(volume / "data" / "moved")
    (volume / "data" / "pg").symlink_to("/etc")
    assert os.listdir(one.source) == []
    remove(held)


@pytest.mark.parametrize(
    "value", ["../hunter2", "/hunter2", "hunter2\0", "file/hunter2", "x" * 300 + "hunter2"]
)
def test_no_message_has_the_value_of_a_variable_which_may_be_secret(volume: Path, value: str) -> None:
    (volume / "file").touch()
    container = {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "$(PASSWORD)"}]}
    with pytest.raises((VolumeNotReady, ValueError)) as refused:
        mounts(container, {"v": PreparedVolume(volume)}, {"PASSWORD": value}, None, PrivateDirectories(()))
    assert "hunter2" not in str(refused.value)


def test_a_variable_that_is_not_there_is_named(volume: Path) -> None:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "$(NOBODY)"}]}
    with pytest.raises(VolumeNotReady, match="names a variable"):
        mounts(container, {"v": PreparedVolume(volume)}, {}, None, PrivateDirectories(()))
