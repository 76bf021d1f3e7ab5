"""Rules and policies on a real Kubernetes without a node of ours: what they set is there, and Kubernetes' controllers follow.

Pods and volumes are objects only: their statuses are written by the test, in the place of a kubelet and a storage driver.
What rules go by is a page of metrics, which the pods name and the test serves.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import pilothouse
from tests.kit.growing_postgres import EXAMPLES
from tests.kit.kube import KubeServer, controller_manager
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managers import started
from tests.kit.processes import Process
from tests.kit.waiting import eventually
from tests.rules.metrics_server import MetricsServer, answer

from pilothouse.api.openstorage.actions import RESIZE, SCALE, SET_IOPS

pytestmark = [pytest.mark.long, pytest.mark.etcd, pytest.mark.timeout(600)]

Json = dict[str, Any]
PATIENCE = 120.0
PAGE = b"""\
queue_length 40
disk_used_percent{persistentvolumeclaim="owned"} 80
disk_used_percent{persistentvolumeclaim="asked"} 80
iops_used_percent{persistentvolumeclaim="tuned"} 99
"""
DRIVER = "csi.example.com"


def tree(kind: str, name: str, version: str = "v1", **fields: Any) -> Json:
    meta = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **fields}


def rule(name: str, about: str, key: str, action: str, *, on: str = "", **params: str) -> Json:
    expression = {"key": key, "operator": "Gt", "values": ["10"], **({"on": on} if on else {})}
    spec = {
        "object": about,
        "selector": {"matchLabels": {"rule": name}},
        "pollInterval": 1,
        "conditions": {"for": 1, "expressions": [expression]},
        "actions": [{"name": action, "params": params}],
        "actionsCoolDownPeriod": 3600,
    }
    return tree("AutopilotRule", name, "autopilot.libopenstorage.org/v1alpha1", spec=spec)


def claim(name: str, **spec: Any) -> Json:
    reads = {"accessModes": ["ReadWriteOnce"], "storageClassName": "network"}
    requests = {"resources": {"requests": {"storage": "8Gi"}}}
    return tree(
        "PersistentVolumeClaim",
        name,
        metadata={"labels": {"rule": name}},
        spec={**reads, **requests, "volumeName": f"pv-{name}", **spec},
    )


def volume(name: str, **spec: Any) -> Json:
    driver = {"driver": DRIVER, "volumeHandle": name}
    size = {"capacity": {"storage": "8Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "network"}
    return tree("PersistentVolume", f"pv-{name}", spec={**size, "csi": driver, **spec})


def pod_spec(*claims: str) -> Json:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return {
        "nodeName": "elsewhere",
        "containers": [{"name": "main", "image": "example.com/app"}],
        "volumes": volumes,
    }


def database() -> Json:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}}
    served = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": "Database", "plural": "databases", "singular": "database"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [served]}
    return tree("CustomResourceDefinition", "databases.example.com", "apiextensions.k8s.io/v1", spec=spec)


class Kubernetes:
    """A control plane, our kinds in it, and our controller-manager beside Kubernetes' own."""

    def __init__(self, server: KubeServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._kubectl = Kubectl(newest(), server.target.kubeconfig, folder / "home")
        self._manager: Process | None = None

    async def run(self, *words: str, stdin: str = "") -> str:
        return (await self._kubectl(*words, stdin=stdin)).ok()

    async def apply(self, *objects: Json) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        await self.run("apply", "-f", "-", stdin=text)

    async def shown(self, *what: str) -> Json:
        found: Json = json.loads(await self.run("get", *what, "-o", "json"))
        return found

    async def set_status(self, kind: str, name: str, **status: Any) -> None:
        patch = json.dumps({"status": status})
        await self.run("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)

    async def run_pod(self, name: str) -> None:
        """As its kubelet reports it."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        address = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        await self.set_status("pod", name, phase="Running", conditions=[ready], **address)

    async def action(self, rule: str) -> Json:
        """Of a rule that has acted once."""

        async def begun() -> Json | None:
            found = (await self.shown("applicationactions"))["items"]
            return next((one for one in found if one["spec"]["rule"] == rule), None)

        return await eventually(begun, seconds=PATIENCE)

    async def reaches(self, rule: str, phase: str, reason: str) -> str:
        """The message of the action of a rule, once it has this phase and reason."""
        found: Json = {}

        async def reached() -> bool:
            nonlocal found
            found = await self.action(rule)
            return (found.get("status", {}).get("phase"), _complete(found).get("reason")) == (phase, reason)

        try:
            await eventually(reached, seconds=PATIENCE)
        except AssertionError:
            raise AssertionError(f"{rule} is not {phase} for {reason}: {found.get('status')}") from None
        return str(_complete(found)["message"])

    def manage(self, ahead: int = 0) -> None:
        """Start our controller-manager, on a machine whose clock is ahead by so many seconds."""
        self.stop()
        kubeconfig = self._server.target.kubeconfig
        if not ahead:
            self._manager = started(kubeconfig, self._folder, "--no-leader-elect")
            return
        command = ["controller-manager", "--kubeconfig", str(kubeconfig), "--no-leader-elect"]
        argv = [sys.executable, "-m", "tests.kit.moved_clock", str(ahead), *command]
        self._manager = Process.start("later", argv, log=self._folder / "later.log")

    def stop(self) -> None:
        if self._manager is not None:
            self._manager.end(seconds=5)
            self._manager = None


def _complete(action: Json) -> Json:
    conditions = action.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Complete"), {})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    flags = (
        "--feature-gates=VolumeAttributesClass=true",
        "--runtime-config=storage.k8s.io/v1beta1=true",
    )
    folder = tmp_path_factory.mktemp("kubernetes")
    running = KubeServer(folder, flags=flags)
    controllers = ("statefulset-controller", "garbage-collector-controller", "serviceaccount-controller")
    try:
        with controller_manager(running.target, folder, controllers=controllers):
            yield running
    finally:
        running.close()


@contextlib.asynccontextmanager
async def managed(server: KubeServer, folder: Path) -> AsyncIterator[tuple[Kubernetes, Json]]:
    """The control plane, and the annotations of a pod that names the page of metrics."""
    kubernetes = Kubernetes(server, folder)
    crds = pilothouse("crds")
    await kubernetes.run("apply", "--server-side", "-f", "-", stdin=crds.stdout)
    await kubernetes.apply(database())
    await kubernetes.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    await kubernetes.run("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    await kubernetes.run("apply", "-f", str(EXAMPLES / "kubernetes" / "rules.yaml"))
    expandable = tree(
        "StorageClass", "network", "storage.k8s.io/v1", provisioner=DRIVER, allowVolumeExpansion=True
    )
    await kubernetes.apply(expandable)
    async with MetricsServer({"/metrics": answer(PAGE, headers="Content-Type: text/plain\r\n")}) as page:
        scraped = {"prometheus.io/scrape": "true", "prometheus.io/port": str(page.port)}
        kubernetes.manage()
        try:
            yield kubernetes, scraped
        finally:
            kubernetes.stop()


async def test_a_stateful_set_is_scaled_up(server: KubeServer, tmp_path: Path) -> None:
    async with managed(server, tmp_path) as (kubernetes, scraped):
        labels = {"app": "scaled"}
        template = {"metadata": {"labels": labels, "annotations": scraped}, "spec": pod_spec()}
        spec = {
            "serviceName": "web",
            "selector": {"matchLabels": labels},
            "template": template,
            "replicas": 1,
        }
        made = tree("StatefulSet", "web", "apps/v1", metadata={"labels": {"rule": "scaled"}}, spec=spec)
        await kubernetes.apply(
            made, rule("scaled", "workload", "queue_length", SCALE, on="pod", step="1", max="2")
        )
        await kubernetes.run("wait", "--for=create", "pod/web-0", "--timeout=60s")
        await kubernetes.run_pod("web-0")
        await kubernetes.run("wait", "--for=create", "pod/web-1", "--timeout=60s")
        await kubernetes.run_pod("web-1")
        await kubernetes.reaches("scaled", "Succeeded", "Scaled")
        found = await kubernetes.shown("statefulset", "web", "--show-managed-fields")
        assert found["spec"]["replicas"] == 2
        assert "pilothouse-workload-scale" in [one["manager"] for one in found["metadata"]["managedFields"]]


async def test_a_volume_grows_through_the_field_of_its_operator(server: KubeServer, tmp_path: Path) -> None:
    async with managed(server, tmp_path) as (kubernetes, scraped):
        await kubernetes.apply(tree("Database", "db", "example.com/v1", spec={"storage": {"size": "8Gi"}}))
        uid = (await kubernetes.shown("database", "db"))["metadata"]["uid"]
        owner = {
            "apiVersion": "example.com/v1",
            "kind": "Database",
            "name": "db",
            "uid": uid,
            "controller": True,
        }
        owned = claim("owned")
        owned["metadata"]["ownerReferences"] = [owner]
        pod = tree("Pod", "db-0", metadata={"annotations": scraped}, spec=pod_spec("owned"))
        grows = rule("owned", "volume", "disk_used_percent", RESIZE, owner="spec.storage.size")
        await kubernetes.apply(volume("owned"), owned, pod, grows)
        await kubernetes.set_status("pvc", "owned", phase="Bound", capacity={"storage": "8Gi"})
        await kubernetes.run_pod("db-0")

        async def refused() -> str:
            message = str(_complete(await kubernetes.action("owned")).get("message", ""))
            return message if "kind: Role" in message else ""

        message = await eventually(refused, seconds=PATIENCE)
        assert "rules: [{apiGroups: [example.com], resources: [databases], verbs: [get, patch]}]" in message
        account = "--serviceaccount=kube-system:pilothouse-rules"
        await kubernetes.run(
            "create", "role", "sizes", "--verb=get,patch", "--resource=databases.example.com"
        )
        await kubernetes.run("create", "rolebinding", "sizes", "--role=sizes", account)

        async def asked() -> bool:
            found = await kubernetes.shown("database", "db")
            return bool(found["spec"]["storage"]["size"] == "12Gi")

        await eventually(asked, seconds=PATIENCE)
        assert (await kubernetes.shown("pvc", "owned"))["spec"]["resources"]["requests"]["storage"] == "8Gi"
        request = json.dumps({"spec": {"resources": {"requests": {"storage": "12Gi"}}}})
        await kubernetes.run("patch", "pvc", "owned", "--field-manager=database-operator", "-p", request)
        await kubernetes.set_status("pvc", "owned", capacity={"storage": "12Gi"})
        await kubernetes.reaches("owned", "Succeeded", "Resized")


async def test_a_person_approves_by_kubectl_patch_and_managed_fields_say_who(
    server: KubeServer, tmp_path: Path
) -> None:
    """Nothing happens before; who may not patch approvals is refused by Kubernetes itself."""
    async with managed(server, tmp_path) as (kubernetes, scraped):
        pod = tree("Pod", "db-2", metadata={"annotations": scraped}, spec=pod_spec("asked"))
        asks = rule("asked", "volume", "disk_used_percent", RESIZE)
        asks["spec"]["enforcement"] = "approvalRequired"
        await kubernetes.apply(volume("asked"), claim("asked"), pod, asks)
        await kubernetes.set_status("pvc", "asked", phase="Bound", capacity={"storage": "8Gi"})
        await kubernetes.run_pod("db-2")
        grant = ("create", "rolebinding", "approvers", "--clusterrole=pilothouse:approver", "--user=jane")
        await kubernetes.run(*grant)

        async def asked() -> Json | None:
            found = (await kubernetes.shown("actionapprovals"))["items"]
            pending = found and found[0]["spec"]["approvalState"] == "pending"
            return found[0] if pending and found[0].get("status", {}).get("target") else None

        question = await eventually(asked, seconds=PATIENCE)
        assert question["status"]["target"]["to"] == "12Gi"
        name = question["metadata"]["name"]
        decision = (
            "patch",
            "actionapproval",
            name,
            "--type=merge",
            "-p",
            '{"spec":{"approvalState":"approved"}}',
        )
        with pytest.raises(AssertionError, match="Forbidden"):
            await kubernetes.run(*decision, "--as=joe", "--field-manager=joe")
        found = (await kubernetes.shown("applicationactions"))["items"]
        assert [one for one in found if one["spec"]["rule"] == "asked"] == []

        await kubernetes.run(*decision, "--as=jane", "--field-manager=jane")

        action = await kubernetes.action("asked")
        assert (action["spec"]["approval"], action["spec"]["target"]["to"]) == (name, "12Gi")
        decided = await kubernetes.shown("actionapproval", name, "--show-managed-fields")
        assert decided["spec"]["approvalState"] == "approved"
        deciders = [
            (each["manager"], each["operation"])
            for each in decided["metadata"]["managedFields"]
            if "f:approvalState" in each["fieldsV1"].get("f:spec", {})
        ]
        assert deciders == [("jane", "Update")]

        async def requested() -> bool:
            spec = (await kubernetes.shown("pvc", "asked"))["spec"]
            return bool(spec["resources"]["requests"]["storage"] == "12Gi")

        await eventually(requested, seconds=PATIENCE)
        await kubernetes.set_status("pvc", "asked", capacity={"storage": "12Gi"})
        await kubernetes.reaches("asked", "Succeeded", "Resized")


async def test_a_class_that_no_driver_answers_for_is_given_up(server: KubeServer, tmp_path: Path) -> None:
    async with managed(server, tmp_path) as (kubernetes, scraped):
        version = "storage.k8s.io/v1beta1"
        classes = [
            tree("VolumeAttributesClass", name, version, driverName=DRIVER, parameters={"iops": iops})
            for name, iops in (("silver", "200"), ("gold", "400"))
        ]
        pod = tree("Pod", "db-1", metadata={"annotations": scraped}, spec=pod_spec("tuned"))
        tunes = rule("tuned", "volume", "iops_used_percent", SET_IOPS, classes="silver,gold", step="up")
        tuned = claim("tuned", volumeAttributesClassName="silver")
        named = volume("tuned", volumeAttributesClassName="silver")
        await kubernetes.apply(*classes, named, tuned, pod, tunes)
        current = {"currentVolumeAttributesClassName": "silver"}
        await kubernetes.set_status("pvc", "tuned", phase="Bound", capacity={"storage": "8Gi"}, **current)
        await kubernetes.run_pod("db-1")

        message = await kubernetes.reaches("tuned", "Running", "Modifying")
        assert message == "claim tuned waits for class gold: its driver has not answered"
        assert (await kubernetes.shown("pvc", "tuned"))["spec"]["volumeAttributesClassName"] == "gold"

        kubernetes.manage(ahead=660)
        message = await kubernetes.reaches("tuned", "Failed", "NoAnswer")
        assert "no driver has answered within 10 minutes" in message
        assert (await kubernetes.shown("pvc", "tuned"))["spec"]["volumeAttributesClassName"] == "gold"


async def test_policies_become_rules_that_follow_them(server: KubeServer, tmp_path: Path) -> None:
    async with managed(server, tmp_path) as (kubernetes, _):
        await kubernetes.run("apply", "-f", str(EXAMPLES / "application-policy.yaml"))
        for name in ("databases-volume-resize", "databases-slow-volume"):
            await kubernetes.run("wait", "--for=create", f"autopilotrule/{name}", "--timeout=60s")
        edit = json.dumps([{"op": "replace", "path": "/spec/policies/0/parameters/threshold", "value": "60"}])
        await kubernetes.run("patch", "applicationpolicy", "databases", "--type=json", "-p", edit)
        follows = "--for=jsonpath={.spec.conditions.expressions[0].values[0]}=60"
        await kubernetes.run("wait", follows, "autopilotrule/databases-volume-resize", "--timeout=60s")
        change = json.dumps([{"op": "remove", "path": "/spec/policies/1"}])
        await kubernetes.run("patch", "applicationpolicy", "databases", "--type=json", "-p", change)
        await kubernetes.run("wait", "--for=delete", "autopilotrule/databases-slow-volume", "--timeout=60s")
        await kubernetes.run("delete", "applicationpolicy", "databases")
        await kubernetes.run("wait", "--for=delete", "autopilotrule/databases-volume-resize", "--timeout=60s")
