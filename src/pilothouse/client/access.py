"""Where a server is, whom to trust, and with which credentials.

    access = Access("https://10.0.0.1:6443", authority=pem, token_file=Path("/run/token"))
    access.tls()

The paths of files are kept beside their content, so that long-lived clients notice changes.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote


class AccessError(Exception):
    """Address or credentials can't be loaded; the message says where and why."""


@dataclass(frozen=True)
class Login:
    """A program that returns credentials (a kubeconfig's ``exec``)."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    cluster_info: bool = False
    """Tell the program which server it is for."""
    hint: str = ""
    """How to install the program, for people who lack it."""


@dataclass(frozen=True)
class Impersonation:
    """The user that requests impersonate."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """The headers that ask to act as them."""
        headers = [("Impersonate-User", self.user)]
        if self.uid:
            headers.append(("Impersonate-Uid", self.uid))
        headers += [("Impersonate-Group", group) for group in self.groups]
        for name, values in self.extra.items():
            # Names of headers are not any text; the server decodes this.
            headers += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
        return headers


@dataclass(frozen=True)
class Access:
    url: str
    others: tuple[str, ...] = ()
    """Further addresses of the same API, used when one can't be reached."""
    authority: bytes = b""
    """PEM; empty for those that the machine trusts."""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""
    certificate_file: Path | None = None
    """Where ``certificate`` was read from; None if it came inline."""
    key_file: Path | None = None
    token_file: Path | None = None
    authority_file: Path | None = None
    login: Login | None = None
    impersonation: Impersonation | None = None
    server_name: str = ""
    """The name that the server's certificate is for, where it is not the address."""
    insecure: bool = False
    """Trust any server."""
    proxy: str = ""
    namespace: str = "default"
    """Where objects are meant to be when nothing else is said."""

    @property
    def urls(self) -> tuple[str, ...]:
        return self.url, *self.others

    def tls(self) -> ssl.SSLContext:
        """A context that verifies the server and shows the certificate."""
        return tls_context(self.authority, self.certificate, self.key, insecure=self.insecure)


def tls_context(
    authority: bytes, certificate: bytes = b"", key: bytes = b"", *, insecure: bool = False
) -> ssl.SSLContext:
    """A client's context. Raises ``AccessError`` for invalid PEM, or a key that does not match."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() or None)
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate:
            # Only files are taken. This one is the owner's alone, and gone at once.
            with tempfile.NamedTemporaryFile() as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as problem:
        raise AccessError(f"the certificates can't be used: {problem}") from None
    return context
