"""``pilothouse controller-manager --dry-run``: what would be done, and why, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.kubectl import Kubectl, newest
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.workloads import stateful_set


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
