"""``pilothouse controller-manager --dry-run``: what would be done, and why, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.steady_prometheus import steady_prometheus
from tests.kit.waiting import eventually
from tests.kit.workloads import stateful_set

RULED_VOLUME = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "example.com/m",
            "allowVolumeExpansion": True,
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "labels": {"app": "db"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "volumeName": "pv-data",
                "resources": {"requests": {"storage": "320Mi"}},
            },
        },
        {
            "apiVersion": "autopilot.libopenstorage.org/v1alpha1",
            "kind": "AutopilotRule",
            "metadata": {"name": "grow"},
            "spec": {
                "selector": {"matchLabels": {"app": "db"}},
                "pollInterval": 1,
                "conditions": {
                    "for": 1,
                    "expressions": [{"key": "usage", "operator": "Gt", "values": ["50"]}],
                },
                "actions": [{"name": "openstorage.io.action.volume/resize", "params": {"maxsize": "1Gi"}}],
            },
        },
    ],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path / "server", "sqlite")
    yield server
    server.close()


async def test_it_says_what_it_would_do_and_why(server: PilothouseServer, tmp_path: Path) -> None:
    kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
    (await kubectl("apply", "-f", "-", stdin=json.dumps(stateful_set()))).ok()
    everything = ("get", "--all-namespaces", "-o", "name")
    kinds = "statefulsets,pods,serviceaccounts,configmaps,controllerrevisions,leases,decisions,events"
    before = (await kubectl(*everything, kinds)).ok()
    flags = ("--kubeconfig", str(server.target.kubeconfig), "--dry-run")

    done = pilothouse("controller-manager", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "namespaces kube-system (service-accounts):\n"
        "  would Create ServiceAccount kube-system/default: the namespace kube-system has no service account"
    ) in done.stdout
    assert "statefulsets.apps default/web (stateful-sets):\n  would " in done.stdout
    assert (await kubectl(*everything, kinds)).ok() == before

    few = pilothouse("controller-manager", *flags, "--controllers=service-accounts")
    assert "ServiceAccount" in few.stdout
    assert "statefulsets" not in few.stdout

    alone = pilothouse("controller-manager", "--kubeconfig", str(server.target.kubeconfig), "--watch")
    assert (alone.returncode, "--watch goes with --dry-run" in alone.stderr) == (2, True)


async def test_it_says_what_rules_would_do(server: PilothouseServer, tmp_path: Path) -> None:
    kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
    (await kubectl("apply", "-f", "-", stdin=json.dumps(RULED_VOLUME))).ok()
    bound = json.dumps({"status": {"phase": "Bound", "capacity": {"storage": "320Mi"}}})
    (await kubectl("patch", "pvc", "data", "--subresource=status", "--type=merge", "-p", bound)).ok()
    config, flags = tmp_path / "config.yaml", ("--autopilot-config", str(tmp_path / "config.yaml"))
    written = (
        "get",
        "--all-namespaces",
        "autopilotrules,autopilotruleobjects,actionapprovals,applicationactions,pvc,decisions,events",
        "-o=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}",
    )

    async def pending() -> bool:
        state = await kubectl("get", "aro", "pv-data-grow", "-o=jsonpath={.status.state}")
        return state.out == "ActiveActionsPending"

    with steady_prometheus([({"volumename": "pv-data"}, "60")]) as url:
        config.write_text(f"providers: [{{name: default, type: prometheus, params: 'url={url}'}}]\n")
        # A manager that finds out what is called for, and does not act.
        process = started(
            server.target.kubeconfig, tmp_path, "--no-leader-elect", "--controllers=rule-objects", *flags
        )
        try:
            await eventually(pending)
        finally:
            process.end(seconds=10)
        before = (await kubectl(*written)).ok()
        done = pilothouse(
            "controller-manager", "--kubeconfig", str(server.target.kubeconfig), "--dry-run", *flags
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "autopilotruleobjects.autopilot.libopenstorage.org default/pv-data-grow (rule-actions):\n"
        "  would Create ApplicationAction default/grow-"
    ) in done.stdout
    assert ": rule grow: pv-data: openstorage.io.action.volume/resize from 320Mi to 480Mi\n" in done.stdout
    assert (
        "\n  would SetStatus AutopilotRuleObject default/pv-data-grow: the action is started\n" in done.stdout
    )
    assert "AutopilotRuleObject/pv-data-grow " in before
    assert (await kubectl(*written)).ok() == before
