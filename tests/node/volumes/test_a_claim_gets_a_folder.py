from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.node.volumes.plane import NODE, Plane, plane

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim, Pod
from pilothouse.api.local_volumes import FINALIZER
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.volume_usage import metrics

DIRECTORY = "pilothouse.io/directory"


async def test_a_claim_is_bound_to_a_folder_of_the_node_where_its_pod_runs(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        claim = await here.claim("data", "1Gi", "directory")
        path = await here.mounted(await here.pod("db", "data"))
        volume = await here.volume_of("data")
        assert path == here.data / "volumes" / f"pvc-{claim.uid}" / "data"
        assert volume.spec["capacity"] == {"storage": "1Gi"}
        assert volume.spec["accessModes"] == ["ReadWriteOnce"]
        assert volume.spec["persistentVolumeReclaimPolicy"] == "Delete"
        affinity = volume.spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"]
        assert affinity == [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]
        assert volume.annotations["pv.kubernetes.io/provisioned-by"] == DIRECTORY

        async def told() -> bool:
            return "ProvisioningSucceeded" in await here.events("data")

        await eventually(told)


async def test_what_is_written_outlives_pods_and_agents(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        await here.claim("data", "1Gi", "directory")
        pod = await here.pod("db", "data")
        (await here.mounted(pod) / "row").write_text("precious")
        await here.delete_pod(pod)
        await here.stop_node()
        here.start_node()
        again = await here.pod("db", "data")
        assert (await here.mounted(again) / "row").read_text() == "precious"


async def test_a_volume_goes_with_its_claim_and_all_that_is_on_it(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        await here.claim("data", "1Gi", "directory")
        pod = await here.pod("db", "data")
        path = await here.mounted(pod)
        (path / "row").write_text("x")
        volume = await here.volume_of("data")
        await here.api.delete(PersistentVolumeClaim, "data", "default")
        assert (path / "row").exists()
        await here.delete_pod(pod)
        await here.gone(volume.name)
        assert not path.parent.exists()


async def test_a_volume_that_is_to_be_kept_stays_with_all_that_is_on_it(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("kept", DIRECTORY, reclaimPolicy="Retain")
        await here.claim("data", "1Gi", "kept")
        pod = await here.pod("db", "data")
        path = await here.mounted(pod)
        (path / "row").write_text("x")
        volume = await here.volume_of("data")
        await here.delete_pod(pod)
        await here.api.delete(PersistentVolumeClaim, "data", "default")

        async def released() -> bool:
            return (await here.api.get(PersistentVolume, volume.name)).status.get("phase") == "Released"

        await eventually(released)
        await here.api.delete(PersistentVolume, volume.name)
        await here.gone(volume.name)
        assert (path / "row").read_text() == "x"


async def test_a_node_that_was_down_deletes_what_was_given_up_meanwhile(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        await here.claim("data", "1Gi", "directory")
        pod = await here.pod("db", "data")
        path = await here.mounted(pod)
        volume = await here.volume_of("data")
        await here.stop_node()
        await here.api.delete(Pod, "db", "default", grace=0)
        await here.api.delete(PersistentVolumeClaim, "data", "default")

        async def released() -> bool:
            found = await here.api.get(PersistentVolume, volume.name)
            return found.status.get("phase") == "Released" and FINALIZER in found.finalizers

        await eventually(released)
        assert path.exists()
        here.start_node()
        await here.gone(volume.name)
        assert not path.parent.exists()


async def test_a_claim_that_grows_is_told_so(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        await here.claim("data", "1Gi", "directory")
        await here.mounted(await here.pod("db", "data"))
        await here.grow("data", "2Gi")

        async def grown() -> bool:
            return bool((await here.find_claim("data")).status["capacity"] == {"storage": "2Gi"})

        await eventually(grown)
        claim = await here.find_claim("data")
        assert (await here.volume_of("data")).spec["capacity"] == {"storage": "2Gi"}
        assert claim.condition("Resizing") is None
        assert claim.status.get("allocatedResourceStatuses") is None
        assert claim.status["phase"] == "Bound"


async def test_a_class_that_lets_nobody_grow_is_named(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("fixed", DIRECTORY, allowVolumeExpansion=False)
        await here.claim("data", "1Gi", "fixed")
        await here.mounted(await here.pod("db", "data"))
        await here.grow("data", "2Gi")
        said = await here.condition("data", "NodeResizeError")
        assert said["message"] == "class fixed does not let claims grow: set allowVolumeExpansion: true in it"
        assert (await here.find_claim("data")).status["capacity"] == {"storage": "1Gi"}


@pytest.mark.parametrize(
    ("fields", "spec", "said"),
    [
        (
            {"parameters": {"tier": "fast"}},
            {},
            "the class asks for the tier 'fast', and this node has default",
        ),
        ({}, {"volumeMode": "Block"}, "it asks for a block device"),
    ],
)
async def test_a_claim_that_can_not_be_met_waits_and_says_why(
    tmp_path: Path, fields: dict[str, object], spec: dict[str, object], said: str
) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("odd", DIRECTORY, **fields)
        await here.claim("data", "1Gi", "odd", **spec)
        await here.pod("db", "data")
        condition = await here.condition("data", "pilothouse.io/Provisioned")
        assert (condition["status"], condition["reason"]) == ("False", "ProvisioningFailed")
        assert said in condition["message"]
        assert condition["message"].startswith("node n1: ")


async def test_a_tier_is_a_folder_of_its_own(tmp_path: Path) -> None:
    fast = tmp_path / "fast"
    async with plane(tmp_path, {"fast": fast}) as here:
        await here.storage_class("fast", DIRECTORY, parameters={"tier": "fast"})
        await here.claim("data", "1Gi", "fast")
        path = await here.mounted(await here.pod("db", "data"))
        assert path.parent.parent == fast


async def test_usage_is_told_in_kubelets_words(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        await here.claim("data", "1Gi", "directory")
        path = await here.mounted(await here.pod("db", "data"))
        (path / "row").write_bytes(b"x" * (1 << 20))
        (usage,) = await here.volumes.usage()
        assert (usage.namespace, usage.claim, usage.capacity) == ("default", "data", 1 << 30)
        assert usage.used == 1 << 20
        assert usage.available <= (1 << 30) - (1 << 20)
        lines = list(metrics([usage]))
        assert (
            'kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="data"} 1073741824'
            in lines
        )
        volume = (await here.find_claim("data")).spec["volumeName"]
        assert f'px_volume_capacity_bytes{{volumename="{volume}"}} 1073741824' in lines
        assert f'px_volume_usage_bytes{{volumename="{volume}"}} 1048576' in lines
        assert f'px_volume_fs_usage_bytes{{volumename="{volume}"}} 1048576' in lines
        assert f'px_volume_fs_capacity_bytes{{volumename="{volume}"}} 1073741824' in lines


async def test_an_agent_that_was_killed_at_any_step_is_carried_on_from(tmp_path: Path) -> None:
    """Each of the volume controller's tasks is cut off as soon as it has done something, over and over."""
    async with plane(tmp_path) as here:
        await here.storage_class("directory", DIRECTORY)
        await here.claim("data", "1Gi", "directory")
        pod = await here.pod("db", "data")
        for _ in range(40):
            await here.stop_node()
            here.start_node()
            for _ in range(15):
                await asyncio.sleep(0)
        path = await here.mounted(pod)
        volumes = (await here.api.list(PersistentVolume)).objects
        assert len(volumes) == 1
        assert [one.name for one in (here.data / "volumes").iterdir()] == [path.parent.name]


async def test_what_was_begun_for_a_claim_that_is_gone_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await here.storage_class("kept", DIRECTORY, reclaimPolicy="Retain")
        await here.claim("data", "1Gi", "kept")
        path = await here.mounted(await here.pod("db", "data"))
        await here.stop_node()
        tier = path.parent.parent
        begun, foreign = tier / "pvc-1234", tier / "lost+found"
        retained = tier / "pvc-5678"
        for folder in (begun, foreign, retained):
            (folder / "data").mkdir(parents=True)
        (retained / "announced").touch()
        here.start_node()

        async def swept() -> bool:
            return not begun.exists()

        await eventually(swept)
        assert sorted(one.name for one in tier.iterdir()) == sorted(
            ["lost+found", "pvc-5678", path.parent.name]
        )
        assert path.is_dir()


async def _two(here: Plane) -> Plane:
    await here.storage_class("directory", DIRECTORY)
    await here.claim("data", "1Gi", "directory", accessModes=["ReadWriteOncePod"])
    return here


async def test_a_volume_for_one_pod_is_not_given_to_a_second(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        await _two(here)
        first = await here.pod("one", "data")
        await here.mounted(first)
        second = await here.pod("two", "data", nodeName=NODE)
        with pytest.raises(VolumeNotReady, match="ReadWriteOncePod, and another pod uses it"):
            await here.volumes.prepare(second)
        await here.delete_pod(first)
        assert (await here.volumes.prepare(second))["data"].path.is_dir()


async def test_a_claim_that_is_missing_or_unbound_is_named(tmp_path: Path) -> None:
    async with plane(tmp_path) as here:
        lonely = await here.pod("one", "none", nodeName=NODE)
        with pytest.raises(VolumeNotReady, match='persistentvolumeclaim "none" not found'):
            await here.volumes.prepare(lonely)
        await here.claim("free", "1Gi", "no-such-class")
        waiting = await here.pod("two", "free", nodeName=NODE)
        with pytest.raises(VolumeNotReady, match="is not bound to a volume yet"):
            await here.volumes.prepare(waiting)


@pytest.mark.parametrize(
    ("provisioner", "fields", "said"),
    [
        ("example.com/disk", {}, ""),
        (
            "pilothouse.io/loop",
            {"parameters": {"fsType": "none-such"}},
            "none-such|ordinary user|loop devices",
        ),
        (
            DIRECTORY,
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]},
            "class chosen has no volumes on this node: its allowedTopologies are elsewhere",
        ),
    ],
)
async def test_a_claim_chooses_neither_its_provisioner_nor_a_node_that_its_class_excludes(
    tmp_path: Path, provisioner: str, fields: dict[str, Any], said: str
) -> None:
    async def is_anothers() -> bool:
        """The controller has put it right: another provisioner is asked for the volume."""
        claim = await here.find_claim("data")
        return bool(claim.annotations["volume.kubernetes.io/storage-provisioner"] == provisioner)

    async with plane(tmp_path) as here:
        await here.storage_class("chosen", provisioner, **fields)
        annotations = {
            "volume.kubernetes.io/selected-node": NODE,
            "volume.kubernetes.io/storage-provisioner": DIRECTORY,
        }
        await here.api.create(
            PersistentVolumeClaim,
            {
                "metadata": {"name": "data", "namespace": "default", "annotations": annotations},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "chosen",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )
        if said:
            condition = await here.condition("data", "pilothouse.io/Provisioned")
            assert condition["status"] == "False"
            assert re.search(said, condition["message"])
        else:
            await eventually(is_anothers)
        assert not list((here.data / "volumes").glob("pvc-*/data"))
