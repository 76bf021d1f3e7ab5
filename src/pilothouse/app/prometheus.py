"""The configuration by which Prometheus scrapes a server.

    files = unpack(access, Path("credentials"), token_file=None)
    scrape_config(access.url, files)        # {"scrape_configs": [...]}

Prometheus reads certificates, keys and tokens from files, so those of a kubeconfig are unpacked into a folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pilothouse.apiserver import metrics, node_targets, object_metrics
from pilothouse.client.access import Access
from pilothouse.pki.files import private_folder, write_private


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
    """Write what a kubeconfig holds to files that are the owner's alone.

    With a ``token_file`` that token is used instead of the kubeconfig's user, and stays where it is.
    """
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


def scrape_config(url: str, files: Files) -> dict[str, Any]:
    """Both pages of a server, as two jobs, and the figures of its nodes, which it passes on, as a third."""
    address = urlsplit(url)
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    target = f"{host}:{address.port or 443}"

    def job(name: str, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "job_name": name,
            "scheme": "https",
            "metrics_path": address.path.rstrip("/") + path,
            # Labels such as namespace and pod say what an object is called, not where the server runs.
            "honor_labels": True,
            "tls_config": _tls(files),
            "static_configs": [{"targets": [target]}],
        }
        if files.token is not None:
            found["authorization"] = {"type": "Bearer", "credentials_file": str(files.token)}
        return found

    def nodes() -> dict[str, Any]:
        made = job("pilothouse-nodes", "")
        asking = {name: made[name] for name in ("tls_config", "authorization") if name in made}
        del made["metrics_path"], made["static_configs"]
        made["http_sd_configs"] = [{"url": f"{url.rstrip('/')}{node_targets.PATH}", **asking}]
        return made

    jobs = [job("pilothouse-apiserver", metrics.PATH), job("pilothouse-objects", object_metrics.PATH)]
    return {"scrape_configs": [*jobs, nodes()]}


def _tls(files: Files) -> dict[str, str]:
    named = {"ca_file": files.authority, "cert_file": files.certificate, "key_file": files.key}
    return {name: str(path) for name, path in named.items() if path is not None}
