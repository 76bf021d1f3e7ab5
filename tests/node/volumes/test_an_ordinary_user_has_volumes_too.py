"""A control plane that nobody with privileges has started: what works there, and what is said of what doesn't."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.control_planes import UpPlane, as_ordinary_user
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long

SCRIPT = """
set -e
cat /etc/app/greeting /run/app/password; echo
test -s /var/run/secrets/kubernetes.io/serviceaccount/token
echo kept >> /data/lives
echo x > /cache/x; cat /part/inner 2>/dev/null || echo inner > /part/inner
trap 'exit 0' TERM
while :; do sleep 0.1; done
"""


@pytest.fixture
def plane() -> Iterator[UpPlane]:
    with as_ordinary_user() as (folder, command, env), UpPlane(folder, command=command, env=env) as plane:
        yield plane


def claim(name: str, storage_class: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "320Mi"}},
        },
    }


def pod(name: str, claimed: str, script: str = SCRIPT, **volumes: dict[str, Any]) -> dict[str, Any]:
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/part", "subPath": "part"},
    ]
    places = {"config": "/etc/app", "secret": "/run/app", "cache": "/cache"}
    mounts += [{"name": one, "mountPath": places[one]} for one in volumes]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 3,
            "securityContext": {"fsGroup": 4242},
            "containers": [
                {"name": "sh", "image": "host/sh", "command": ["sh", "-c", script], "volumeMounts": mounts}
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": claimed}},
                *({"name": one, **source} for one, source in volumes.items()),
            ],
        },
    }


async def apply(plane: UpPlane, *bodies: dict[str, Any]) -> None:
    for body in bodies:
        (await plane.kubectl("apply", "-f", "-", stdin=json.dumps(body))).ok()


async def test_files_folders_memory_and_directories_work(plane: UpPlane) -> None:
    volumes: dict[str, Any] = {
        "config": {"configMap": {"name": "app"}},
        "secret": {"secret": {"secretName": "app"}},
        "cache": {"emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    }
    await apply(
        plane,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "app"},
            "data": {"greeting": "hello "},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app"}, "stringData": {"password": "pw"}},
        claim("data", "directory"),
        pod("db", "data", **volumes),
    )
    (await plane.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=60s")).ok()

    async def printed() -> bool:
        return (await plane.kubectl("logs", "db")).out == "hello pw\n"

    await eventually(printed)
    uid = (await plane.kubectl("get", "pod", "db", "-o", "jsonpath={.metadata.uid}")).ok()
    assert memory_of(uid)
    (await plane.kubectl("delete", "pod", "db", "--timeout=40s")).ok()
    assert not memory_of(uid)
    await apply(plane, pod("db", "data", **volumes))
    (await plane.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=60s")).ok()
    assert (await plane.kubectl("exec", "db", "--", "cat", "/data/lives")).ok() == "kept\nkept\n"
    assert (await plane.kubectl("exec", "db", "--", "cat", "/part/inner")).ok() == "inner\n"


def memory_of(uid: str) -> list[Path]:
    """What a pod has in the machine's shared memory."""
    return list(Path("/dev/shm").glob(f"pilothouse-*/{uid}"))


async def test_a_claim_for_a_filesystem_waits_and_says_what_would_help(plane: UpPlane) -> None:
    await apply(plane, claim("data", "loop"), pod("db", "data", "sleep 1000"))
    path = "jsonpath={.status.conditions[?(@.type=='pilothouse.io/Provisioned')].message}"

    async def told() -> str:
        return (await plane.kubectl("get", "pvc", "data", "-o", path)).out

    said = await eventually(told, seconds=60)
    assert (
        "runs as an ordinary user, who may not mount filesystems: run it as root, or use a class of" in said
    )
    phase = (await plane.kubectl("get", "pvc", "data", "-o", "jsonpath={.status.phase}")).ok()
    assert phase == "Pending"
    described = (await plane.kubectl("describe", "pvc", "data")).ok()
    assert "ProvisioningFailed" in described
