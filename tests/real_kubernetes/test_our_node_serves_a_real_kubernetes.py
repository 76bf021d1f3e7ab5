"""The node beside Kubernetes' own API server, controllers and scheduler: none of them notices a difference that matters."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.kit.network_namespaces import missing
from tests.kit.tools import MissingTool, find
from tests.kit.waiting import eventually
from tests.node.streams.terminals import on_a_terminal
from tests.real_kubernetes.plane import PODS, RealPlane, kubernetes

from pilothouse.app.default_classes import CLASSES

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.skipif(bool(missing()), reason=missing())]

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "kubernetes" / "stateful-set.yaml"
SERVE = """#!/bin/sh
trap 'echo told to end; exit 0' TERM
echo "$HOSTNAME serves"
while :; do sleep 0.1; done
"""
STORED = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "store"},
    "spec": {
        "serviceName": "store",
        "replicas": 2,
        "selector": {"matchLabels": {"app": "store"}},
        "template": {
            "metadata": {"labels": {"app": "store"}},
            "spec": {
                "terminationGracePeriodSeconds": 5,
                "containers": [
                    {
                        "name": "sh",
                        "image": "host/sh",
                        "command": [
                            "sh",
                            "-c",
                            "trap 'exit 0' TERM; echo life >> /data/lives; while :; do sleep 0.1; done",
                        ],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        "readinessProbe": {
                            "exec": {"command": ["test", "-e", "/data/lives"]},
                            "periodSeconds": 1,
                        },
                    }
                ],
            },
        },
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "directory",
                    "resources": {"requests": {"storage": "10Mi"}},
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    with kubernetes(tmp_path_factory.mktemp("kubernetes")) as plane:
        image = plane.folder / "image"
        image.mkdir()
        (image / "serve").write_text(SERVE)
        (image / "serve").chmod(0o755)
        words = [
            "image",
            "import",
            "--data",
            str(plane.folder / "node"),
            "--entrypoint",
            "/opt/nginx-unprivileged/serve",
        ]
        subprocess.run(
            [sys.executable, "-m", "pilothouse", *words, "nginxinc/nginx-unprivileged:1.27", str(image)],
            check=True,
            timeout=60,
        )
        # `pilothouse up` makes these by itself.
        classes = json.dumps({"apiVersion": "v1", "kind": "List", "items": CLASSES})
        kubectl = [str(plane.kubectl.binary.path), "--kubeconfig", str(plane.target.kubeconfig)]
        subprocess.run([*kubectl, "apply", "-f", "-"], input=classes.encode(), check=True, timeout=60)
        yield plane


async def shown(real: RealPlane, *what: str) -> Any:
    return json.loads((await real.kubectl("get", *what, "-o", "json")).ok())


async def until_ready(real: RealPlane, name: str) -> None:
    async def ready() -> bool:
        status = (await shown(real, "statefulset", name))["status"]
        wanted = (await shown(real, "statefulset", name))["spec"]["replicas"]
        return bool(status.get("readyReplicas", 0) == wanted == status.get("availableReplicas", 0))

    await eventually(ready, seconds=90)


async def test_the_node_is_ready_and_lacks_nothing(real: RealPlane) -> None:
    node = await shown(real, "node", "m1")
    conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert {"MemoryPressure", "DiskPressure", "PIDPressure"} <= set(conditions)
    assert "taints" not in node["spec"] or all(
        not each["key"].startswith("node.kubernetes.io/") for each in node["spec"]["taints"]
    )
    assert {"cpu", "memory", "pods", "ephemeral-storage"} <= set(node["status"]["allocatable"])
    lease = await shown(real, "-n", "kube-node-lease", "lease", "m1")
    assert lease["spec"]["holderIdentity"] == "m1"


async def test_the_example_runs(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", str(EXAMPLE))).ok()
    await until_ready(real, "web")
    pods = (await shown(real, "pods", "-l", "app=web"))["items"]
    assert {pod["metadata"]["name"] for pod in pods} == {"web-0", "web-1"}
    assert {pod["spec"]["nodeName"] for pod in pods} == {"m1"}
    addresses = {ip_address(pod["status"]["podIP"]) for pod in pods}
    assert len(addresses) == 2
    assert all(address in ip_network(PODS) for address in addresses)
    assert {pod["status"]["qosClass"] for pod in pods} == {"BestEffort"}


@contextlib.asynccontextmanager
async def applied(real: RealPlane, example: Path) -> AsyncIterator[None]:
    """The set of that name, ready; gone with its data afterwards, for other tests share the node."""
    name = example.stem

    async def no_volume() -> bool:
        volumes = (await shown(real, "pv"))["items"]
        return not any(each["spec"]["claimRef"]["name"].startswith(f"data-{name}-") for each in volumes)

    try:
        (await real.kubectl("apply", "-f", str(example))).ok()
        await until_ready(real, name)
        pods = (await shown(real, "pods", "-l", f"app={name}"))["items"]
        assert {pod["status"]["phase"] for pod in pods} == {"Running"}
        assert {pod["spec"]["nodeName"] for pod in pods} == {"m1"}
        yield
    finally:
        (await real.kubectl("delete", "-f", str(example), "--timeout=50s")).ok()
        # Claims stay for as long as pods use them: this waits for those, too.
        (await real.kubectl("delete", "pvc", "-l", f"app={name}", "--timeout=50s")).ok()
        await eventually(no_volume, seconds=60)


async def test_the_example_of_web_servers_runs(real: RealPlane) -> None:
    async with applied(real, EXAMPLES / "kubernetes" / "hello.yaml"):
        asking = 'import urllib.request as u; print(u.urlopen("http://hello-1.hello:8080").read().decode())'
        said = (await real.kubectl("exec", "hello-0", "--", "python3", "-c", asking)).ok()
        assert said.startswith("hello-1 began at ")
        claims = (await shown(real, "pvc", "-l", "app=hello"))["items"]
        assert [each["spec"]["storageClassName"] for each in claims] == ["directory", "directory"]


async def test_the_example_of_redis_runs(real: RealPlane) -> None:
    try:
        find("redis-server")
        find("mkfs.xfs")
    except MissingTool as lacking:
        pytest.skip(str(lacking))
    async with applied(real, EXAMPLES / "redis.yaml"):
        asking = ("exec", "redis-1", "--", "redis-cli", "-h", "redis-0.redis")
        assert (await real.kubectl(*asking, "set", "greeting", "hello")).ok() == "OK\n"
        assert (await real.kubectl(*asking, "get", "greeting")).ok() == "hello\n"
        claims = (await shown(real, "pvc", "-l", "app=redis"))["items"]
        assert [each["status"]["capacity"] for each in claims] == [{"storage": "320Mi"}] * 3


async def test_logs_come_through_kube_apiserver(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", str(EXAMPLE))).ok()
    await until_ready(real, "web")
    assert (await real.kubectl("logs", "web-0")).ok() == "web-0 serves\n"


async def test_a_deleted_pod_comes_back_and_a_set_grows_and_shrinks(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", str(EXAMPLE))).ok()
    await until_ready(real, "web")
    before = (await shown(real, "pod", "web-1"))["metadata"]["uid"]
    (await real.kubectl("delete", "pod", "web-1", "--timeout=40s")).ok()

    async def another() -> bool:
        found = await real.kubectl("get", "pod", "web-1", "-o", "json")
        return found.code == 0 and json.loads(found.out)["metadata"]["uid"] != before

    await eventually(another, seconds=60)
    (await real.kubectl("scale", "statefulset", "web", "--replicas=3")).ok()
    await until_ready(real, "web")
    (await real.kubectl("scale", "statefulset", "web", "--replicas=1")).ok()

    async def one_left() -> bool:
        return len((await shown(real, "pods", "-l", "app=web"))["items"]) == 1

    await eventually(one_left, seconds=60)


async def test_claims_get_volumes_of_the_node_and_keep_their_data(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", "-", stdin=json.dumps(STORED))).ok()
    await until_ready(real, "store")
    volumes = (await shown(real, "pv"))["items"]
    assert {each["status"]["phase"] for each in volumes} == {"Bound"}
    before = (await shown(real, "pod", "store-0"))["metadata"]["uid"]
    (await real.kubectl("delete", "pod", "store-0", "--timeout=40s")).ok()

    async def second_life() -> bool:
        found = await real.kubectl("get", "pod", "store-0", "-o", "json")
        if found.code != 0:
            return False
        pod = json.loads(found.out)
        ready = [each for each in pod["status"].get("conditions", ()) if each["type"] == "Ready"]
        return pod["metadata"]["uid"] != before and bool(ready) and ready[0]["status"] == "True"

    await eventually(second_life, seconds=60)
    kept = list((real.folder / "node").rglob("lives"))
    assert sorted(each.read_text().count("life") for each in kept) == [1, 2]


async def test_it_can_be_drained(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", str(EXAMPLE))).ok()
    await until_ready(real, "web")
    try:
        (
            await real.kubectl(
                "drain", "m1", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=50s"
            )
        ).ok()
        pods = (await shown(real, "pods", "-l", "app=web"))["items"]
        assert all("nodeName" not in pod["spec"] for pod in pods)
    finally:
        (await real.kubectl("uncordon", "m1")).ok()
    await until_ready(real, "web")


async def test_programs_run_inside_pods_as_kube_apiserver_asks_for_it(
    real: RealPlane, tmp_path: Path
) -> None:
    """It asks in SPDY, whatever kubectl speaks."""
    (await real.kubectl("apply", "-f", str(EXAMPLE))).ok()
    await until_ready(real, "web")
    ran = await real.kubectl("exec", "web-0", "--", "sh", "-c", "hostname; echo to-stderr >&2; exit 3")
    assert (ran.code, ran.out) == (3, "web-0\n")
    assert "to-stderr" in ran.err
    text = "".join(f"{number:07d}\n" for number in range(100_000))
    assert (await real.kubectl("exec", "-i", "web-0", "--", "cat", stdin=text)).ok() == text
    (tmp_path / "here").write_text(text)
    (await real.kubectl("cp", str(tmp_path / "here"), "web-0:/tmp/there")).ok()
    assert (await real.kubectl("exec", "web-0", "--", "md5sum", "/tmp/there")).ok().split()[0] == (
        hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    )
    async with on_a_terminal(
        real.kubectl, "exec", "-it", "web-0", "--", "sh", rows=33, columns=77
    ) as terminal:
        await terminal.type("until [ \"$(stty size)\" = '33 77' ]; do sleep 0.05; done; echo si''zed\n")
        await terminal.until("sized")
        await terminal.type("exit 5\n")
        assert await terminal.code() == 5
    refused = await real.kubectl("exec", "web-0", "--", "no-such-program")
    assert refused.code != 0
    assert "no-such-program" in refused.err


async def test_one_can_attach_to_a_pod(real: RealPlane) -> None:
    (await real.kubectl("apply", "-f", str(EXAMPLE))).ok()
    await until_ready(real, "web")
    async with real.kubectl.started("attach", "web-0") as attached:
        output = attached.stdout
        assert output is not None
        said = "sh -c 'echo heard > /proc/1/fd/1'"

        async def heard() -> bool:
            await real.kubectl("exec", "web-0", "--", "sh", "-c", said)
            try:
                return await asyncio.wait_for(output.readline(), 2) == b"heard\n"
            except TimeoutError:
                return False

        await eventually(heard)
