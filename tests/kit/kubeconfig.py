"""Kubeconfig files: written for a server that has none, read back to learn how to reach one that wrote its own.

write(path, url="https://127.0.0.1:6443", ca=…, cert=…, key=…)
access = read(path)
access.url, access.ca, access.cert, access.key, access.token
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Access:
    """What a client needs: the address, whom to trust, and who it is."""

    url: str
    ca: Path
    cert: Path | None = None
    key: Path | None = None
    token: str | None = None


def write(path: Path, access: Access) -> None:
    user: dict[str, str] = {}
    if access.cert and access.key:
        user = {"client-certificate": str(access.cert), "client-key": str(access.key)}
    elif access.token:
        user = {"token": access.token}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {"name": "test", "cluster": {"server": access.url, "certificate-authority": str(access.ca)}}
        ],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    }
    path.write_text(yaml.safe_dump(config))


def read(path: Path, *, unpack: Path) -> Access:
    """The current context of a kubeconfig; certificates that it holds inline are written below `unpack`."""
    config = yaml.safe_load(path.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    unpack.mkdir(parents=True, exist_ok=True)

    def file(entry: dict[str, Any], field: str) -> Path | None:
        if inline := entry.get(field + "-data"):
            unpacked = unpack / f"{field}.pem"
            unpacked.write_bytes(base64.b64decode(inline))
            return unpacked
        return (path.parent / entry[field]) if field in entry else None

    ca = file(cluster, "certificate-authority")
    if ca is None:
        raise ValueError(f"{path}: clusters[].cluster names no certificate-authority")
    return Access(
        url=cluster["server"],
        ca=ca,
        cert=file(user, "client-certificate"),
        key=file(user, "client-key"),
        token=user.get("token"),
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
