"""A backup is taken while writers write as fast as they can; it shows what was acknowledged up to its revision, no more."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.server.wire import Wire
from tests.app.backup.test_backups_are_taken_from_running_servers import config_map, target
from tests.cli.running import Server, pilothouse
from tests.kit.http import Http
from tests.kit.servers import Target

from pilothouse.app.backup import check

COLLECTION = "/api/v1/namespaces/default/configmaps"
STANDING = 5_000
WRITERS = 24
KEYS = 40
"""That each writer writes to, again and again."""

History = dict[str, list[tuple[int, str | None]]]
"""What became of each name: the revision of every acknowledged write, and the value (None: deleted)."""


class Writer:
    """Writes its own names over a connection of its own, as fast as answers come."""

    def __init__(self, wire: Wire, name: str, history: History, seed: int) -> None:
        self._wire = wire
        self._name = name
        self._history = history
        self._choice = random.Random(seed)

    async def run(self, stop: asyncio.Event) -> None:
        serial = 0
        while not stop.is_set():
            serial += 1
            await self._write(f"{self._name}-{self._choice.randrange(KEYS)}", str(serial))
        await self._wire.close()

    async def _write(self, key: str, value: str) -> None:
        known = self._history.setdefault(key, [])
        path = f"{COLLECTION}/{key}"
        if not known or known[-1][1] is None:
            made = await self._ask("POST", COLLECTION, 201, config_map(key, value))
            known.append((revision_of(made), value))
        elif self._choice.random() < 0.1:
            await self._ask("DELETE", path, 200)
            # A revision at which it had happened: deletes don't tell theirs, and nobody else writes the name.
            listed = await self._ask("GET", f"{COLLECTION}?fieldSelector=metadata.name%3D{key}", 200)
            assert listed["items"] == []
            known.append((revision_of(listed), None))
        else:
            known.append((revision_of(await self._ask("PUT", path, 200, config_map(key, value))), value))

    async def _ask(self, method: str, path: str, status: int, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        reply = await self._wire.get(path, "Content-Type: application/json", method=method, body=data)
        assert reply.status == status, reply.body
        told: dict[str, Any] = reply.json()
        return told


def revision_of(body: dict[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


async def connected(server: Target) -> Wire:
    # A library's client would take more of the machine than the server does.
    host, _, port = server.url.removeprefix("https://").partition(":")
    return Wire(*await asyncio.open_connection(host, int(port), ssl=server.trust()))


def standing_at(history: History, revision: int) -> tuple[dict[str, str], set[str]]:
    """Which names had which value then, and which names can't be told: a deletion was under way."""
    values: dict[str, str] = {}
    doubtful: set[str] = set()
    for key, writes in history.items():
        before = [write for write in writes if write[0] <= revision]
        after = [write for write in writes if write[0] > revision]
        if after and after[0][1] is None:
            doubtful.add(key)
        elif before and before[-1][1] is not None:
            values[key] = before[-1][1]
    return values, doubtful


async def fill(http: Http) -> None:
    names = iter(range(STANDING))

    async def one_after_the_other() -> None:
        for n in names:
            (await http.post(COLLECTION, config_map(f"standing-{n}", "x" * 1000))).expect(201)

    await asyncio.gather(*(one_after_the_other() for _ in range(16)))


async def back_up(server: Server, file: Path) -> None:
    done = await asyncio.to_thread(pilothouse, "backup", str(file), "--kubeconfig", str(server.kubeconfig))
    assert done.returncode == 0, done.stderr


@pytest.mark.long
async def test_a_backup_under_load_is_of_one_revision(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    history: History = {}
    stop = asyncio.Event()
    files = [tmp_path / f"{n}.backup" for n in range(3)]
    with Server(tmp_path / "old") as old:
        async with Http.to(target(old, tmp_path / "pki")) as http:
            await fill(http)
            began = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for n in range(WRITERS):
                    wire = await connected(http.target)
                    group.create_task(Writer(wire, f"w{n}", history, seed=n).run(stop))
                for file in files:
                    await back_up(old, file)
                stop.set()
            seconds = time.monotonic() - began
            reached = int((await http.get(COLLECTION, limit=1)).json["metadata"]["resourceVersion"])
    written = sum(map(len, history.values()))
    record_property("writes per second", round(written / seconds))
    print(f"{written} writes in {seconds:.1f} s ({written / seconds:.0f}/s) during {len(files)} backups")

    revisions = []
    for n, file in enumerate(files):
        revision = check(file).header.revision
        revisions.append(revision)
        data = tmp_path / f"new-{n}"
        assert pilothouse("restore", str(file), "--data", str(data)).returncode == 0
        with Server(data) as new:
            async with Http.to(target(new, tmp_path / "pki")) as http:
                listed = (await http.get(COLLECTION)).expect(200)
                found = {item["metadata"]["name"]: item["data"]["value"] for item in listed["items"]}
                standing = {name for name in found if name.startswith("standing-")}
                assert len(standing) == STANDING
                values, doubtful = standing_at(history, revision)
                rest = {name: value for name, value in found.items() if name not in standing | doubtful}
                assert rest == values
                for remembered in (revision, reached):
                    async with http.watch(COLLECTION, resourceVersion=remembered) as watch:
                        event = await watch.next()
                    assert (event.type, event.object["code"]) == ("ERROR", 410)
    assert revisions == sorted(revisions)
    assert revisions[0] < revisions[-1] <= reached, (
        "nothing was written between two backups: that shows nothing"
    )
