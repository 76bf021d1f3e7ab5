"""Where the real parts are: programs that set-up scripts fetch or build into the tool folder.

find("kube-apiserver")      # a Path, or MissingTool that says which script brings it
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SCRIPTS = {
    "memcached": "scripts/tools/debian, as root,",
    "minisign": "scripts/tools/debian, as root,",
    "mkfs.btrfs": "scripts/tools/debian, as root,",
    "mkfs.xfs": "scripts/tools/debian, as root,",
    "postgres": "scripts/tools/debian, as root,",
    "psql": "scripts/tools/debian, as root,",
    "prometheus-postgres-exporter": "scripts/tools/debian prometheus-postgres-exporter",
    "redis-server": "scripts/tools/debian, as root,",
    "client-node-informer": "scripts/tools/client-node",
    "eck-manager": "scripts/tools/eck",
    "etcd": "scripts/tools/etcd",
    "fabric8-informer": "scripts/tools/fabric8",
    "helm": "scripts/tools/helm",
    "kube-apiserver": "scripts/tools/kube",
    "kube-controller-manager": "scripts/tools/kube",
    "kube-rs-controller": "scripts/tools/kube-rs",
    "kube-scheduler": "scripts/tools/kube",
    "kube-state-metrics": "scripts/tools/kube-state-metrics",
    "kubectl": "scripts/tools/kubectl",
    "prometheus": "scripts/tools/prometheus",
    "promtool": "scripts/tools/prometheus",
}


class MissingTool(Exception):
    """A real part that a suite needs is not on this machine."""


def folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "pilothouse" / "tools"


def find(name: str) -> Path:
    """The program `name`: what the environment says, else the tool folder, else PATH."""
    override = os.environ.get("PILOTHOUSE_" + name.upper().replace("-", "_"))
    candidates = [override, folder() / name, shutil.which(name)]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    raise MissingTool(f"{name} is not in {folder()} nor on PATH; {SCRIPTS[name]} brings it")
