"""etcd's own users: a name and a password, and a token that does not last."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.etcd import EtcdServer
from tests.store.following import brief, collect, until

from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import StoreError

pytestmark = pytest.mark.etcd


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EtcdServer]:
    """A server with the users root and reader; the latter may touch /mine/ only."""
    made = EtcdServer.start(tmp_path / "etcd")
    for path, body in (
        ("role/add", {"name": "root"}),
        ("user/add", {"name": "root", "password": "open sesame"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("role/add", {"name": "limited"}),
        (
            "role/grant",
            {
                "name": "limited",
                "perm": {"permType": "READWRITE", "key": "L21pbmUv", "range_end": "L21pbmUw"},
            },
        ),
        ("user/add", {"name": "guest", "password": "guest"}),
        ("user/grant", {"user": "guest", "role": "limited"}),
        ("enable", {}),
    ):
        request = urllib.request.Request(f"{made.endpoint}/v3/auth/{path}", json.dumps(body).encode())
        urllib.request.urlopen(request, timeout=10).close()
    yield made
    made.stop()


async def test_the_right_password_opens(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], user="root", password="open sesame")
    revision = await store.create("/a", b"1")
    async with store.watch("/a", after=revision - 1) as batches:
        assert brief(await collect(batches, 1)) == [("/a", b"1")]
    await store.close()


async def test_a_wrong_password_is_refused_with_the_users_name(server: EtcdServer) -> None:
    with pytest.raises(StoreError, match="'root'"):
        await EtcdStore.open([server.endpoint], user="root", password="open barley")


async def test_nobody_may_do_nothing(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint])
    with pytest.raises(StoreError, match="user name is empty"):
        await store.get("/a")
    await store.close()


async def test_a_user_without_the_right_is_told_so(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], user="guest", password="guest")
    await store.create("/mine/a", b"1")
    with pytest.raises(StoreError, match="permission denied"):
        await store.create("/yours/a", b"1")
    async with store.watch("/yours/", after=1) as batches:
        with pytest.raises(StoreError, match="/yours/"):
            await anext(batches)
    await store.close()


async def test_a_token_that_is_no_longer_known_is_renewed(server: EtcdServer) -> None:
    store = await EtcdStore.open([server.endpoint], user="root", password="open sesame", progress_every=0.2)
    revision = await store.create("/a", b"1")
    async with store.watch("/a", after=revision) as batches:
        # A server that starts again has forgotten the tokens it gave out.
        server.kill()
        await asyncio.to_thread(_restart, server)
        updated = await store.update("/a", b"2", revision=revision)
        assert brief(await until(batches, updated)) == [("/a", b"2")]
    await store.close()


def _restart(server: EtcdServer) -> None:
    server.begin()
    server.wait_until_healthy()


async def test_a_password_is_not_sent_in_the_clear() -> None:
    with pytest.raises(StoreError, match="https"):
        await EtcdStore.open(["http://192.0.2.1:2379"], user="root", password="open sesame")
