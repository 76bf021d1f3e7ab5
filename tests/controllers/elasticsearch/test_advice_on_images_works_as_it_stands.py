"""Advice on images, followed to the letter on `pilothouse up` with a real Elasticsearch: an image that is missing, one that is wrong, and one of another version."""

from __future__ import annotations

import asyncio
import re
import tarfile
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.docs_commands import typed
from tests.kit.elasticsearch_on_up import ElasticsearchOnUp, archive, pool

from pilothouse.api.objects import Object
from pilothouse.meta.errors import StatusError

IMPORT = re.compile(r"pilothouse image import \S+ FILE\S*[^;(]*")
FETCH = re.compile(r"PILOTHOUSE_DATA=\S+ examples/fetch-elasticsearch \S+")


def named(message: str) -> str:
    """The one command that a message names to import an image."""
    [command] = set(IMPORT.findall(message))
    return str(command).strip()


async def follow(command: str, file: Path, installation: ElasticsearchOnUp) -> None:
    """Type what was advised, with a file in the place of FILE."""
    script = re.sub(r"\bFILE\S*", str(file), command)
    done = await asyncio.to_thread(typed, script, installation.data, seconds=300)
    assert done.returncode == 0, done.stderr


def restarts(pod: Object) -> int:
    return int(pod.status["containerStatuses"][0]["restartCount"])


@needs_root
@pytest.mark.long
@pytest.mark.timeout(900)
async def test_each_command_that_a_status_names_does_what_it_says(tmp_path: Path) -> None:
    old, _ = archive("7.17.29"), archive("8.17.0")
    (tmp_path / "notes" / "lib").mkdir(parents=True)
    wrong = tmp_path / "wrong.tar.gz"
    with tarfile.open(wrong, "w:gz") as made:
        made.add(tmp_path / "notes", "notes")

    async with ElasticsearchOnUp.open(tmp_path, versions=()) as installation:
        walk = await installation.cluster("walk", pools=[pool("data", 1)], version="7.17.29")
        seen = await walk.until(lambda seen: seen.reason("Degraded") == "ErrImageNeverPull")
        assert seen.reason("VersionAccepted") == "ImageMissing"
        missing = named(seen.message("Degraded"))
        assert missing == named(seen.message("Progressing")), "kubectl shows it as MESSAGE"
        assert "--strip-components 1" in missing
        assert missing in installation.plane.run("why", "esc", "walk").stdout

        # What it brings is the wrong file; that is said, and what would be right.
        await follow(missing, wrong, installation)
        seen = await walk.until(lambda seen: seen.reason("Degraded") == "HookFailed", seconds=60)
        assert seen.reason("VersionAccepted") == "WrongImage"
        again = named(seen.message("Degraded"))
        assert again == named(seen.message("Progressing"))
        [pod] = await walk.pods()

        # The right one is taken up by the pod that there is, though it runs, without a word from anybody.
        await follow(again, old, installation)
        await walk.until(lambda seen: seen.is_done and seen.version == "7.17.29")
        [same] = await walk.pods()
        assert (same.uid, restarts(same)) == (pod.uid, 1)

        # Another version: nothing is taken down before it is there.
        await walk.patch({"version": "8.17.0"})
        seen = await walk.until(lambda seen: seen.reason("VersionAccepted") == "ImageMissing")
        assert seen.reason("Degraded") == "ImageMissing"
        assert (seen.version, seen.ready) == ("7.17.29", 1)
        assert f"is not on node {pod.spec['nodeName']}," in seen.message("Degraded")
        [fetching] = set(FETCH.findall(seen.message("Degraded")))
        await follow(fetching, old, installation)
        seen = await walk.until(lambda seen: seen.is_done and seen.version == "8.17.0")
        assert seen.reason("VersionAccepted") == "Running"
        with pytest.raises(StatusError, match=r"can't go back from 8\.17\.0 to 7\.17\.29") as caught:
            await walk.patch({"version": "7.17.29"})
        assert caught.value.code == 422
