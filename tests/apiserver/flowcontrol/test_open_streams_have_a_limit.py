"""Watches, logs and sessions go on when their request has given back its place: how many a user has is counted apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
from tests.kit.core import CoreServer
from tests.kit.rbac_objects import bind, cluster_role, place, rule

from pilothouse.apiserver.flowcontrol.stream_limits import WATCHES_OF_USER, StreamLimit
from pilothouse.apiserver.server.messages import Request, StreamChunk, StreamingResponse, StreamSink, User
from pilothouse.meta.errors import StatusError

ALICE, BOB = User("alice", groups=("system:authenticated",)), User("bob", groups=("system:authenticated",))
ROOT = User("root", groups=("system:masters",))


def account(namespace: str, name: str, pod: str = "") -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    extra = {"authentication.kubernetes.io/pod-name": (pod,)} if pod else {}
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups, extra=extra)


class Unread:
    """A sink that nothing is written to."""

    closed = False

    def write(self, chunk: StreamChunk) -> None:
        raise AssertionError(chunk)

    def buffered(self) -> int:
        return 0


async def endless(sink: StreamSink) -> None:
    await asyncio.Event().wait()


class Opened:
    """Streams that are open under a limit."""

    def __init__(self, limit: StreamLimit) -> None:
        self._limit = limit
        self._running: list[asyncio.Task[None]] = []

    async def add(self, user: User, impersonated: User | None = None) -> None:
        request = Request("GET", "/", user=impersonated or user, impersonator=user if impersonated else None)
        self._limit.check(request)
        answer = self._limit.counted(request, StreamingResponse(endless))
        assert isinstance(answer, StreamingResponse)
        self._running.append(asyncio.ensure_future(answer.run(Unread())))
        await asyncio.sleep(0)

    async def end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    made = Opened(StreamLimit("sessions", of_user=3, of_namespace=5))
    yield made
    await made.end()


async def test_a_user_has_so_many_and_others_have_theirs(opened: Opened) -> None:
    for _ in range(3):
        await opened.add(ALICE)
    with pytest.raises(StatusError) as refused:
        await opened.add(ALICE)
    assert refused.value.code == 429
    assert '"alice" has 3 sessions open, which is the limit' in refused.value.message
    await opened.add(BOB)
    await opened.end()
    await opened.add(ALICE)


async def test_accounts_of_a_namespace_are_counted_together(opened: Opened) -> None:
    for number in range(5):
        await opened.add(account("a", f"u{number}"))
    with pytest.raises(StatusError, match="the service accounts of namespace a have 5"):
        await opened.add(account("a", "u5"))
    await opened.add(account("b", "u"))


async def test_pods_of_one_account_have_their_own(opened: Opened) -> None:
    for _ in range(3):
        await opened.add(account("a", "db", "db-0"))
    await opened.add(account("a", "db", "db-1"))
    with pytest.raises(StatusError):
        await opened.add(account("a", "db", "db-0"))


async def test_an_impersonator_uses_its_own(opened: Opened) -> None:
    for number in range(3):
        await opened.add(ALICE, User(f"somebody-{number}"))
    with pytest.raises(StatusError):
        await opened.add(ALICE, BOB)


async def test_the_system_has_no_limit(opened: Opened) -> None:
    for _ in range(20):
        await opened.add(ROOT)


def test_watches_of_a_server_are_limited() -> None:
    with CoreServer() as server:
        for obj in (
            cluster_role("watcher", rule("list watch", "configmaps")),
            bind("", "watcher", "ClusterRole/watcher", "User/alice", "User/bob"),
        ):
            server.send("POST", place(obj), obj).expect(201)
        path = "/api/v1/namespaces/default/configmaps"
        with ExitStack() as stack:
            for _ in range(WATCHES_OF_USER):
                stack.enter_context(server.watching(path, "", ALICE))
            refused = server.send("GET", path, query="watch=1", user=ALICE)
            assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
            assert f'"alice" has {WATCHES_OF_USER} watches open' in refused.message
            assert server.send("GET", path, query="watch=1", user=BOB).status == 200
            assert server.send("GET", path, user=ALICE).status == 200
        assert server.send("GET", path, query="watch=1", user=ALICE).status == 200
