"""Two API servers on one etcd: a node and a manager that know both go on when the one that they have talked to is no more."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit.etcd import EtcdServer
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managers import started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process

from pilothouse.client.kubeconfig import SERVERS

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class House:
    """What was started."""

    servers: tuple[PilothouseServer, PilothouseServer]
    node: Process


@contextlib.contextmanager
def house(folder: Path) -> Iterator[House]:
    with contextlib.ExitStack() as ending:
        etcd = EtcdServer.start(folder / "etcd")
        ending.callback(etcd.stop)
        one = PilothouseServer(folder / "one", "etcd", etcd=etcd)
        ending.callback(one.close)
        two = one.beside(folder / "two")
        ending.callback(two.close)
        urls = [one.target.url, two.target.url]
        both = json.loads(one.target.kubeconfig.read_text())
        both["clusters"][0]["cluster"]["extensions"] = [{"name": SERVERS, "extension": {"servers": urls}}]
        config = folder / "both.kubeconfig"
        config.write_text(json.dumps(both))
        manager = started(config, folder)
        ending.callback(manager.end)
        # Without --server a token names all that the kubeconfig does.
        made = pilothouse("token", "create", "--kubeconfig", str(config))
        assert made.returncode == 0, made.stderr
        flags = ("--data", str(folder / "node"), "--name", "n1", "--listen", "127.0.0.1:0", "--stop-pods")
        argv = [sys.executable, "-m", "pilothouse", "join", made.stdout.split()[0], *flags]
        node = Process.start("node", argv, log=folder / "node.log")
        ending.callback(node.end, seconds=60)
        node.wait_until(lambda: "node n1 is ready" in node.output(), seconds=120)
        yield House((one, two), node)


def pod(name: str) -> str:
    container = {"name": "sh", "image": "host/sh", "command": ["sh", "-c", "exec sleep 1000"]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_pods_are_placed_and_run_without_it(loss: signal.Signals, tmp_path: Path) -> None:
    with house(tmp_path) as found:
        one, two = found.servers
        kubectl = Kubectl(newest(), two.target.kubeconfig, tmp_path / "home")
        (await kubectl("apply", "-f", "-", stdin=pod("before"))).ok()
        (await kubectl("wait", "pod/before", "--for=condition=Ready", "--timeout=120s")).ok()
        os.kill(one.process.pid, loss)
        try:
            (await kubectl("apply", "-f", "-", stdin=pod("after"))).ok()
            (await kubectl("wait", "pod/after", "--for=condition=Ready", "--timeout=240s")).ok()
            (await kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=120s")).ok()
            assert f"using {two.target.url} from here on" in found.node.output()
            (await kubectl("delete", "pod", "before", "after", "--timeout=120s")).ok()
        finally:
            if loss is signal.SIGSTOP:
                os.kill(one.process.pid, signal.SIGCONT)
