"""The package of docs/pilots.md, installed beside us: its driver runs memcached, and its section is in the Pilot."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit import tools
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.pilots import pilot_when
from tests.kit.processes import Process, free_port
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import CoreEvent, KindName, Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.meta.errors import StatusError

PAGE = Path(__file__).parents[2] / "docs" / "pilots.md"
BLOCK = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.M | re.S)
NAME = "cache-0"
PILOT_V1ALPHA1 = KindName(Pilot.group, "v1alpha1", Pilot.kind, Pilot.plural)


def install(folder: Path) -> Path:
    """Write the files of the page, and what an installer makes of its pyproject.toml."""
    for name, text in BLOCK.findall(PAGE.read_text()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = configparser.ConfigParser()
    points.read_dict(project["entry-points"])
    with (info / "entry_points.txt").open("w") as file:
        points.write(file)
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


@pytest.fixture
def server(tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PilothouseServer]:
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(package))
        found = PilothouseServer(tmp_path / "server", "memory")
    with closing(found):
        yield found


@asynccontextmanager
async def connected(server: PilothouseServer) -> AsyncIterator[Api]:
    access = load(server.target.kubeconfig)
    async with HttpTransport.open(access, SystemClock(), agent="test") as transport:
        yield Api(transport, Random(1), manager="test")


def command(package: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pilothouse", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    return done.stdout


def pilot_tree(**spec: Any) -> Tree:
    return {
        "apiVersion": Pilot.api_version,
        "kind": Pilot.kind,
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"application": "memcached", **spec},
    }


@asynccontextmanager
async def piloted(
    server: PilothouseServer, package: Path, folder: Path, ports: Sequence[int]
) -> AsyncIterator[Process]:
    """A pilot outside any pod, with memcached."""
    program = tools.find("memcached")
    data = folder / "data"
    data.mkdir()
    ready, live, port = ports
    argv = [sys.executable, "-m", "pilothouse", "pilot", "memcached"]
    argv += ["--name", NAME, "--namespace", "default", "--address", "127.0.0.1", "--data", str(data)]
    argv += ["--kubeconfig", str(server.target.kubeconfig)]
    argv += ["--ready-port", str(ready), "--live-port", str(live)]
    env = {
        "PYTHONPATH": str(package),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "MEMCACHED_PORT": str(port),
    }
    process = Process.start("pilothouse pilot", argv, log=folder / "pilot.log", env=env)
    try:
        yield process
    finally:
        process.end()


def metrics(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found: bytes = answer.read()
        return found


def without_description(package: Path) -> None:
    [points] = package.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().partition("[pilothouse.applications]")[0])


def items(count: int) -> Any:
    return lambda pilot: pilot.is_true("Ready") and pilot.at("status", "memcached", "items") == count


def store(port: int, key: str) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(f"set {key} 0 0 1\r\nx\r\n".encode())
        assert line.recv(100) == b"STORED\r\n"


async def test_its_driver_runs_the_database_and_reports_in_a_section_of_its_own(
    tmp_path: Path, package: Path, server: PilothouseServer
) -> None:
    ports = [free_port(), free_port(), free_port()]
    async with connected(server) as api, piloted(server, package, tmp_path, ports) as process:
        made = await api.create(Pilot, pilot_tree(memcached={}))
        assert made.spec["memcached"] == {"connections": 1024}
        ready = await pilot_when(api, NAME, "default", items(0))
        assert ready.status["memcached"] == {"items": 0, "evictions": 0}
        assert ready.status["version"]
        assert (ready.condition("Ready") or {})["reason"] == "MemcachedStarted"
        assert b"\nmemcached_items 0" in metrics(ports[0])

        # Another section is another configuration: the database is restarted for it.
        store(ports[2], "a")
        changed = await api.patch(Pilot, NAME, "default", {"spec": {"memcached": {"connections": 99}}})

        def is_restarted(pilot: Object) -> bool:
            running = pilot.at("status", "configuration", "generation")
            return bool(items(0)(pilot) and running == changed.generation and pilot.status["restarts"] == 1)

        await pilot_when(api, NAME, "default", is_restarted)

        process.end()
        stopped = await pilot_when(api, NAME, "default", lambda pilot: pilot.is_true("Stopped"))
        assert "memcached" not in stopped.status


async def test_its_section_is_validated_and_shown(package: Path, server: PilothouseServer) -> None:
    async with connected(server) as api:
        with pytest.raises(StatusError, match=r"spec\.memcached\.connections"):
            await api.create(Pilot, pilot_tree(memcached={"connections": 0}))
    listed = json.loads(command(package, "crds", "-o", "json"))
    [pilots] = [each for each in listed["items"] if each["spec"]["names"]["kind"] == "Pilot"]
    [version] = pilots["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    assert fields["spec"]["properties"]["memcached"]["properties"]["connections"]["maximum"] == 65536
    assert fields["status"]["properties"]["memcached"]["properties"].keys() == {"items", "evictions"}
    assert "Items" in [each["name"] for each in version["additionalPrinterColumns"]]


async def test_the_section_of_a_driver_without_a_description_is_kept_as_it_is(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_description(package)
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(package))
        server = PilothouseServer(tmp_path / "server", "memory")
    with closing(server):
        async with connected(server) as api:
            section = {"anything": [{"at": "all"}]}
            made = await api.create(Pilot, pilot_tree(memcached=section))
            assert made.spec["memcached"] == section
            body = {**made.tree, "status": {"memcached": section}}
            assert (await api.update(Pilot, body, subresource="status")).status["memcached"] == section
            old = await api.get(PILOT_V1ALPHA1, NAME, "default")
            back = await api.update(PILOT_V1ALPHA1, old.tree)
            assert "memcached" not in back.spec
            assert (await api.get(Pilot, NAME, "default")).spec["memcached"] == section


async def test_a_server_that_does_not_have_the_package_is_no_silent_loss(
    tmp_path: Path, package: Path
) -> None:
    ports = [free_port(), free_port(), free_port()]
    with closing(PilothouseServer(tmp_path / "server", "memory")) as server:
        async with connected(server) as api, piloted(server, package, tmp_path, ports):
            await api.create(Pilot, pilot_tree())
            await pilot_when(api, NAME, "default", lambda pilot: pilot.is_true("Ready"))

            async def warned() -> str | None:
                events = (await api.list(CoreEvent, "default")).objects
                found = (
                    each.tree["message"] for each in events if each.tree["reason"] == "StatusFieldsDropped"
                )
                return next(found, None)

            assert "evictions, items of status.memcached" in await eventually(warned)


def test_it_has_a_command(package: Path) -> None:
    assert "Run a memcached server." in command(package, "pilot", "--help")
    assert "--stop-grace" in command(package, "pilot", "memcached", "--help")


@pytest.mark.parametrize(
    "words", [("pilot", "run", "memcached"), ("crds",), ("apiserver", "--store", "memory")], ids=str
)
def test_an_entry_point_that_can_not_be_loaded_is_an_error_that_names_it(
    tmp_path: Path, package: Path, words: tuple[str, ...]
) -> None:
    shutil.rmtree(package / "pilothouse_memcached")
    data = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"] if "apiserver" in words else []
    with pytest.raises(subprocess.CalledProcessError) as raised:
        command(package, *words, *data)
    assert "entry point pilothouse_memcached.application:MEMCACHED can't be loaded" in raised.value.stderr
    assert "Traceback" not in raised.value.stderr
