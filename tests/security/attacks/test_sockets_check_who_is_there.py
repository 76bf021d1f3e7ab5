"""Each socket of ours checks its peer: another user of the machine neither attaches to a container nor poses as its shim."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from tests.kit.containers import needs_root
from tests.kit.other_users import as_user, serving_as

from pilothouse.app.status_server import MOST_CONNECTIONS, StatusPage, serving
from pilothouse.supervise.attach import attach
from pilothouse.supervise.container_records import ATTACH
from pilothouse.supervise.launch_spec import LaunchError
from pilothouse.supervise.shim.attach_clients import STDOUT, AttachClients, AttachInput, frame

STRANGER = 64_997


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may use: as if what keeps others out of a container's folder had failed."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-attack-") as name:
        os.chmod(name, 0o777)
        yield Path(name)


def _served(clients: AttachClients) -> None:
    """One round of the shim's: who is there is let in, and told what the program says."""
    clients.happened(clients.listener.fileno(), select.POLLIN)
    clients.broadcast(STDOUT, b"secret")


@needs_root
def test_another_user_is_not_attached(open_folder: Path) -> None:
    path = open_folder / ATTACH
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    clients = AttachClients(str(path), AttachInput(writing, once=False, terminal=False))
    path.chmod(0o777)
    try:

        def attack() -> str:
            with socket.socket(socket.AF_UNIX) as wire:
                wire.settimeout(30)
                wire.connect(str(path))
                with contextlib.suppress(ConnectionError):
                    wire.sendall(frame(0, b"rm -rf /\n"))
                try:
                    return wire.recv(100).decode()
                except ConnectionError:
                    return ""

        assert as_user(STRANGER, attack, meanwhile=lambda: _once_ready(clients)) == ""
        with pytest.raises(BlockingIOError):
            os.read(reading, 100)
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(30)
            wire.connect(str(path))
            _once_ready(clients)
            assert wire.recv(100) == frame(STDOUT, b"secret")
    finally:
        clients.listener.close()
        os.close(reading)


def _once_ready(clients: AttachClients) -> None:
    assert select.select([clients.listener], [], [], 30)[0]
    _served(clients)


@needs_root
async def test_a_stranger_that_listens_in_the_shims_place_is_not_talked_to(open_folder: Path) -> None:
    with serving_as(STRANGER, open_folder / ATTACH), pytest.raises(LaunchError, match=f"user {STRANGER}"):
        await attach(open_folder)


async def test_idle_connections_keep_nobody_from_reading_a_managers_health() -> None:
    async with serving("127.0.0.1", 0, {"/healthz": lambda: StatusPage(200, "ok")}) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * MOST_CONNECTIONS)]
        try:
            async with aiohttp.ClientSession() as session, asyncio.timeout(30):
                answer = await session.get(f"http://127.0.0.1:{port}/healthz")
                assert (answer.status, await answer.text()) == (200, "ok")
                # Those that came first have made room.
                assert await idle[0][0].read() == b""
        finally:
            for _, writer in idle:
                writer.close()
