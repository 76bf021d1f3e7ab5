"""A disk that is full, a port that is taken, images that can't be read, groups that are denied: on the real machine, with the real parts."""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.images import image_folder
from tests.kit.processes import free_port
from tests.kit.waiting import eventually
from tests.node.real import FOREVER, RealNode, real_node, shell
from tests.node.stage import container, is_ready, phase, reason

from pilothouse.api.kind_names import Node
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.node.addresses.pod_network import PodNetwork
from pilothouse.node.images.image_store import ImageStore
from pilothouse.supervise.cgroups import Cgroups


def waiting(pod: Object) -> str:
    return str(container(pod)["state"]["waiting"].get("message") or "")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes at the place of the node's data folder."""
    folder = tmp_path / "node"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no room at all."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                if not file.write(b"x" * 4096):
                    return filler
            except OSError:
                return filler


@needs_root
async def test_a_full_disk_takes_no_pod_keeps_those_there_and_lets_them_go(
    tmp_path: Path, small_disk: Path
) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell(FOREVER)]}, "before")
        await node.until(is_ready, "before")
        filler = fill(small_disk)
        await node.pod({"containers": [shell(FOREVER)]}, "during")
        pod = await node.until(
            lambda pod: reason(pod) in ("NodeStorageError", "CreateContainerError"), "during"
        )
        assert "No space left on device" in waiting(pod)
        assert is_ready(await node.until(lambda pod: True, "before"))
        await node.delete("before")
        await node.until_gone("before")
        filler.unlink(missing_ok=True)
        await node.until(is_ready, "during")
        assert len(await node.left()) == 1


@needs_root
async def test_a_nearly_full_disk_is_a_condition_of_the_node(tmp_path: Path, small_disk: Path) -> None:
    fill(small_disk)
    async with real_node(tmp_path, agent=False) as node:
        (small_disk / "filler").unlink()
        agent = node.start_agent()
        await agent.registration.registered()
        assert not (await node.api.get(Node, "n1")).is_true("DiskPressure")
        fill(small_disk)
        agent.registration.refresh()

        async def told() -> Object | None:
            found = await node.api.get(Node, "n1")
            return found if found.is_true("DiskPressure") else None

        found = await eventually(told)
        assert "available: 0Mi" in (found.condition("DiskPressure") or {})["message"]


async def test_an_image_folder_that_cant_be_read_names_the_folder(tmp_path: Path) -> None:
    async with real_node(tmp_path, agent=False) as node:
        images = tmp_path / "images"
        images.mkdir()
        (images / "names").write_text("no folder")
        node.images = ImageStore(images, SystemClock())
        node.start_agent()
        await node.pod({"containers": [{"name": "app", "image": "redis:7"}]})
        pod = await node.until(lambda pod: reason(pod) not in ("", "ContainerCreating"))
        assert str(images) in waiting(pod)


async def test_a_missing_image_names_the_command_and_is_used_once_it_is_there(tmp_path: Path) -> None:
    async with real_node(tmp_path, agent=False) as node:
        library = ImageStore(tmp_path / "images", SystemClock())
        node.images = library
        node.start_agent()
        await node.pod(
            {
                "restartPolicy": "Never",
                "containers": [{"name": "app", "image": "hello:1", "command": ["hello"]}],
            }
        )
        pod = await node.until(lambda pod: reason(pod) == "ErrImageNeverPull")
        assert "pilothouse image import hello:1" in waiting(pod)
        library.import_("hello:1", image_folder(tmp_path / "bundle", "bin/hello", "echo hello from a bundle"))
        pod = await node.until(lambda pod: phase(pod) == "Succeeded", seconds=60)
        assert node.log(pod) == "hello from a bundle"
        assert container(pod)["imageID"]


async def test_a_port_that_is_taken_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    async with real_node(tmp_path, agent=False) as node:
        network = PodNetwork.open(node.settings, node.api, SystemClock(), random.Random(1))
        node.addresses = network
        node.start_agent()
        with socket.create_server(("127.0.0.1", port)):
            own = shell(FOREVER, ports=[{"containerPort": port}])
            await node.pod({"hostNetwork": True, "containers": [own]})
            pod = await node.until(lambda pod: reason(pod) == "NodePorts")
            assert f"port {port}/TCP of the node is in use by another program" in waiting(pod)
        await node.until(is_ready)


async def test_groups_that_are_denied_are_told_and_the_pod_runs(tmp_path: Path) -> None:
    async with real_node(tmp_path, agent=False) as node:
        blocked = tmp_path / "cgroup"
        blocked.write_text("no folder")
        node.groups = Cgroups("test", {"memory": blocked}, None, {})
        node.start_agent()
        limited = shell(FOREVER, resources={"limits": {"memory": "64Mi"}})
        await node.pod({"containers": [limited]})
        pod = await node.until(is_ready)
        condition = pod.condition("pilothouse.io/LimitsEnforced") or {}
        assert "memory is not enforced: Not a directory" in condition["message"]


async def test_nothing_of_a_pod_that_failed_to_start_is_left(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        pod = await node.pod({"containers": [{"name": "app", "image": "x", "command": ["/no/such"]}]})
        await node.until(lambda pod: container(pod).get("restartCount", 0) >= 1)
        await node.delete()
        await node.until_gone()
        assert await _emptied(node, pod)


async def _emptied(node: RealNode, pod: Object) -> bool:
    async def gone() -> bool:
        return not list(node.settings.pods.glob(pod.uid))

    return await eventually(gone)
