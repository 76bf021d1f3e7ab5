"""Kubeconfigs: with embedded credentials, or with paths of certificates that are renewed."""

from __future__ import annotations

import json
from base64 import b64encode

from pilothouse.pki.authority import KeyPair

NAME = "pilothouse"


def kubeconfig(server: str, authority: bytes, user: str, credential: KeyPair) -> bytes:
    """The file's content: ``user`` reaches ``server``, trusted by ``authority``, with a client certificate.

    It is written as JSON, which is also YAML, so that no value needs quoting of its own.
    """
    identity = {
        "client-certificate-data": _text(credential.certificate),
        "client-key-data": _text(credential.key),
    }
    return _written(server, authority, user, identity)


def kubeconfig_beside(server: str, authority: bytes, user: str, certificate: str, key: str) -> bytes:
    """The same with paths, relative to this file, for a process that outlives its certificate."""
    return _written(server, authority, user, {"client-certificate": certificate, "client-key": key})


def _written(server: str, authority: bytes, user: str, identity: dict[str, str]) -> bytes:
    context = f"{user}@{NAME}"
    cluster = {"server": server, "certificate-authority-data": _text(authority)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": context, "context": {"cluster": NAME, "user": user}}],
        "current-context": context,
    }
    return json.dumps(content, indent=2).encode() + b"\n"


def renewed(content: bytes, credential: KeyPair) -> bytes:
    """The same file with the user's certificate and key replaced."""
    config = json.loads(content)
    config["users"][0]["user"] = {
        "client-certificate-data": _text(credential.certificate),
        "client-key-data": _text(credential.key),
    }
    return json.dumps(config, indent=2).encode() + b"\n"


def _text(data: bytes) -> str:
    return b64encode(data).decode()
