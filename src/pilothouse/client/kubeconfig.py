"""Kubeconfig files: which server, whom to trust, who one is.

    access = load(find(None, default=data / "admin.kubeconfig"))
    access.url, access.tls()

The file is the one named, else the first that exists of those in ``KUBECONFIG``, else ``~/.kube/config``, else the default.
Read are certificates and tokens, inline or as files beside the kubeconfig. What else a file may ask for (other ways to
authenticate, plain HTTP) is an error that says so: a credential goes to a verified server or nowhere.
"""

from __future__ import annotations

import binascii
import os
import ssl
import tempfile
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_UNSUPPORTED = ("exec", "auth-provider", "username", "password")


class KubeconfigError(Exception):
    """A kubeconfig that can't be used; the message says where and why."""


@dataclass(frozen=True)
class Access:
    """How to reach a server, and as whom."""

    url: str
    authority: bytes = b""
    """PEM; empty for those that the machine trusts."""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""

    def tls(self) -> ssl.SSLContext:
        """A context that verifies the server and shows the certificate."""
        context = ssl.create_default_context(cadata=self.authority.decode() or None)
        if self.certificate:
            # Only files are taken. This one is the owner's alone, and gone at once.
            with tempfile.NamedTemporaryFile() as file:
                file.write(self.certificate + b"\n" + self.key)
                file.flush()
                context.load_cert_chain(file.name)
        return context


def find(named: Path | None, default: Path) -> Path:
    """The kubeconfig to use."""
    if named is not None:
        return named
    listed = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    for candidate in (*listed, Path.home() / ".kube" / "config", default):
        if candidate.exists():
            return candidate
    raise KubeconfigError(
        f"no kubeconfig: none in KUBECONFIG, ~/.kube/config or {default}; name one with --kubeconfig"
    )


def load(path: Path) -> Access:
    """The current context of a file."""
    try:
        content = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    except OSError as problem:
        raise KubeconfigError(f"{path} can't be read: {problem.strerror or problem}") from None
    except yaml.YAMLError as problem:
        raise KubeconfigError(f"{path} is not YAML: {' '.join(str(problem).split())}") from None
    return _Reader(path).access(content)


class _Reader:
    """Finds its way in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def access(self, content: Any) -> Access:
        current = self._mapping(content, "").get("current-context")
        context = self._entry(content, "context", current)
        cluster = self._entry(content, "cluster", context.get("cluster"))
        user = self._entry(content, "user", context.get("user")) if context.get("user") else {}
        url = str(cluster.get("server", "")).rstrip("/")
        if not url.startswith("https://"):
            raise self._wrong(f"the server {url!r} is not an https:// address")
        if cluster.get("insecure-skip-tls-verify"):
            raise self._wrong("insecure-skip-tls-verify is not supported; give a certificate-authority")
        if cluster.get("tls-server-name"):
            raise self._wrong(
                "tls-server-name is not supported; the server's certificate must be for its address"
            )
        for name in _UNSUPPORTED:
            if user.get(name):
                raise self._wrong(f"the user's {name} is not supported; use a client certificate or a token")
        token = user.get("token") or self._file(user, "tokenFile").decode().strip()
        return Access(
            url=url,
            authority=self._data(cluster, "certificate-authority"),
            certificate=self._data(user, "client-certificate"),
            key=self._data(user, "client-key"),
            token=str(token),
        )

    def _entry(self, content: Any, kind: str, name: Any) -> dict[str, Any]:
        for entry in self._mapping(content, "").get(f"{kind}s") or []:
            if self._mapping(entry, f"{kind}s").get("name") == name:
                return self._mapping(entry.get(kind), f"{kind}s[{name}].{kind}")
        raise self._wrong(f"there is no {kind} named {name!r}")

    def _mapping(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(f"{where or 'the content'} must be a mapping")
        return value

    def _data(self, entry: dict[str, Any], field: str) -> bytes:
        inline = entry.get(f"{field}-data")
        if not inline:
            return self._file(entry, field)
        try:
            return b64decode(inline, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise self._wrong(f"{field}-data is not base64") from None

    def _file(self, entry: dict[str, Any], field: str) -> bytes:
        if not entry.get(field):
            return b""
        file = self._path.parent / str(entry[field])
        try:
            return file.read_bytes()
        except OSError as problem:
            raise self._wrong(f"{field} {file} can't be read: {problem.strerror or problem}") from None

    def _wrong(self, what: str) -> KubeconfigError:
        return KubeconfigError(f"{self._path}: {what}")
