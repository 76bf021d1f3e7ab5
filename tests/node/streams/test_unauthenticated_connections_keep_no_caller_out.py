"""Connections without credentials to the node's port: they keep nobody out, end no session, and use up no files."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.kubectl import Kubectl, newest
from tests.kit.stream_node import Plane, StreamNode
from tests.kit.waiting import eventually

from pilothouse.client import kubeconfig
from pilothouse.node.server.listener import MOST_UNAUTHENTICATED

MANY = 3 * MOST_UNAUTHENTICATED


@pytest.fixture
def kubectl(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home = tmp_path_factory.getbasetemp() / "kubectl-newest"
    return Kubectl(newest(), plane.server.target.kubeconfig, home)


def unverified() -> ssl.SSLContext:
    """For a client that shows nothing, and takes whoever answers."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def strangers(port: int, *, handshake: bool) -> AsyncIterator[None]:
    """Many connections that say nothing more."""
    context = unverified()
    writers = []
    try:
        for _ in range(MANY):
            with contextlib.suppress(OSError):
                tls = context if handshake else None
                writers.append((await asyncio.open_connection("127.0.0.1", port, ssl=tls))[1])
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


def connections_to(port: int) -> int:
    """Connections that are open, by the kernel's list: local and remote address, then the state, 01 for an open one."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


@pytest.mark.parametrize("handshake", [False, True])
async def test_they_are_few_and_nobody_is_kept_out(
    node: StreamNode, kubectl: Kubectl, handshake: bool
) -> None:
    await node.start("web", "echo hello; sleep 1000")
    async with strangers(node.port, handshake=handshake):

        async def few() -> bool:
            return connections_to(node.port) <= MOST_UNAUTHENTICATED + 8

        await eventually(few, seconds=30)
        assert (await kubectl("logs", "web")).ok() == "hello\n"


async def test_a_session_of_somebody_known_goes_on(node: StreamNode, kubectl: Kubectl) -> None:
    await node.start("web", "sleep 1000")
    session = asyncio.create_task(
        kubectl("exec", "web", "--", "sh", "-c", "echo up; sleep 3; echo still here")
    )

    async def asked() -> bool:
        return connections_to(node.port) > 0

    try:
        await eventually(asked, seconds=30)
        async with strangers(node.port, handshake=True):
            assert (await session).ok() == "up\nstill here\n"
    finally:
        session.cancel()


async def test_a_handshake_under_way_goes_on_whoever_connects_and_says_nothing(node: StreamNode) -> None:
    """As the API server's is while a pod opens one connection after the other."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = unverified().wrap_bio(incoming, outgoing)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    writer.write(outgoing.read())
    incoming.write(await asyncio.wait_for(reader.readexactly(1), 30))
    async with strangers(node.port, handshake=False):
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                said = await asyncio.wait_for(reader.read(65536), 30)
                assert said, "closed for a stranger"
                incoming.write(said)
        tls.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
        writer.write(outgoing.read())
        assert await asyncio.wait_for(reader.read(65536), 30)
    writer.transport.abort()


async def test_who_showed_a_certificate_stays_before_it_has_asked_for_anything(
    node: StreamNode, plane: Plane
) -> None:
    access = dataclasses.replace(kubeconfig.load(plane.server.target.kubeconfig), insecure=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=access.tls())
    async with strangers(node.port, handshake=True):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
        assert (await asyncio.wait_for(reader.readline(), 30)).startswith(b"HTTP/1.1 200")
    writer.transport.abort()


async def test_those_that_have_ended_leave_the_node_listening(node: StreamNode, kubectl: Kubectl) -> None:
    """Python 3.11.2 can't abort a TLS connection that has ended, which once ended the node's listening instead."""
    await node.start("web", "echo hello; sleep 1000")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=context)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.transport.abort()
    async with strangers(node.port, handshake=False):
        assert (await kubectl("logs", "web")).ok() == "hello\n"
