"""Endpoints by Kubernetes' own controller, service addresses of its own range: our node forwards and names them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fleet.plane import PORT, asked, talker
from tests.kit.network_namespaces import missing
from tests.kit.waiting import eventually
from tests.real_kubernetes.plane import RealPlane, kubernetes

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.skipif(bool(missing()), reason=missing())]

LABELS = {"app": "db"}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as plane:
        yield plane


def manifests() -> list[dict[str, Any]]:
    ports = [{"name": "talk", "port": PORT, "targetPort": "talk"}]
    services = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": LABELS, "ports": ports, **more},
        }
        for name, more in (("members", {"clusterIP": "None"}), ("db", {}))
    ]
    template = {"metadata": {"labels": LABELS}, "spec": talker()}
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "members",
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "template": template,
        },
    }
    return [*services, stateful_set]


async def test_pods_find_one_another_by_name_and_through_a_service(real: RealPlane) -> None:
    for tree in manifests():
        file = real.folder / f"{tree['kind']}-{tree['metadata']['name']}.json"
        file.write_text(json.dumps(tree))
        (await real.kubectl("apply", "-f", str(file))).ok()

    async def ready() -> bool:
        said = (await real.kubectl("get", "statefulset", "db", "-o", "json")).ok()
        return bool(json.loads(said)["status"].get("readyReplicas", 0) == 2)

    await eventually(ready, seconds=120)
    address = json.loads((await real.kubectl("get", "pod", "db-0", "-o", "json")).ok())["status"]["podIP"]
    service = json.loads((await real.kubectl("get", "service", "db", "-o", "json")).ok())["spec"]["clusterIP"]
    assert service.startswith("10.96.0.")

    async def led(*hosts: str) -> bool:
        """Whether each leads from db-0 to both pods, or to the one that it names."""
        for host in hosts:
            found = {asked(real.machine, address, f"ask {host} {PORT}").split(" ")[0] for _ in range(12)}
            if found != ({host.split(".")[0]} if host.startswith("db-") else {"db-0", "db-1"}):
                return False
        return True

    await eventually(
        lambda: led("db-0.members", "db-1.members.default.svc.cluster.local", "db", "db.default", service),
        seconds=60,
    )
