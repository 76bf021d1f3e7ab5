"""Helm, kube-state-metrics, ECK's manager and programs in Rust, Java and JavaScript work against `pilothouse up`.

Each is as it was published, with its default HTTP client, and has nothing of ours but `admin.kubeconfig`. `scripts/tools` builds
them; what could not be built is skipped. All share one control plane, and each has a namespace of its own.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.kit.control_planes import UpPlane
from tests.kit.processes import free_port
from tests.kit.waiting import eventually
from tests.third_party.stage import Stage, Tree, needed, prints

pytestmark = [pytest.mark.long, pytest.mark.clients]

CHART = Path(__file__).parent / "chart"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpPlane]:
    with UpPlane(tmp_path_factory.mktemp("third-party")) as plane:
        yield plane


@pytest.fixture
async def stage(request: pytest.FixtureRequest, plane: UpPlane, tmp_path: Path) -> Stage:
    namespace = request.node.name.removeprefix("test_").replace("_", "-")[:30].rstrip("-")
    (await plane.kubectl("create", "namespace", namespace)).ok()
    return Stage(plane, namespace, tmp_path)


async def test_kube_rs_holds_objects_by_its_finalizer_until_it_cleaned_up(stage: Stage) -> None:
    with stage.running(needed("kube-rs-controller")) as controller:
        await prints(controller, "established greetings.example.com")
        greeting = {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "hello"}}
        await stage.apply({**greeting, "spec": {"text": "good morning"}})

        async def said(text: str) -> Tree | None:
            found = await stage.appears("greetings", "hello")
            return found if (found.get("status") or {}).get("said") == text else None

        live = await eventually(lambda: said("good morning"), seconds=60)
        assert live["metadata"]["finalizers"] == ["greetings.example.com/farewell"]

        await stage.apply({**greeting, "spec": {"text": "good evening"}})
        await eventually(lambda: said("good evening"), seconds=60)
        assert (await stage.appears("configmap", "hello"))["data"] == {"text": "good evening"}

        await stage.kubectl("delete", "greeting", "hello", "--timeout=60s")
        await prints(controller, "took leave of hello")
        farewell = await stage.appears("configmap", "farewell-hello")
        assert farewell["data"] == {"text": "no more good evening"}
        await stage.disappears("configmap", "hello")
        assert "Farewell" in await stage.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
    assert "error" not in controller.output()


def talker() -> Tree:
    """A pod that has something in its log."""
    command = ["sh", "-c", "trap 'exit 0' TERM; echo began; while :; do sleep 0.1; done"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "talker"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "sh", "image": "host/sh", "command": command}],
        },
    }


def informed(name: str, **data: str) -> Tree:
    metadata = {"name": name, "labels": {"informed": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_fabric8_elects_a_leader_whose_informer_follows_changes(stage: Stage) -> None:
    program = needed("fabric8-informer")
    await stage.apply(talker(), informed("early", k="1"))
    with stage.running(program, stage.namespace, "one", "talker", name="one") as one:
        told = await prints(one, "updated early {k=1, seen=yes}")
        assert "VertxHttpClient" in told
        assert {
            "leader is one",
            "log began",
            "followed began",
            "exec printed 42 and returned 3",
            "synced true",
        } <= set(told.splitlines())

        with stage.running(program, stage.namespace, "two", name="two") as two:
            await prints(two, "leader is one")
            one.end()
            await prints(two, "added early {k=1, seen=yes}")
            await stage.apply(informed("late", k="2"))
            await prints(two, "updated late {k=2, seen=yes}")
            await stage.kubectl("delete", "configmap", "early")
            assert "failed" not in await prints(two, "deleted early")
    assert (await stage.appears("lease", "elected-informer"))["spec"]["holderIdentity"] == ""


async def test_the_client_of_javascript_follows_patches_and_runs_commands(stage: Stage) -> None:
    program = needed("client-node-informer")
    await stage.apply(talker(), informed("early", k="1"))
    await stage.kubectl("wait", "--for=condition=Ready", "pod/talker", "--timeout=60s")
    with stage.running(program, stage.namespace, "talker") as informer:
        await prints(informer, 'updated early {"k":"1","seen":"yes"}')
        await stage.kubectl("delete", "configmap", "early")
        told = await prints(informer, "deleted early")
    assert {"log began", "exec printed 42 and returned 3", 'added early {"k":"1"}'} <= set(told.splitlines())
    assert "failed" not in told


async def test_helm_installs_upgrades_rolls_back_and_uninstalls(stage: Stage) -> None:
    program = needed("helm")
    port = f"port={free_port()}"
    chart = ("shelf", str(CHART), "--timeout", "120s")

    async def helm(*arguments: str, succeeds: bool = True) -> str:
        code, printed = await stage.run(program, *arguments, "--namespace", stage.namespace)
        assert (code == 0) == succeeds, printed
        return printed

    await helm("install", *chart, "--wait", "--set", port)
    assert "the page is first" in await helm("test", "shelf", "--logs")
    assert (await stage.appears("pvc", "data-shelf-0"))["status"]["phase"] == "Bound"

    await helm("upgrade", *chart, "--wait", "--set", f"{port},replicas=2,page=second")
    assert "the page is second" in await helm("test", "shelf", "--logs")
    status = (await stage.appears("statefulset", "shelf"))["status"]
    assert (status["readyReplicas"], status["updatedReplicas"]) == (2, 2)

    # The claims that a set makes can't be changed; `--atomic` takes back what was changed before that was found.
    printed = await helm(
        "upgrade", *chart, "--atomic", "--set", f"{port},page=third,storage=1Gi", succeeds=False
    )
    assert "updates to statefulset spec for fields other than" in printed
    assert "has been rolled back" in printed
    assert (await stage.appears("configmap", "shelf"))["data"] == {"index.html": "second"}

    await helm("rollback", "shelf", "1", "--wait", "--timeout", "120s")
    assert "the page is first" in await helm("test", "shelf", "--logs")
    history = json.loads(await helm("history", "shelf", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded"] * 2 + ["failed", "superseded", "deployed"]
    # It ends with status 1 where anything differs.
    await stage.kubectl("diff", "-f", "-", stdin=await helm("get", "manifest", "shelf"))

    await helm("uninstall", "shelf", "--wait")
    left = await stage.appears("statefulsets,services,secrets,serviceaccounts,roles,rolebindings")
    assert [each["metadata"]["name"] for each in left["items"]] == ["default"]


def shelf() -> Tree:
    """A set of one pod with a volume."""
    container = {
        **talker()["spec"]["containers"][0],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "shelf"},
        "spec": {
            "serviceName": "shelf",
            "replicas": 1,
            "selector": {"matchLabels": {"app": "shelf"}},
            "template": {
                "metadata": {"labels": {"app": "shelf"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


def samples(port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What is served there, by name of the figure; nothing while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            page: bytes = answer.read()
    except OSError:
        return {}
    families = text_string_to_metric_families(page.decode())
    every = [sample for family in families for sample in family.samples]
    return {
        name: [(dict(each.labels), each.value) for each in group]
        for name, group in groupby(every, key=lambda each: each.name)
    }


async def test_kube_state_metrics_shows_sets_pods_and_claims(stage: Stage) -> None:
    program = needed("kube-state-metrics")
    await stage.apply(shelf())
    port = free_port()
    ports = (f"--port={port}", f"--telemetry-port={free_port()}")
    hosts = ("--host=127.0.0.1", "--telemetry-host=127.0.0.1")
    with stage.running(program, f"--kubeconfig={stage.kubeconfig}", *ports, *hosts) as exporter:

        async def shows(name: str, value: float, **labels: str) -> bool:
            assert exporter.popen.poll() is None, exporter.output()
            found = await asyncio.to_thread(samples, port)
            return any(labels.items() <= has.items() and is_ == value for has, is_ in found.get(name, []))

        async def comes_to_show(name: str, value: float, **labels: str) -> None:
            await eventually(lambda: shows(name, value, **labels), seconds=60)

        mine = {"namespace": stage.namespace}
        await comes_to_show("kube_statefulset_status_replicas_ready", 1, **mine, statefulset="shelf")
        await comes_to_show("kube_statefulset_replicas", 1, **mine, statefulset="shelf")
        pod = {**mine, "pod": "shelf-0"}
        await comes_to_show("kube_pod_status_ready", 1, **pod, condition="true")
        await comes_to_show("kube_pod_container_status_running", 1, **pod, container="sh")
        await comes_to_show("kube_pod_info", 1, **pod, node="n1", created_by_kind="StatefulSet")
        claim = {**mine, "persistentvolumeclaim": "data-shelf-0"}
        await comes_to_show("kube_persistentvolumeclaim_status_phase", 1, **claim, phase="Bound")
        requested = "kube_persistentvolumeclaim_resource_requests_storage_bytes"
        await comes_to_show(requested, 64 << 20, **claim)
        await comes_to_show("kube_node_status_condition", 1, node="n1", condition="Ready", status="true")

        await stage.kubectl("scale", "statefulset", "shelf", "--replicas=2")
        await comes_to_show("kube_statefulset_status_replicas_ready", 2, **mine, statefulset="shelf")
    errors = [line for line in exporter.output().splitlines() if line.startswith("E")]
    # Kinds that are not served; it asks for them again and again, and shows the others.
    assert [line for line in errors if "the server could not find the requested resource" not in line] == []


def elasticsearch() -> Tree:
    return {
        "apiVersion": "elasticsearch.k8s.elastic.co/v1",
        "kind": "Elasticsearch",
        "metadata": {"name": "quickstart"},
        "spec": {
            "version": "8.17.0",
            "nodeSets": [{"name": "default", "count": 3, "config": {"node.store.allow_mmap": False}}],
        },
    }


async def test_eck_leads_and_makes_the_stateful_set_of_an_elasticsearch(stage: Stage) -> None:
    program = needed("eck-manager")
    definitions = program.with_name("eck-manager.crds.yaml")
    await stage.kubectl("create", "-f", str(definitions))
    await stage.kubectl("wait", "--for=condition=Established", "-f", str(definitions), "--timeout=60s")

    flags = (
        "--enable-webhook=false",
        "--enable-leader-election",
        "--metrics-host=127.0.0.1",
        "--disable-telemetry",
    )
    places = (f"--operator-namespace={stage.namespace}", f"--namespaces={stage.namespace}")
    with stage.running(program, "manager", *flags, *places) as manager:
        await prints(manager, ".*successfully acquired lease.*")
        await stage.apply(elasticsearch())
        made = await stage.appears("statefulset", "quickstart-es-default")
        assert made["spec"]["replicas"] == 3
        [owner] = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Elasticsearch", "quickstart")
        await stage.appears("service", "quickstart-es-http")
        await stage.appears("secret", "quickstart-es-elastic-user")
        await stage.appears("pdb", "quickstart-es-default")
        for number in range(3):
            await stage.appears("pod", f"quickstart-es-default-{number}")

        async def status() -> Any:
            return ((await stage.appears("elasticsearch", "quickstart")).get("status") or {}).get("phase")

        assert await eventually(status, seconds=60) == "ApplyingChanges"
        await stage.kubectl("delete", "elasticsearch", "quickstart", "--timeout=60s")
        await stage.disappears("statefulset", "quickstart-es-default")
    assert "panic" not in manager.output()
