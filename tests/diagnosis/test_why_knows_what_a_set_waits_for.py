"""``pilothouse why`` on live servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit import kube
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.targets import Fleet
from tests.kit.waiting import eventually
from tests.kit.workloads import stateful_set


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def test_a_set_that_cannot_be_scheduled_says_why_and_what_would_let_it(
    tmp_path: Path, stack: ExitStack
) -> None:
    server = PilothouseServer(tmp_path / "server", "sqlite")
    stack.callback(server.close)
    config = server.target.kubeconfig
    kubectl = Kubectl(newest(), config, tmp_path / "home")
    (await kubectl("apply", "-f", "-", stdin=json.dumps(stateful_set()))).ok()

    def why(*words: str) -> tuple[int, str, str]:
        done = pilothouse("why", *words, "--kubeconfig", str(config))
        return done.returncode, done.stdout, done.stderr

    code, told, _ = why("sts/web")
    assert code == 0
    assert "no decisions recorded by stateful-sets" in told
    assert "No controller-manager leads" in told

    manager = started(config, tmp_path)
    stack.callback(manager.kill)

    async def waits() -> str:
        told = why("statefulset", "web")[1]
        return told if "waiting (for " in told and "Dependent Pod default/web-0:" in told else ""

    told = await eventually(waits)
    assert "pod web-0 has no node" in told
    assert "what would help: add a node" in told
    assert "Dependent Pod default/web-0:" in told
    assert "No controller-manager leads" not in told
    assert "decided by" not in told
    assert "decided by stateful-sets" in why("statefulset", "web", "-v")[1]

    code, told, _ = why("pod/web-0", "-n", "default")
    assert (code, "Owner StatefulSet default/web:" in told) == (0, True)
    facts = json.loads(why("StatefulSet.apps", "web", "-o", "json")[1])
    assert facts["about"]["decisions"][0]["waiting"]["reason"] == "Unschedulable"
    assert facts["dependents"][0]["name"] == "web-0"
    assert (facts["about"]["exists"], facts["servesDecisions"]) == (True, True), (
        "booleans are printed either way"
    )

    assert why("sts/nobody")[:2] == (1, "StatefulSet default/nobody not found.\n")
    code, _, problem = why("starship/enterprise")
    assert (code, "the server does not serve starship" in problem) == (1, True)
    assert why("sts")[0] == 2


@pytest.mark.long
async def test_on_a_real_kubernetes_it_points_to_those_who_decide_there(fleet: Fleet, tmp_path: Path) -> None:
    config = fleet.get(kube.NAME).target.kubeconfig
    kubectl = Kubectl(newest(), config, tmp_path / "home")
    (await kubectl("apply", "-f", "-", stdin=json.dumps(stateful_set()))).ok()
    done = pilothouse("why", "sts/web", "--kubeconfig", str(config))
    assert done.returncode == 0, done.stderr
    assert (
        "the server is a Kubernetes API server: its own controllers handle the kind StatefulSet"
        in done.stdout
    )
    assert "No controller-manager leads" not in done.stdout
