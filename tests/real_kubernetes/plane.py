"""A Kubernetes that nobody here has written, with one of our nodes in it.

    with kubernetes(folder) as plane:
        plane.kubectl("get", "nodes")

kube-apiserver, kube-controller-manager and kube-scheduler run in a network namespace of the test's own, the node on a machine
beside it, with addresses of its own range for its pods: kube-apiserver refuses loopback addresses as endpoints.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.kube import KubeServer, controller_manager, scheduler
from tests.kit.kubectl import Kubectl, newest
from tests.kit.network_namespaces import Machine, machines
from tests.kit.processes import Process
from tests.kit.servers import Target

PODS = "10.88.1.0/24"
STORAGE = Path(__file__).parents[2] / "examples" / "kubernetes" / "node-storage.yaml"


@dataclass
class RealPlane:
    """All of it, running."""

    target: Target
    folder: Path
    machine: Machine
    node: Process

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(newest(), self.target.kubeconfig, self.folder / "home")


@contextlib.contextmanager
def kubernetes(folder: Path) -> Iterator[RealPlane]:
    """A control plane of Kubernetes' own programs, and our node."""
    with machines(1) as lan:
        pki = folder / "pki"
        server = KubeServer(
            folder,
            flags=(
                "--bind-address=0.0.0.0",
                f"--advertise-address={lan.address}",
                # Beside RBAC, which it has anyway.
                "--authorization-mode=Node",
                "--enable-admission-plugins=NodeRestriction",
                f"--kubelet-client-certificate={pki / 'admin.crt'}",
                f"--kubelet-client-key={pki / 'admin.key'}",
                "--kubelet-preferred-address-types=InternalIP",
            ),
        )
        try:
            flags = (
                f"--service-account-private-key-file={pki / 'server.key'}",
                f"--root-ca-file={pki / 'ca.crt'}",
            )
            _allow(server, folder)
            with (
                controller_manager(server.target, folder, controllers=("*",), flags=flags),
                scheduler(server.target, folder),
                _node(server, lan.address, lan[0], folder) as node,
            ):
                yield RealPlane(server.target, folder, lan[0], node)
        finally:
            server.close()


def _allow(server: KubeServer, folder: Path) -> None:
    """What a node of ours needs beside what Kubernetes lets every node do: what kube-proxy and a provisioner of volumes need."""
    binding: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "nodes-node-proxier"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:node-proxier",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }
    file = folder / "nodes-node-proxier.json"
    file.write_text(json.dumps(binding))
    kubectl = [str(newest().path), "--kubeconfig", str(server.target.kubeconfig)]
    words = [*kubectl, "apply", "-f", str(file), "-f", str(STORAGE)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@contextlib.contextmanager
def _node(server: KubeServer, address: str, machine: Machine, folder: Path) -> Iterator[Process]:
    pair = server.authority.client(f"system:node:{machine.name}", group="system:nodes")
    port = server.target.url.rpartition(":")[2]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [
            {
                "name": "kube",
                "cluster": {
                    "server": f"https://{address}:{port}",
                    "tls-server-name": "localhost",
                    "certificate-authority": str(server.authority.cert),
                },
            }
        ],
        "users": [
            {"name": "node", "user": {"client-certificate": str(pair.cert), "client-key": str(pair.key)}}
        ],
        "contexts": [{"name": "node", "context": {"cluster": "kube", "user": "node"}}],
    }
    file = folder / "node.kubeconfig"
    file.write_text(json.dumps(config))
    argv = [*machine.inside, sys.executable, "-m", "pilothouse", "node", "--kubeconfig", str(file)]
    argv += ["--data", str(folder / "node"), "--name", machine.name, "--pod-cidr", PODS]
    argv += ["--listen", f"{machine.address}:10250", "--stop-pods"]
    node = Process.start("pilothouse node", argv, log=folder / "node.log")
    try:
        node.wait_until(lambda: "is ready" in node.output(), seconds=30)
        yield node
    finally:
        node.end(seconds=30)
