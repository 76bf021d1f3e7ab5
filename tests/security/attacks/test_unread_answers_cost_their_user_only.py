"""A user who may only read asks for large lists on many connections and takes none of them: the server stays small, and serves
everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.kit.http import MERGE, TABLE, Http
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.rbac_objects import bind, place

CONNECTIONS = 120
MEGABYTES = 30
MAPS = "/api/v1/namespaces/default/configmaps"
MOST = 300 * 1024 * 1024
"""Bytes that the server may have held at any time."""
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


@dataclass(frozen=True)
class Attacked:
    """A server with a list of 30 MB, which alice may read."""

    server: PilothouseServer
    version: str
    """The list's, before one of its objects changed."""

    @property
    def most_held(self) -> int:
        """The most memory that the server has had at a time."""
        status = Path(f"/proc/{self.server.process.pid}/status").read_text()
        (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        return int(peak) * 1024

    def open(self) -> ssl.SSLSocket:
        """A connection that holds as little as it can of what it is sent."""
        at = urlsplit(self.server.target.url)
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(60)
        plain.connect((at.hostname, at.port))
        context = ssl.create_default_context(cafile=str(self.server.target.access.ca))
        return context.wrap_socket(plain, server_hostname=at.hostname)

    def ask(self, connection: ssl.SSLSocket, path: str, *headers: str, token: str = "alice-token") -> int:
        """Ask for something; the status of the answer, of which nothing else is read."""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}", *headers]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(12).split()[1])


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder = tmp_path_factory.mktemp("unread")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    server = PilothouseServer(folder / "server", "sqlite", flags=("--audit-policy-file", str(policy)))
    with contextlib.closing(server):
        yield Attacked(server, asyncio.run(_fill(server)))


async def _fill(server: PilothouseServer) -> str:
    """Store what is to be listed; the version of the list before one of its objects changed."""
    async with Http.to(server.target) as http:
        for user in ("alice", "bob"):
            bound = bind("default", user, "ClusterRole/view", f"User/{user}")
            (await http.post(place(bound), bound)).expect(201)
        for number in range(2 * MEGABYTES):
            text = f"{number} and some words of its own; " * (512 * 1024 // 33)
            (await http.post(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": text}})).expect(201)
        version: str = (await http.get(MAPS, limit=1)).json["metadata"]["resourceVersion"]
        (await http.post(MAPS, {"metadata": {"name": "small"}, "data": {"k": "v"}})).expect(201)
        (await http.patch(f"{MAPS}/m0", {"metadata": {"labels": {"a": "b"}}}, type=MERGE)).expect(200)
        return version


FORMS = {
    "a watch": ("?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", ""),
    "plain": ("", ""),
    "gzip": ("", "Accept-Encoding: gzip"),
    "pages": ("?limit=59", ""),
    "gzipped pages": ("?limit=59", "Accept-Encoding: gzip"),
    "tables": ("?includeObject=Object", f"Accept: {TABLE}"),
    "for people": ("?pretty=1", ""),
    "the past": ("?resourceVersionMatch=Exact&resourceVersion=", ""),
    "one large object": ("/m1", ""),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_many_lists_that_nobody_takes(
    attacked: Attacked, form: str, record_property: Callable[[str, object], None]
) -> None:
    # Each begins with a server that has not been attacked yet.
    attacked.server.restart()
    query, header = FORMS[form]
    path = f"{MAPS}{query}" + (attacked.version if query.endswith("=") else "")
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(attacked.open()) for _ in range(CONNECTIONS)]
        headers = [header] if header else []
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            asked = threads.map(lambda connection: attacked.ask(connection, path, *headers), connections)
            answers = Counter(asked)
        # Somebody else finds the server as it always is.
        other = stack.enter_context(attacked.open())
        for _ in range(20):
            assert attacked.ask(other, f"{MAPS}/small", token="bob-token") == 200
            _rest(other)
        assert attacked.server.target.fetch("/readyz") == 200
        held = attacked.most_held
    record_property("megabytes", held // 2**20)
    print(f"{form}: {dict(answers)}, at most {held // 2**20} MB")
    assert answers[200] > 0
    assert set(answers) <= {200, 429}
    assert held <= MOST


def _rest(connection: ssl.SSLSocket) -> None:
    """Read an answer, from its reason phrase to the end of its body."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = [
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")
    ]
    while len(body) < length:
        body += connection.recv(65536)
    assert json.loads(body)["metadata"]["name"] == "small"
