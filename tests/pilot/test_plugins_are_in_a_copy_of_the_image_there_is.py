"""The copy that plugins are installed into follows the image: another of the same version too, and none is left behind."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pilothouse.api.objects import Tree
from pilothouse.pilot.driver import DesiredState, HookFailed, InstanceEnvironment
from pilothouse.pilot.drivers.elasticsearch import image_copy, plugins
from pilothouse.pilot.drivers.elasticsearch.elasticsearch_driver import Elasticsearch

INSTALLER = """#!/bin/sh
# Knows its own folder, as Elasticsearch's does, and every plugin but "bad".
home=$(cd "$(dirname "$0")/.." && pwd)
verb=$1; shift
[ "$1" = --batch ] && shift
[ "$1" = bad ] && { echo "ERROR: no such plugin" >&2; exit 1; }
if [ "$verb" = install ]; then mkdir "$home/plugins/$1"; else rm -r "$home/plugins/$1"; fi
"""


def an_image(folder: Path, word: str, *own: str) -> Path:
    for part in ("bin", "lib", "plugins"):
        (folder / part).mkdir(parents=True)
    (folder / "lib" / "elasticsearch-8.17.0.jar").touch()
    (folder / "lib" / "word").write_text(word)
    (folder / "bin" / "elasticsearch").touch(0o755)
    (folder / "bin" / "elasticsearch-plugin").write_text(INSTALLER)
    (folder / "bin" / "elasticsearch-plugin").chmod(0o755)
    for name in own:
        (folder / "plugins" / name).mkdir()
        (folder / "plugins" / name / "plugin.jar").write_text(word)
    return folder


async def start(image: Path, data: Path, *names: str, leaves: bool = False) -> Path:
    """A pilot's process begins: where Elasticsearch then runs."""
    wanted: list[Tree] = [{"name": name} for name in names]
    driver = Elasticsearch(
        InstanceEnvironment("es-demo-data-0", "default", "127.70.0.1", data, {"ES_HOME": str(image)})
    )
    desired = DesiredState(1, "a", {"elasticsearch": {"plugins": wanted}, "decommission": leaves})
    (hook,) = (hook for hook in driver.hooks("PreStart", desired) if hook.name == "InstallPlugins")
    await hook.run()
    return Path(driver.start(desired).argv[0]).parents[1]


def broken(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def copies(data: Path) -> list[Path]:
    return sorted(path for path in data.iterdir() if path.name.startswith("home-"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


async def test_another_image_of_the_same_version_is_copied_anew(tmp_path: Path, data: Path) -> None:
    image = an_image(tmp_path / "image", "first")
    first = await start(image, data, "x")
    assert (first / "lib" / "word").read_text() == "first"
    # What is mounted changes; where does not.
    shutil.rmtree(image)
    an_image(image, "other")
    second = await start(image, data, "x")
    assert (second / "lib" / "word").read_text() == "other"
    assert (second / "plugins" / "x").is_dir()
    assert copies(data) == [second], "the first is not left behind"


async def test_a_copy_is_used_again_as_it_is(tmp_path: Path, data: Path) -> None:
    image = an_image(tmp_path / "image", "same")
    first = await start(image, data, "x")
    before = first.stat().st_ino
    assert (await start(image, data, "x", "y")).stat().st_ino == before
    assert {path.name for path in (first / "plugins").iterdir()} == {"x", "y"}


async def test_a_file_that_was_changed_makes_another_image(tmp_path: Path) -> None:
    image = an_image(tmp_path / "image", "word")
    before = image_copy.copy_of(image, "8.17.0", tmp_path)
    assert image_copy.copy_of(image, "8.17.0", tmp_path) == before
    os.utime(image / "lib" / "word", (1, 1))
    assert image_copy.copy_of(image, "8.17.0", tmp_path) != before


async def test_there_is_no_copy_without_plugins(tmp_path: Path, data: Path) -> None:
    image = an_image(tmp_path / "image", "word")
    assert await start(image, data, "x") != image
    assert await start(image, data) == image
    assert copies(data) == []


async def test_the_copy_that_runs_stays_until_the_next_one_is_whole(tmp_path: Path, data: Path) -> None:
    image = an_image(tmp_path / "image", "first")
    first = await start(image, data, "x")
    os.utime(image / "lib" / "word", (1, 1))
    with pytest.raises(HookFailed, match="no such plugin"):
        await start(image, data, "x", "bad")
    assert first in copies(data)


async def test_where_there_is_no_room_for_two_the_earlier_copy_goes_first(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = an_image(tmp_path / "image", "first")
    first = await start(image, data, "x")
    os.utime(image / "lib" / "word", (1, 1))
    copytree = shutil.copytree

    def crowded(*given: Any, **more: Any) -> None:
        copytree(*given, **more)
        if first.exists():
            # As copytree tells of files that could not be copied.
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise shutil.Error([("from", "to", str(full))])

    monkeypatch.setattr(shutil, "copytree", crowded)
    second = await start(image, data, "x")
    assert copies(data) == [second] != [first]


async def test_a_copy_that_fails_for_another_reason_costs_no_other(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = an_image(tmp_path / "image", "first")
    first = await start(image, data, "x")
    os.utime(image / "lib" / "word", (1, 1))
    monkeypatch.setattr(shutil, "copytree", broken)
    with pytest.raises(HookFailed, match="Input/output error"):
        await start(image, data, "x")
    assert copies(data) == [first]


@pytest.mark.parametrize(
    ("module", "function", "says"),
    [(shutil, "copytree", "Input/output error"), (os, "scandir", "can't be read")],
    ids=["it can't be made", "the image can't be read"],
)
async def test_a_node_that_is_to_give_its_data_away_starts_without_a_copy(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, says: str
) -> None:
    image = an_image(tmp_path / "image", "word")
    monkeypatch.setattr(module, function, broken)
    with pytest.raises(HookFailed, match=says):
        await start(image, data, "x")
    assert await start(image, data, "x", leaves=True) == image


async def test_a_copy_that_takes_nothing_more_is_told_of_with_each_plugin(tmp_path: Path) -> None:
    image = an_image(tmp_path / "image", "word")
    target = image_copy.copy_of(image, "8.17.0", tmp_path)
    image_copy.make(image, target)
    # Where each came from is written down there, and now it can't be.
    (target / "plugins.json").mkdir()
    with pytest.raises(HookFailed, match="can't be changed") as failed:
        await plugins.install(target, image, [{"name": "x"}, {"name": "y"}], dict(os.environ))
    told = failed.value.status["plugins"]
    assert [(each["name"], each["status"]) for each in told] == [("x", "Failed"), ("y", "Failed")]


async def test_what_an_interrupted_copy_has_left_does_not_count(tmp_path: Path, data: Path) -> None:
    image = an_image(tmp_path / "image", "word", "own")
    target = image_copy.copy_of(image, "8.17.0", data)
    (target.with_name(f"{target.name}.new") / "lib").mkdir(parents=True)
    home = await start(image, data, "own")
    assert (home / "lib" / "word").read_text() == "word"
    assert copies(data) == [target]


async def test_a_plugin_of_the_image_comes_back_as_a_whole(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = an_image(tmp_path / "image", "word", "own")
    target = image_copy.copy_of(image, "8.17.0", data)
    image_copy.make(image, target)
    shutil.rmtree(target / "plugins" / "own")

    def stop(*_: object, **__: object) -> None:
        (target / "own.new").mkdir()
        raise OSError("the disk is full")

    wanted = [{"name": "own"}]
    with monkeypatch.context() as broken:
        broken.setattr(shutil, "copytree", stop)
        with pytest.raises(HookFailed, match="the disk is full") as failed:
            await plugins.install(target, image, wanted, dict(os.environ))
    assert failed.value.status["plugins"][0]["status"] == "Failed"
    assert not (target / "plugins" / "own").exists(), "a part of a plugin is none"
    assert await plugins.install(target, image, wanted, dict(os.environ)) == [
        {"name": "own", "status": "Installed"}
    ]
    assert (target / "plugins" / "own" / "plugin.jar").read_text() == "word"
