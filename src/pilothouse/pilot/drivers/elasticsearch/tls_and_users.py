"""Certificates and the password of a node: the pod's mounted Secrets, and how node and pilot use them.

    secrets = MountedSecrets.of(instance.environ)   # None if there are none
    secrets.take_up(configuration)                  # into the node's own folder: it reads nothing elsewhere
    ElasticsearchClient(address, secrets=secrets)

The password is that of ``elastic``, the one user that Elasticsearch has from the start. The node's keystore
has it for the first start; the pilot reads the mounted file for each request, so a password that is changed
in Elasticsearch has to be written into the Secret.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from pilothouse.aio.commands import CommandError, run
from pilothouse.api.objects import Tree
from pilothouse.pilot.driver import HookFailed

USER: Final = "elastic"
_FOLDER: Final = "certificates"
_AUTHORITY, _CERTIFICATE, _KEY = "ca.crt", "tls.crt", "tls.key"
_PATIENCE: Final = 120.0


class MountedSecrets(msgspec.Struct, frozen=True):
    certificates: Path
    users: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> MountedSecrets | None:
        certificates, users = environ.get("ES_CERTIFICATES"), environ.get("ES_USERS")
        return cls(Path(certificates), Path(users)) if certificates and users else None

    def take_up(self, configuration: Path) -> None:
        """Copy the certificates to the node's configuration. Raises ``HookFailed``."""
        folder = configuration / _FOLDER
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            for name in (_AUTHORITY, _CERTIFICATE, _KEY):
                draft = folder / f".{name}"
                draft.unlink(missing_ok=True)
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write((self.certificates / name).read_bytes())
                draft.replace(folder / name)
        except OSError as problem:
            raise HookFailed(
                f"the node's certificates can't be read from {self.certificates}: {problem}; does the "
                f"Secret that is mounted there have {_AUTHORITY}, {_CERTIFICATE} and {_KEY}?"
            ) from None

    async def store_password(self, home: Path, configuration: Path, environ: Mapping[str, str]) -> None:
        """Into the keystore, for the node's first start. Raises ``HookFailed``."""
        program = str(home / "bin" / "elasticsearch-keystore")
        try:
            if not (configuration / "elasticsearch.keystore").exists():
                await run(program, "create", patience=_PATIENCE, environ=environ)
            adding = ("add", "--stdin", "--force", "bootstrap.password")
            await run(program, *adding, patience=_PATIENCE, environ=environ, given=self.password())
        except CommandError as problem:
            raise HookFailed(f"the password of {USER} can't be stored: {problem}") from None

    def password(self) -> bytes:
        """Raises ``HookFailed``."""
        try:
            return (self.users / USER).read_bytes().strip()
        except OSError as problem:
            raise HookFailed(
                f"the password of {USER} can't be read: {problem}; "
                f"does the Secret that is mounted there have the key {USER}?"
            ) from None

    def authorization(self) -> str:
        """Raises ``HookFailed``."""
        return "Basic " + base64.b64encode(USER.encode() + b":" + self.password()).decode()

    def context(self) -> ssl.SSLContext:
        """Trusts the cluster's authority alone. Raises ``HookFailed``."""
        try:
            context = ssl.create_default_context(cafile=str(self.certificates / _AUTHORITY))
        except (OSError, ssl.SSLError) as problem:
            raise HookFailed(f"{self.certificates / _AUTHORITY} can't be used: {problem}") from None
        # A node is reached at its address, which is in no certificate; the cluster's own authority suffices.
        context.check_hostname = False
        return context


def ssl_settings() -> Tree:
    """Nodes authenticate each other by certificates of their authority, clients by a password."""
    own: Tree = {"enabled": True, "certificate": f"{_FOLDER}/{_CERTIFICATE}", "key": f"{_FOLDER}/{_KEY}"}
    between: Tree = {
        **own,
        "certificate_authorities": [f"{_FOLDER}/{_AUTHORITY}"],
        "client_authentication": "required",
        "verification_mode": "certificate",
    }
    prefix = "xpack.security"
    return {
        **{f"{prefix}.http.ssl.{name}": value for name, value in own.items()},
        **{f"{prefix}.transport.ssl.{name}": value for name, value in between.items()},
    }


def state(has: bool, asked: object) -> Literal["Enabled", "Disabled", "Absent"]:
    """``has``: the distribution has security. ``asked``: it is switched on."""
    return "Absent" if not has else "Enabled" if asked else "Disabled"
