"""Pods as real processes: what they see, and what they may do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.node.real import is_there, printed, real_node, shell
from tests.node.stage import phase

from pilothouse.api.kind_names import ConfigMap
from pilothouse.api.objects import Tree


async def test_a_script_runs_to_its_end(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert await printed(node, "echo hello; exit 0") == "hello"


async def test_a_container_is_process_one_with_a_host_name_of_its_own(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert (await printed(node, "echo $$$$; hostname", hostname="db-7")).split() == ["1", "db-7"]


async def test_the_host_name_is_the_pods(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert (await printed(node, "hostname; echo $HOSTNAME")).split() == ["web-0", "web-0"]


async def test_mounts_are_where_the_manifest_says_and_nowhere_else(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mounts = [{"name": "data", "mountPath": "/srv/deep/data"}]
        said = await printed(
            node,
            "echo kept > /srv/deep/data/file; cat /srv/deep/data/file",
            container={"volumeMounts": mounts},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        assert said == "kept"
        assert not is_there("/srv/deep")


async def test_containers_of_a_pod_share_its_volumes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mounts: Tree = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        pod = await node.pod(
            {
                "restartPolicy": "Never",
                "initContainers": [shell("echo made > /data/file", "init", **mounts)],
                "containers": [shell("cat /data/file", **mounts)],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }
        )
        await node.until(lambda pod: phase(pod) == "Succeeded")
        assert node.log(pod) == "made"


async def test_the_nodes_own_folder_is_not_seen_from_inside(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert await printed(node, f"ls -A {node.settings.data} 2>/dev/null | wc -l") == "0"


@pytest.mark.parametrize("others", [1, 300])
async def test_nor_when_something_is_mounted_beside_it(tmp_path: Path, others: int) -> None:
    for number in range(others):
        (tmp_path / f"other-{number}").mkdir()
    async with real_node(tmp_path) as node:
        said = await printed(
            node,
            f"ls -A {node.settings.data} 2>/dev/null | wc -l; ls {tmp_path}/here",
            container={"volumeMounts": [{"name": "data", "mountPath": f"{tmp_path}/here/data"}]},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        assert said.split() == ["0", "data"]


async def test_a_volume_may_lie_over_the_folder_that_has_the_nodes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        said = await printed(
            node,
            f"ls -A {tmp_path} | wc -l",
            container={"volumeMounts": [{"name": "data", "mountPath": str(tmp_path)}]},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        assert said == "0"


async def test_variables_come_from_the_pod_and_from_config_maps(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        made = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"mode": "fast"}}
        await node.api.create(ConfigMap, made)
        env = [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
            {"name": "ALL", "value": "$(NAME)/$(MODE)"},
        ]
        assert await printed(node, "echo $ALL $ADDRESS", container={"env": env}) == "web-0/fast 127.9.0.1"


@needs_root
async def test_a_container_runs_as_whom_it_asks_for(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        os.chmod(tmp_path, 0o755)
        context = {"runAsUser": 4321, "runAsGroup": 4322, "fsGroup": 4323}
        said = await printed(node, "id -u; id -g; id -G", securityContext=context)
        assert said.split("\n")[:2] == ["4321", "4322"]
        assert "4323" in said.split("\n")[2]


@needs_root
async def test_capabilities_are_dropped(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        context = {"capabilities": {"drop": ["ALL"]}}
        said = await printed(node, "grep CapBnd /proc/self/status", container={"securityContext": context})
        assert int(said.split()[1], 16) == 0


async def test_a_read_only_root_lets_only_volumes_be_written(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        own = {
            "securityContext": {"readOnlyRootFilesystem": True},
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "data", "mountPath": "/usr/share"},
                {"name": "more", "mountPath": "/usr/more"},
            ],
        }
        places = "/ /tmp /var/tmp /etc /usr /data /usr/share /usr/more /dev/shm"
        script = f"for each in {places}; do touch $each/probe 2>&1 && echo $each; done"
        volumes = [{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}]
        said = await printed(node, script, container=own, volumes=volumes)
        written = [line for line in said.splitlines() if line.startswith("/")]
        assert written == ["/data", "/usr/share", "/usr/more", "/dev/shm"]


async def test_privileges_are_not_gained_where_that_is_refused(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        own = {"securityContext": {"allowPrivilegeEscalation": False}}
        assert (await printed(node, "grep NoNewPrivs /proc/self/status", container=own)).split()[1] == "1"
