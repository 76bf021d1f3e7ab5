"""Real databases of the machine, three at a time, as the examples have them: on filesystems of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually
from tests.node.volumes.conftest import needed

from pilothouse.node.volumes.mount_table import mounts, under

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[3] / "examples"
MI = 1 << 20


@dataclass(frozen=True)
class Database:
    """One of the examples, and how to talk to it from outside."""

    name: str
    program: str
    write: tuple[str, ...]
    """A command that keeps KEY and VALUE, and ends when the server has them on its disk."""
    read: tuple[str, ...]
    begin: tuple[str, ...] = ()

    def run(self, words: tuple[str, ...], address: str, key: str = "", value: str = "") -> str:
        filled = [
            word.replace("ADDRESS", address).replace("KEY", key).replace("VALUE", value) for word in words
        ]
        done = subprocess.run(filled, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout.strip()


_PSQL = ("psql", "-h", "ADDRESS", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qtAc")
DATABASES = [
    Database(
        "redis",
        "redis-server",
        ("redis-cli", "-h", "ADDRESS", "set", "KEY", "VALUE"),
        ("redis-cli", "-h", "ADDRESS", "get", "KEY"),
    ),
    Database(
        "postgres",
        "postgres",
        (*_PSQL, "insert into kept values ('KEY', 'VALUE')"),
        (*_PSQL, "select value from kept where key = 'KEY'"),
        (*_PSQL, "create table kept (key text primary key, value text)"),
    ),
]


@pytest.fixture(params=DATABASES, ids=lambda one: one.name)
def database(request: pytest.FixtureRequest, mkfs: None) -> Database:
    one: Database = request.param
    needed(one.program)
    return one


async def pods(plane: UpPlane, database: Database) -> list[dict[str, Any]]:
    """All three, once they are ready."""

    async def look() -> list[dict[str, Any]] | None:
        got = await plane.kubectl("get", "pods", "-l", f"app={database.name}", "-o", "json")
        found: list[dict[str, Any]] = json.loads(got.out)["items"] if got.code == 0 else []
        ready = [
            one
            for one in found
            if "deletionTimestamp" not in one["metadata"]
            and all(each.get("ready") for each in one["status"].get("containerStatuses") or [{}])
        ]
        return ready if len(ready) == 3 else None

    return await eventually(look, seconds=120)


def address(pod: dict[str, Any]) -> str:
    return str(pod["status"]["podIP"])


def uid(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["uid"])


async def size_within(plane: UpPlane, pod: dict[str, Any]) -> int:
    """What df says inside a pod."""
    asked = ("exec", pod["metadata"]["name"], "--", "df", "--block-size=1", "--output=size", "/data")
    return int((await plane.kubectl(*asked)).ok().split()[1])


async def test_through_everything_that_may_happen(tmp_path: Path, database: Database) -> None:
    with UpPlane(tmp_path) as plane:
        applied = await plane.kubectl("apply", "-f", str(EXAMPLES / f"{database.name}.yaml"))
        assert applied.code == 0, applied.err
        three = await pods(plane, database)
        for pod in three:
            if database.begin:
                database.run(database.begin, address(pod))
            database.run(database.write, address(pod), "name", pod["metadata"]["name"])

        async def all_there() -> list[dict[str, Any]]:
            now = await pods(plane, database)
            for pod in now:
                assert database.run(database.read, address(pod), "name") == pod["metadata"]["name"]
            return now

        # A pod is deleted, and another takes its place and its volume.
        first = three[0]
        await plane.kubectl("delete", "pod", first["metadata"]["name"], "--wait=false")

        async def replaced() -> bool:
            got = await plane.kubectl(
                "get", "pod", first["metadata"]["name"], "-o", "jsonpath={.metadata.uid}"
            )
            return got.out not in ("", uid(first))

        await eventually(replaced, seconds=60)
        before = await all_there()

        # The agent is killed: its successor finds everything running.
        agent = plane.role("node")["pid"]
        os.kill(agent, signal.SIGKILL)

        async def another_agent() -> bool:
            return (plane.data / "logs" / "node.log").read_text().count("is ready at") == 2

        await eventually(another_agent, seconds=60)
        after = await all_there()
        assert {uid(pod) for pod in after} == {uid(pod) for pod in before}
        assert all(each["restartCount"] == 0 for pod in after for each in pod["status"]["containerStatuses"])

        # All of it is stopped, and started again.
        assert plane.stop() == 0
        assert under(mounts(), plane.data) == []
        plane.start()
        await all_there()

        # What had been given to it is given back.
        await plane.kubectl("delete", "statefulset", database.name)
        await plane.kubectl("delete", "pvc", "--all", "--timeout=60s")

        async def nothing_left() -> bool:
            got = await plane.kubectl("get", "pv", "-o", "name")
            return not got.out and not any((plane.data / "node" / "volumes").iterdir())

        await eventually(nothing_left, seconds=60)


async def test_a_volume_grows_while_its_database_writes(tmp_path: Path, database: Database) -> None:
    with UpPlane(tmp_path) as plane:
        await plane.kubectl("apply", "-f", str(EXAMPLES / f"{database.name}.yaml"))
        pod = (await pods(plane, database))[0]
        if database.begin:
            database.run(database.begin, address(pod))
        before = await size_within(plane, pod)
        assert before <= 320 * MI
        written: list[str] = []
        enough = asyncio.Event()

        def write() -> None:
            while not enough.is_set():
                key = f"key-{len(written)}"
                database.run(database.write, address(pod), key, f"value of {key}")
                written.append(key)

        writing = asyncio.create_task(asyncio.to_thread(write))

        async def has_written(least: int) -> None:
            async def look() -> bool:
                assert not writing.done(), writing.exception()
                return len(written) >= least

            await eventually(look, seconds=60)

        await has_written(20)
        name = pod["metadata"]["name"]
        grown = {"spec": {"resources": {"requests": {"storage": "640Mi"}}}}
        await plane.kubectl("patch", "pvc", f"data-{name}", "-p", json.dumps(grown))

        async def is_larger() -> bool:
            claim = ("get", "pvc", f"data-{name}", "-o", "jsonpath={.status.capacity.storage}")
            return (await plane.kubectl(*claim)).out == "640Mi"

        await eventually(is_larger, seconds=60)
        assert await size_within(plane, pod) > before + 256 * MI
        await has_written(len(written) + 20)
        enough.set()
        await writing
        [same] = [one for one in await pods(plane, database) if one["metadata"]["name"] == name]
        assert uid(same) == uid(pod)
        assert same["status"]["containerStatuses"][0]["restartCount"] == 0
        for key in written:
            assert database.run(database.read, address(pod), key) == f"value of {key}"
