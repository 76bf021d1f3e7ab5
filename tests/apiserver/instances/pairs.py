"""Two servers on one etcd."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.etcd import EtcdCluster, EtcdServer
from tests.kit.http import Http
from tests.kit.pilothouse_server import PilothouseServer

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Pair(NamedTuple):
    one: PilothouseServer
    two: PilothouseServer


@contextlib.contextmanager
def pair(
    folder: Path, *, flags: Sequence[str] = (), etcd: EtcdServer | EtcdCluster | None = None
) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        if etcd is None:
            etcd = EtcdServer.start(folder / "etcd")
            stack.callback(etcd.stop)
        servers = []
        for name in ("one", "two"):
            server = PilothouseServer(folder / name, "etcd", etcd=etcd, flags=flags)
            stack.callback(server.close)
            servers.append(server)
        yield Pair(*servers)


def config_map(name: str, value: str = "0") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value},
    }


async def create(http: Http, name: str, value: str = "0") -> int:
    """Make a config map; its revision."""
    made = (await http.post(CONFIG_MAPS, config_map(name, value))).expect(201)
    return int(made["metadata"]["resourceVersion"])


async def revision(http: Http) -> str:
    listed = (await http.get(CONFIG_MAPS, limit=1)).expect(200)
    return str(listed["metadata"]["resourceVersion"])
