"""A pod whose first process is a pilot, on a plane as `pilothouse up` runs it: with the pod's own token, and nothing but the manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit import tools
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "cache-0",
        "labels": {"navigator.jetstack.io/has-pilot": ""},
        "annotations": {"navigator.jetstack.io/application": "redis"},
    },
    "spec": {
        "containers": [
            {
                "name": "redis",
                "image": "host/redis-server",
                "command": ["pilothouse", "pilot", "redis"],
                "env": [
                    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                    for name, path in (
                        ("POD_NAME", "metadata.name"),
                        ("POD_NAMESPACE", "metadata.namespace"),
                        ("POD_IP", "status.podIP"),
                    )
                ],
                "readinessProbe": {"httpGet": {"path": "/", "port": 12001}, "periodSeconds": 1},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}


async def seen(plane: UpPlane, kind: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async def looked() -> dict[str, Any] | None:
        got = await plane.kubectl("get", kind, "cache-0", "-o", "json")
        found: dict[str, Any] = json.loads(got.out) if got.code == 0 else {}
        return found if found and is_so(found.get("status") or {}) else None

    return await eventually(looked, seconds=60)


def is_true(kind: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: any(
        each["type"] == kind and each["status"] == "True" for each in status.get("conditions") or ()
    )


@pytest.mark.long
async def test_a_database_that_dies_in_its_pod_is_reported_and_comes_back(tmp_path: Path) -> None:
    tools.find("redis-server")
    with UpPlane(tmp_path) as plane:
        (await plane.kubectl("apply", "-f", "-", stdin=json.dumps(POD))).ok()
        await seen(plane, "pod", is_true("Ready"))
        pilot = await seen(plane, "pilot", is_true("Ready"))
        assert pilot["spec"] == {"application": "redis"}
        started = next(each for each in pilot["status"]["conditions"] if each["type"] == "Started")
        process = started["message"].rstrip(".").rpartition(" ")[2]
        assert "cache-0" in (await plane.kubectl("get", "lease", "pilot-cache-0")).ok()

        async def killed() -> bool:
            # A node's server has its certificate a moment after the node is ready.
            return (await plane.kubectl("exec", "cache-0", "--", "sh", "-c", f"kill -9 {process}")).code == 0

        await eventually(killed)
        again = await seen(
            plane, "pilot", lambda status: status.get("restarts") == 1 and is_true("Ready")(status)
        )
        assert again["status"]["lastExit"]["signal"] == "SIGKILL"
        pod = await seen(plane, "pod", is_true("Ready"))
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
        assert "ProcessEnded" in (await plane.kubectl("get", "events")).ok()
