"""A control plane that was restored from a backup, on the same machine as the one that the backup is of, which goes on running."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.app.up.watching import lives, pod_once, program_of
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

pytestmark = pytest.mark.kubectl

WRITER = (
    "trap 'exit 0' TERM; echo began >> /own/log; echo began >> /shared/log; "
    "while :; do echo row >> /own/log; echo row >> /shared/log; sleep 0.1; done"
)
"""Each start of it is a line."""


def manifests() -> str:
    shared = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "shared"},
        "provisioner": "pilothouse.io/directory",
        "volumeBindingMode": "WaitForFirstConsumer",
        "parameters": {"tier": "shared"},
    }
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("own", "shared")]
    container = {"name": "sh", "image": "host/sh", "command": ["sh", "-c", WRITER], "volumeMounts": mounts}
    writer = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "serviceName": "web",
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
            },
            "volumeClaimTemplates": [_claim("own", "directory"), _claim("shared", "shared")],
        },
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [shared, writer]})


def _claim(name: str, storage_class: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


class Pair:
    """An original with a program that writes, and a copy of it that is not started yet."""

    def __init__(self, folder: Path) -> None:
        self.tier = folder / "tier"
        self.file = folder / "all.backup"
        flags = ("--tier", f"shared={self.tier}")
        for name in ("original", "copy", "tier"):
            (folder / name).mkdir()
        self.original = UpPlane(folder / "original", *flags)
        self.copy = UpPlane(folder / "copy", *flags)

    def logs(self) -> list[Path]:
        """What the program has written, in the volume of the data folder and in that of the tier."""
        found = [*self.original.data.glob("node/volumes/pvc-*/data/log"), *self.tier.glob("pvc-*/data/log")]
        assert len(found) == 2
        return found

    def starts(self) -> list[int]:
        return [log.read_text().splitlines().count("began") for log in self.logs()]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("planes"))
    with pair.original:
        try:
            yield pair
        finally:
            pair.copy.down()


async def uid_of(plane: UpPlane) -> str:
    return (await plane.kubectl("get", "ns", "kube-system", "-o", "jsonpath={.metadata.uid}")).ok()


async def events(plane: UpPlane, reason: str) -> list[str]:
    found = await plane.kubectl("get", "events", "-A", "--field-selector", f"reason={reason}", "-o", "json")
    return [each["message"] for each in json.loads(found.ok())["items"]]


async def test_neither_plane_writes_to_the_others_volumes_or_ends_its_pods(pair: Pair) -> None:
    original, copy = pair.original, pair.copy
    (await original.kubectl("apply", "-f", "-", stdin=manifests())).ok()
    pod = await pod_once(original)
    program = program_of(original, pod)
    saved = original.run("backup", str(pair.file))
    assert saved.returncode == 0, saved.stderr

    # To take over from a living one is refused, and leaves nothing.
    refused = copy.run("restore", str(pair.file), "--adopt-volumes")
    assert refused.returncode == 1
    assert f"is running here, on {original.data / 'node'}" in refused.stderr
    assert "stop it first" in refused.stderr
    assert not copy.data.exists()

    restored = copy.run("restore", str(pair.file))
    assert restored.returncode == 0, restored.stderr
    before = await uid_of(original)
    assert f"pilothouse.io/adopts-volumes-of={before}" in restored.stdout
    copy.start()
    after = await uid_of(copy)
    assert after != before

    async def refused_mounts() -> list[str] | None:
        return await events(copy, "FailedMount") or None

    [first, *_] = await eventually(refused_mounts, seconds=60)
    assert "in none of this node's tiers" in first or (before in first and after in first)

    volumes = json.loads((await copy.kubectl("get", "pv", "-o", "json")).ok())["items"]
    told = copy.run("why", "pv", volumes[0]["metadata"]["name"]).stdout
    assert "belongs to the control plane that this one was restored from" in told
    assert f"pilothouse.io/adopts-volumes-of={before}" in told

    # What is deleted in the copy goes there alone.
    (await copy.kubectl("delete", "statefulset", "web")).ok()
    (await copy.kubectl("delete", "pod", "web-0", "--ignore-not-found", "--grace-period=1")).ok()
    (await copy.kubectl("delete", "pvc", "--all", "--wait=false")).ok()

    async def refused_deletes() -> bool:
        messages = await events(copy, "VolumeFailedDelete")
        named = [
            each for each in messages if before in each and after in each and "adopts-volumes-of" in each
        ]
        return bool(named) and any("in none of this node's tiers" in each for each in messages)

    await eventually(refused_deletes, seconds=60)
    sizes = [log.stat().st_size for log in pair.logs()]

    async def goes_on() -> bool:
        return all(log.stat().st_size > size for log, size in zip(pair.logs(), sizes, strict=True))

    await eventually(goes_on)
    assert pair.starts() == [1, 1]
    assert lives(program)
    assert (await pod_once(original))["metadata"]["uid"] == pod["metadata"]["uid"]
    copy.down()
    assert lives(program), "the end of the copy was the end of the original's pod"


@pytest.mark.long
async def test_a_copied_data_folder_ends_no_pods_of_the_original_and_gets_none_of_its_volumes(
    tmp_path: Path,
) -> None:
    """The pods go on without their agent: nothing but what is on the disk says whose they are."""
    pair = Pair(tmp_path)
    original, copy = pair.original, pair.copy
    with original:
        (await original.kubectl("apply", "-f", "-", stdin=manifests())).ok()
        pod = await pod_once(original)
        program = program_of(original, pod)
        assert original.stop(signal.SIGUSR1) == 0
        assert lives(program)
        copied = await asyncio.create_subprocess_exec("cp", "-a", original.data, copy.data)
        assert await copied.wait() == 0
        try:
            copy.down()
            assert lives(program), "`down` of the copy was the end of the original's pod"
            copy.start()

            async def refused_mounts() -> list[str] | None:
                return await events(copy, "FailedMount") or None

            await eventually(refused_mounts, seconds=60)
        finally:
            copy.down()
        assert lives(program)
        assert pair.starts() == [1, 1]
        original.start()
        assert program_of(original, await pod_once(original)) == program
