"""Two nodes of one plane, each an agent with a data folder of its own: as two machines would be, but for the network. One is
joined and run by one command, the other by two."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.app.join.conftest import Plane
from tests.cli.running import pilothouse
from tests.kit.kubectl import Kubectl, newest
from tests.kit.processes import Process
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long


def is_ready(node: Process) -> bool:
    return f"node {node.name} is ready" in node.output()


def pod(node: str) -> str:
    container = {
        "name": "sh",
        "image": "host/sh",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"],
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 2, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"on-{node}"}, "spec": spec})


async def test_it_is_a_node_like_any_other(plane: Plane, tmp_path: Path) -> None:
    kubectl = Kubectl(newest(), plane.kubeconfig, tmp_path / "home")
    processes = []
    try:
        for name in ("j1", "j2"):
            data = str(tmp_path / name)
            flags = (
                "--data",
                data,
                "--listen",
                "127.0.0.1:0",
                "--node-labels",
                f"rack={name}",
                "--stop-pods",
            )
            words: tuple[str, ...] = ("join", plane.token(), "--name", name)
            if name == "j2":
                done = pilothouse(*words, "--data", data, "--no-run")
                assert done.returncode == 0, done.stderr
                words = ("node",)
            argv = [sys.executable, "-m", "pilothouse", *words, *flags]
            processes.append(Process.start(name, argv, log=tmp_path / f"{name}.log"))
        for process in processes:
            process.wait_until(partial(is_ready, process), seconds=60)
        for name in ("j1", "j2"):
            (await kubectl("apply", "-f", "-", stdin=pod(name))).ok()
            (await kubectl("wait", f"pod/on-{name}", "--for=condition=Ready", "--timeout=60s")).ok()
            assert (await kubectl("get", "node", name, "-o", "jsonpath={.metadata.labels.rack}")).ok() == name

            async def answered(name: str = name) -> bool:
                return (await kubectl("exec", f"on-{name}", "--", "hostname")).out == f"on-{name}\n"

            await eventually(answered)
        (await kubectl("delete", "pod", "on-j1", "on-j2", "--timeout=30s")).ok()
    finally:
        codes = [process.end(seconds=30) for process in processes]
    assert codes == [0, 0], [process.output() for process in processes]
