from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.kit.loopback import loopback
from tests.kit.tools import MissingTool, find

from pilothouse.api.kind_names import ConfigMap, Namespace, Pod, Secret, ServiceAccount
from pilothouse.api.objects import Object
from pilothouse.base.clock import ManualClock
from pilothouse.client.api import Api
from pilothouse.node.volumes.assembly import open_volumes
from pilothouse.node.volumes.mount_table import unmount_below
from pilothouse.node.volumes.pod_volumes import PodVolumes

Tree = dict[str, Any]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000)


@pytest.fixture
async def api(clock: ManualClock) -> AsyncIterator[Api]:
    """A server of our own with a namespace, and somebody in it who may do everything."""
    async with loopback(clock) as transport:
        api = Api(transport, Random(1), manager="test")
        if await api.find(Namespace, "default") is None:
            await api.create(Namespace, {"metadata": {"name": "default"}})
        await api.create(ServiceAccount, {"metadata": {"name": "default", "namespace": "default"}})
        yield api


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "node"
    folder.mkdir()
    yield folder
    unmount_below(folder)


@pytest.fixture
def volumes(api: Api, data: Path, clock: ManualClock) -> PodVolumes:
    return open_volumes(
        api, node="n1", data=data, clock=clock, rng=Random(1), allocatable={"cpu": "4", "memory": "8Gi"}
    )


@pytest.fixture
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("it mounts and gives files away, which only root may")


@pytest.fixture(scope="session")
def mkfs() -> None:
    """Filesystems can be made and mounted here."""
    if os.geteuid() != 0:
        pytest.skip("it makes and mounts filesystems, which only root may")
    needed("mkfs.xfs", "mkfs.btrfs")


def needed(*programs: str) -> None:
    """Skips the test if one of these is not on this machine, and says how it would come here."""
    for program in programs:
        try:
            find(program)
        except MissingTool as missing:
            pytest.skip(str(missing))


class World:
    """What a test makes on the server."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def pod(self, *volumes: Tree, name: str = "web", **spec: Any) -> Object:
        container = {"name": "main", "image": "host/sleep", **spec.pop("container", {})}
        body = {
            "metadata": {"name": name, "namespace": "default", **spec.pop("metadata", {})},
            "spec": {
                "containers": [container],
                "volumes": list(volumes),
                "nodeName": "n1",
                "automountServiceAccountToken": False,
                **spec,
            },
        }
        return await self.api.create(Pod, body)

    async def config(self, name: str, data: dict[str, str], **more: Any) -> None:
        await self.api.apply(
            ConfigMap, {"metadata": {"name": name, "namespace": "default"}, "data": data, **more}
        )

    async def secret(self, name: str, data: dict[str, str]) -> None:
        await self.api.apply(Secret, {"metadata": {"name": name, "namespace": "default"}, "stringData": data})


@pytest.fixture
def world(api: Api) -> World:
    return World(api)
