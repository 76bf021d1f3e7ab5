"""Claims on a real Kubernetes whose volumes our node keeps: kube-controller-manager and kube-scheduler hand over to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.network_namespaces import missing
from tests.kit.tools import MissingTool, find
from tests.kit.waiting import eventually
from tests.real_kubernetes.plane import RealPlane, kubernetes

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.skipif(bool(missing()), reason=missing())]

CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "loop"},
    "provisioner": "pilothouse.io/loop",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "loop",
        "resources": {"requests": {"storage": "320Mi"}},
    },
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "db"},
    "spec": {
        "terminationGracePeriodSeconds": 2,
        "containers": [
            {
                "name": "sh",
                "image": "host/sh",
                "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do date >> /data/log; sleep 0.1; done"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    try:
        find("mkfs.xfs")
    except MissingTool as lacking:
        pytest.skip(str(lacking))
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as plane:
        yield plane


async def shown(real: RealPlane, *what: str) -> Any:
    return json.loads((await real.kubectl("get", *what, "-o", "json")).ok())


def size_of(mount: Path) -> int:
    found = os.statvfs(mount)
    return found.f_blocks * found.f_frsize


async def test_from_the_first_pod_to_the_last_byte(real: RealPlane) -> None:
    for body in (CLASS, CLAIM, POD):
        (await real.kubectl("apply", "-f", "-", stdin=json.dumps(body))).ok()
    (await real.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=60s")).ok()
    claim = await shown(real, "pvc", "data")
    assert claim["status"]["capacity"] == {"storage": "320Mi"}
    volume = await shown(real, "pv", claim["spec"]["volumeName"])
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "pilothouse.io/loop"
    assert volume["metadata"]["annotations"]["pilothouse.io/node"] == "m1"
    path = Path(volume["spec"]["local"]["path"])
    before = size_of(path)

    more = {"spec": {"resources": {"requests": {"storage": "640Mi"}}}}
    (await real.kubectl("patch", "pvc", "data", "-p", json.dumps(more))).ok()

    async def grown() -> bool:
        return bool((await shown(real, "pvc", "data"))["status"]["capacity"] == {"storage": "640Mi"})

    await eventually(grown, seconds=60)
    assert size_of(path) > before + (256 << 20)
    assert (await shown(real, "pv", volume["metadata"]["name"]))["spec"]["capacity"] == {"storage": "640Mi"}
    [container] = (await shown(real, "pod", "db"))["status"]["containerStatuses"]
    assert container["restartCount"] == 0

    (await real.kubectl("delete", "pod", "db", "--timeout=40s")).ok()
    (await real.kubectl("delete", "pvc", "data", "--timeout=40s")).ok()

    async def gone() -> bool:
        return not (await shown(real, "pv"))["items"] and not path.parent.exists()

    await eventually(gone, seconds=60)


async def test_what_can_not_be_is_told_on_the_claim(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", "-", stdin=json.dumps(CLASS))).ok()
    huge = json.loads(json.dumps(CLAIM).replace("320Mi", "900Ti"))
    for body in (huge, POD):
        (await real.kubectl("apply", "-f", "-", stdin=json.dumps(body))).ok()

    async def told() -> str:
        conditions = (await shown(real, "pvc", "data"))["status"].get("conditions") or ()
        found = [one["message"] for one in conditions if one["type"] == "pilothouse.io/Provisioned"]
        return found[0] if found else ""

    assert "node m1: there is not enough space for 900Ti" in await eventually(told, seconds=60)
