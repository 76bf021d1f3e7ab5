"""Plugins, by the installer of a real Elasticsearch: from a file, an URL and the image; one that does not fit is told in its words."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.elasticsearch_plugins import plugin
from tests.kit.file_server import serving_files
from tests.kit.real_elasticsearch import unpacked
from tests.kit.tools import MissingTool

from pilothouse.api.objects import Tree
from pilothouse.pilot.driver import HookFailed
from pilothouse.pilot.drivers.elasticsearch.plugins import install

VERSION = "8.17.0"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return unpacked(VERSION, tmp_path_factory.mktemp("image"))
    except MissingTool as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def archives(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plugins, good and bad."""
    folder = tmp_path_factory.mktemp("archives")
    try:
        for name in ("greeting", "farewell"):
            plugin(image, folder, name, VERSION)
    except MissingTool as missing:
        pytest.skip(str(missing))
    plugin(image, folder, "elder", VERSION, fits="7.0.0")
    plugin(image, folder, "climber", VERSION, beside="../../../climbed")
    return folder


@pytest.fixture
def shop(archives: Path) -> Iterator[str]:
    """A web server that has the same."""
    with serving_files(archives) as url:
        yield url


def environ(home: Path) -> dict[str, str]:
    java = shutil.which("java")
    assert java is not None
    conf = home / "config"
    return {**os.environ, "ES_JAVA_HOME": str(Path(java).resolve().parents[1]), "ES_PATH_CONF": str(conf)}


async def wanting(home: Path, image: Path, *wanted: Tree) -> list[Tree]:
    return await install(home, image, wanted, environ(image))


def installed(name: str) -> Tree:
    return {"name": name, "status": "Installed"}


async def test_from_a_file_an_url_and_the_image(
    tmp_path: Path, image: Path, archives: Path, shop: str
) -> None:
    home, own = tmp_path / "home", tmp_path / "image"
    await asyncio.to_thread(shutil.copytree, image, own, symlinks=True)
    await wanting(own, image, {"name": "farewell", "url": f"file://{archives}/farewell.zip"})
    by_url = {"name": "greeting", "url": f"{shop}/greeting.zip"}
    assert await wanting(home, own, by_url, {"name": "farewell"}) == [
        installed("greeting"),
        installed("farewell"),
    ]
    assert (home / "plugins" / "greeting" / "greeting.jar").exists()
    assert not (own / "plugins" / "greeting").exists(), "the image is only read"

    by_file = {"name": "greeting", "url": f"file://{archives}/greeting.zip"}
    before = (home / "plugins" / "greeting").stat().st_ctime_ns
    await wanting(home, own, by_file)
    assert (home / "plugins" / "greeting").stat().st_ctime_ns != before, "from elsewhere, it is another"
    assert (home / "plugins" / "farewell").exists(), "what the image has stays"
    assert await wanting(home, own, {"name": "farewell"}) == [installed("farewell")]
    assert not (home / "plugins" / "greeting").exists()


@pytest.mark.parametrize(
    ("name", "archive", "words"),
    [
        ("elder", "elder", "was built for Elasticsearch version 7.0.0 but version 8.17.0 is running"),
        ("climber", "climber", "resolving outside of plugin directory"),
        ("absent", "absent", "absent.zip"),
        ("goodbye", "farewell", "contains the plugin farewell: use that name"),
    ],
)
async def test_one_that_can_not_be_installed_is_told_in_the_installers_words(
    name: str, archive: str, words: str, tmp_path: Path, image: Path, archives: Path
) -> None:
    home = tmp_path / "deep" / "home"
    home.parent.mkdir()
    bad = {"name": name, "url": f"file://{archives}/{archive}.zip"}
    good = {"name": "greeting", "url": f"file://{archives}/greeting.zip"}
    with pytest.raises(HookFailed) as failed:
        await wanting(home, image, bad, good)
    told, other = failed.value.status["plugins"]
    assert (told["name"], told["status"]) == (name, "Failed")
    assert words in told["message"]
    assert "CliToolLauncher" not in told["message"], "where in its code it happened is for nobody"
    assert other == installed("greeting"), "the others are"
    assert {path.name for path in (home / "plugins").iterdir()} == {"greeting"}
    assert not await asyncio.to_thread(lambda: list(tmp_path.rglob("climbed")))
