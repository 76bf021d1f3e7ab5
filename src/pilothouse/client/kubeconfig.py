"""Kubeconfig files.

    access = load(find(None, default=data / "admin.kubeconfig"))
    access.url, access.tls()

The file is the one named, else the first existing of ``KUBECONFIG``, else ``~/.kube/config``, else the
default. Credentials may be inline, files or from ``exec``; passwords and plain HTTP are errors, as
credentials are sent over TLS only. The extension ``SERVERS`` has further addresses of a cluster.
"""

from __future__ import annotations

import binascii
import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml

from pilothouse.client.access import Access, AccessError, Impersonation, Login

SERVERS = "pilothouse.io/servers"
"""The extension of a cluster that names all addresses of its API: ``{"servers": [URL, …]}``."""
_UNSUPPORTED = ("auth-provider", "username", "password")
_LOGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class KubeconfigError(AccessError):
    """A kubeconfig that can't be used; the message says where and why."""


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
        proxy = str(cluster.get("proxy-url") or "")
        if proxy and not proxy.startswith("http://"):
            raise self._wrong(f"the proxy-url {proxy!r} is not supported; it must be an http:// address")
        for name in _UNSUPPORTED:
            if user.get(name):
                raise self._wrong(
                    f"the user's {name} is not supported; use a client certificate, a token or exec"
                )
        insecure = bool(cluster.get("insecure-skip-tls-verify"))
        authority = self._data(cluster, "certificate-authority")
        if insecure and authority:
            raise self._wrong("a certificate-authority can't be given together with insecure-skip-tls-verify")
        inline = str(user.get("token") or "")
        return Access(
            url=url,
            others=self._others(cluster, url),
            authority=authority,
            certificate=self._data(user, "client-certificate"),
            key=self._data(user, "client-key"),
            token=inline or self._file(user, "tokenFile").decode().strip(),
            certificate_file=self._place(user, "client-certificate"),
            key_file=self._place(user, "client-key"),
            token_file=None if inline else self._place(user, "tokenFile"),
            authority_file=self._place(cluster, "certificate-authority"),
            login=self._login(user["exec"]) if user.get("exec") else None,
            impersonation=self._impersonation(user),
            server_name=str(cluster.get("tls-server-name") or ""),
            insecure=insecure,
            proxy=proxy,
            namespace=str(context.get("namespace") or "default"),
        )

    def _others(self, cluster: dict[str, Any], url: str) -> tuple[str, ...]:
        """Further addresses, in an extension of ours that other programs ignore."""
        for each in cluster.get("extensions") or []:
            entry = self._mapping(each, "the cluster's extensions[]")
            if entry.get("name") == SERVERS:
                extension = self._mapping(entry.get("extension"), f"the extension {SERVERS}").get("servers")
                others = tuple(one.rstrip("/") for one in self._texts(extension, f"{SERVERS}: servers"))
                for one in others:
                    if not one.startswith("https://"):
                        raise self._wrong(f"{SERVERS}: the server {one!r} is not an https:// address")
                return tuple(one for one in dict.fromkeys(others) if one != url)
        return ()

    def _login(self, content: Any) -> Login:
        config = self._mapping(content, "the user's exec")
        version = config.get("apiVersion")
        if version not in _LOGIN_VERSIONS:
            raise self._wrong(
                f"exec.apiVersion {version!r} is not supported: expected {' or '.join(_LOGIN_VERSIONS)}"
            )
        if config.get("interactiveMode") == "Always":
            raise self._wrong("exec.interactiveMode Always is not supported: there is no terminal to ask at")
        command = str(config.get("command") or "")
        if not command:
            raise self._wrong("exec.command is missing")
        # A path is meant from the kubeconfig's folder; a bare name is looked up in PATH.
        if os.sep in command:
            command = str(self._path.parent / command)
        env = {}
        for each in config.get("env") or []:
            entry = self._mapping(each, "exec.env[]")
            env[str(entry.get("name", ""))] = str(entry.get("value", ""))
        return Login(
            command=command,
            args=self._texts(config.get("args"), "exec.args"),
            env=env,
            api_version=str(version),
            cluster_info=bool(config.get("provideClusterInfo")),
            hint=str(config.get("installHint") or ""),
        )

    def _impersonation(self, user: dict[str, Any]) -> Impersonation | None:
        if not user.get("as"):
            if any(user.get(name) for name in ("as-uid", "as-groups", "as-user-extra")):
                raise self._wrong("as-uid, as-groups and as-user-extra need a user to act as, in `as`")
            return None
        extra = self._mapping(user.get("as-user-extra") or {}, "as-user-extra")
        return Impersonation(
            user=str(user["as"]),
            uid=str(user.get("as-uid") or ""),
            groups=self._texts(user.get("as-groups"), "as-groups"),
            extra={str(name): self._texts(values, f"as-user-extra.{name}") for name, values in extra.items()},
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

    def _texts(self, value: Any, where: str) -> tuple[str, ...]:
        if value is not None and not isinstance(value, list):
            raise self._wrong(f"{where} must be a list")
        return tuple(str(each) for each in value or ())

    def _data(self, entry: dict[str, Any], field: str) -> bytes:
        inline = entry.get(f"{field}-data")
        if not inline:
            return self._file(entry, field)
        try:
            return b64decode(inline, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise self._wrong(f"{field}-data is not base64") from None

    def _place(self, entry: dict[str, Any], field: str) -> Path | None:
        """The file that a field names, unless its content is inline."""
        if not entry.get(field) or entry.get(f"{field}-data"):
            return None
        return self._path.parent / str(entry[field])

    def _file(self, entry: dict[str, Any], field: str) -> bytes:
        file = self._place(entry, field)
        if file is None:
            return b""
        try:
            return file.read_bytes()
        except OSError as problem:
            raise self._wrong(f"{field} {file} can't be read: {problem.strerror or problem}") from None

    def _wrong(self, what: str) -> KubeconfigError:
        return KubeconfigError(f"{self._path}: {what}")
