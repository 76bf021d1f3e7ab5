"""``pilothouse leave``: what joined goes again, its pods first, and takes nobody's data with it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.app.join.conftest import Plane
from tests.cli.running import pilothouse
from tests.kit.kubectl import Kubectl, newest
from tests.kit.processes import Process
from tests.kit.waiting import eventually


def pod(node: str) -> str:
    command = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    container = {"name": "sh", "image": "host/sh", "command": command}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 2, "containers": [container]}
    meta = {"name": f"on-{node}", "labels": {"app": f"on-{node}"}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def budget(node: str) -> str:
    """No pod of the node may go."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": f"on-{node}"}}}
    return json.dumps(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"on-{node}"},
            "spec": spec,
        }
    )


def volume(data: Path) -> Path:
    """A file of a database in a volume of the node's."""
    file = data / "node" / "volumes" / "pvc-1" / "table"
    file.parent.mkdir(parents=True)
    file.write_text("rows")
    return file


def test_a_machine_whose_agent_does_not_run_leaves(plane: Plane, tmp_path: Path) -> None:
    data = tmp_path / "data"
    joined = pilothouse("join", plane.token(), "--name", "l1", "--data", str(data), "--no-run")
    assert joined.returncode == 0, joined.stderr
    table = volume(data)
    done = pilothouse("leave", "--data", str(data), "--kubeconfig", str(plane.kubeconfig))
    assert done.returncode == 0, done.stderr
    assert "this machine is no longer node l1" in done.stdout
    assert f"kept the volumes in {table.parents[1]}; --remove-volumes removes them too" in done.stdout
    assert table.read_text() == "rows"
    assert sorted(each.name for each in (data / "pki").iterdir()) == []
    assert not (data / "node.kubeconfig").exists()
    again = pilothouse("leave", "--data", str(data))
    assert again.returncode == 1
    assert "this machine has not joined a control plane" in again.stderr
    # And it may come back, as another.
    joined = pilothouse("join", plane.token(), "--name", "l2", "--data", str(data), "--no-run")
    assert joined.returncode == 0, joined.stderr
    done = pilothouse("leave", "--data", str(data), "--remove-volumes")
    assert done.returncode == 0, done.stderr
    assert "an administrator can delete it: kubectl delete node l2" in done.stdout
    assert f"removed the volumes in {table.parents[1]}; those in folders of --tier stay" in done.stdout
    assert not table.exists()


def test_a_control_plane_does_not_leave_itself(plane: Plane) -> None:
    data = plane.kubeconfig.parent
    before = sorted(data.rglob("*.crt"))
    done = pilothouse("leave", "--data", str(data), "--force", "--remove-volumes")
    assert done.returncode == 1
    assert "is the folder of a control plane" in done.stderr
    assert sorted(data.rglob("*.crt")) == before


@pytest.mark.long
async def test_its_pods_go_first_as_budgets_allow(plane: Plane, tmp_path: Path) -> None:
    kubectl = Kubectl(newest(), plane.kubeconfig, tmp_path / "home")
    data, run = tmp_path / "data", {"PILOTHOUSE_RUNTIME_DIR": str(tmp_path / "run")}
    argv = [sys.executable, "-m", "pilothouse", "join", plane.token(), "--name", "l3", "--data", str(data)]
    agent = Process.start("join", [*argv, "--listen", "127.0.0.1:0"], log=tmp_path / "l3.log", env=run)
    try:
        agent.wait_until(lambda: "node l3 is ready" in agent.output(), seconds=60)
        for manifest in (pod("l3"), budget("l3")):
            (await kubectl("apply", "-f", "-", stdin=manifest)).ok()
        (await kubectl("wait", "pod/on-l3", "--for=condition=Ready", "--timeout=60s")).ok()
        refused = pilothouse("leave", "--timeout", "3s", **run)
        assert refused.returncode == 1
        assert f"using {data}, where `pilothouse node` runs" in refused.stderr
        assert "pod default/on-l3 not evicted within 3 s; l3 stays cordoned" in refused.stderr
        assert "disruption budget" in refused.stdout
        assert (await kubectl("get", "pod", "on-l3", "-o", "jsonpath={.status.phase}")).ok() == "Running"
        assert (await kubectl("get", "node", "l3", "-o", "jsonpath={.spec.unschedulable}")).ok() == "true"
        (await kubectl("delete", "pdb", "on-l3")).ok()
        done = pilothouse("leave", "--kubeconfig", str(plane.kubeconfig), **run)
        assert done.returncode == 0, done.stderr
        assert "stopped the agent" in done.stdout
        assert agent.popen.wait(30) == 0, agent.output()
        assert (await kubectl("get", "node", "l3")).code != 0

        async def pod_is_gone() -> bool:
            # The controllers delete a pod that ended on a node which is no more.
            return (await kubectl("get", "pod", "on-l3")).code != 0

        await eventually(pod_is_gone)
        assert not (data / "node").exists()
    finally:
        agent.end(seconds=30)
