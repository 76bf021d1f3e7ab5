"""The Prometheus configuration for a control plane: server, nodes, controller-managers and pilots.

    files = unpack(access, Path("credentials"), token_file=None)
    scrape_config(access.url, files, managers=["127.0.0.1:10257"])        # {"scrape_configs": [...]}

Prometheus reads credentials from files, so those of a kubeconfig are unpacked into a folder. The server lists
its peers, nodes and pilots for Prometheus' HTTP discovery (Debian's build has none for Kubernetes). Nodes are
scraped through the server, pilots at their pods' addresses, without TLS.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from pilothouse.apiserver.metrics import (
    node_targets,
    object_metrics,
    pilot_targets,
    server_metrics,
    server_targets,
)
from pilothouse.client.access import Access
from pilothouse.pki.private_files import private_folder, write_private


class Files(msgspec.Struct, frozen=True):
    """Where Prometheus finds what it needs; None for what it does not need."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token: Path | None = None

    @property
    def written(self) -> list[Path]:
        return [each for each in (self.authority, self.certificate, self.key, self.token) if each is not None]


def unpack(access: Access, folder: Path, token_file: Path | None) -> Files:
    """Write the credentials of a kubeconfig to private files; a ``token_file`` replaces its user."""
    folder = private_folder(folder.absolute())

    def file(name: str, content: bytes) -> Path | None:
        if not content:
            return None
        write_private(folder / name, content)
        return folder / name

    authority = file("ca.crt", access.authority)
    if token_file is not None:
        return Files(authority, token=token_file.absolute())
    if access.certificate:
        return Files(authority, file("client.crt", access.certificate), file("client.key", access.key))
    return Files(authority, token=file("token", access.token.encode()))


def scrape_config(url: str, files: Files, managers: Sequence[str] = ()) -> dict[str, Any]:
    """All jobs. ``managers`` are the addresses of the metrics of controller-managers."""
    address = urlsplit(url)
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    target = f"{host}:{address.port or 443}"
    asking: dict[str, Any] = {"tls_config": _tls(files)}
    if files.token is not None:
        asking["authorization"] = {"type": "Bearer", "credentials_file": str(files.token)}
    # Labels such as namespace and pod say what an object is called, not where the server runs.
    of_server = {"scheme": "https", "honor_labels": True, **asking}

    def page(name: str, path: str) -> dict[str, Any]:
        where = {
            "metrics_path": address.path.rstrip("/") + path,
            "static_configs": [{"targets": [target]}],
        }
        return {"job_name": name, **of_server, **where}

    def listed(path: str) -> dict[str, Any]:
        return {"http_sd_configs": [{"url": f"{url.rstrip('/')}{path}", "refresh_interval": "15s", **asking}]}

    servers = page("pilothouse-apiserver", server_metrics.PATH)
    if not address.path.strip("/"):
        # Behind a proxy with a path prefix, one server stands for all of them.
        del servers["static_configs"]
        servers |= listed(server_targets.PATH)
    jobs = [
        servers,
        page("pilothouse-objects", object_metrics.PATH),
        # A node does not say which node or job its figures are of, nor how many there are.
        {"job_name": "pilothouse-nodes", **of_server, **_GUARDED, **listed(node_targets.PATH)},
        {"job_name": "pilothouse-pilots", **listed(pilot_targets.PATH)},
    ]
    if managers:
        found = [{"targets": list(managers)}]
        jobs.append({"job_name": "pilothouse-controller-manager", "static_configs": found})
    return {"scrape_configs": jobs}


_GUARDED: Final[dict[str, Any]] = {
    "honor_labels": False,
    "sample_limit": 200_000,
    "body_size_limit": "64MB",
    "label_value_length_limit": 4096,
}


def _tls(files: Files) -> dict[str, str]:
    named = {"ca_file": files.authority, "cert_file": files.certificate, "key_file": files.key}
    return {name: str(path) for name, path in named.items() if path is not None}
