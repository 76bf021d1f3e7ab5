"""Credentials from a program, as in a kubeconfig's ``exec`` (``ExecCredential``). Blocks.

    credential = log_in(login, access)
    credential.token, credential.expires

The program gets no terminal: there is no user to prompt.
"""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

from pilothouse.base.rfc3339 import TimeError, parse_time
from pilothouse.client.access import Access, AccessError, Login

PATIENCE = 60.0
"""Seconds that the program may take."""
_INFO = "KUBERNETES_EXEC_INFO"


@dataclass(frozen=True)
class Credential:
    """The program's result. ``expires`` is None if it holds for the life of the process."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires: float | None = None


def log_in(login: Login, access: Access) -> Credential:
    """Run the program. Raises ``AccessError`` with what it said."""
    info = json.dumps(_info(login, access))
    try:
        ended = subprocess.run(
            [login.command, *login.args],
            env={**os.environ, **login.env, _INFO: info},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AccessError(f"the login program {login.command} took longer than {PATIENCE:g} s") from None
    except OSError as problem:
        hint = f"\n{login.hint}" if login.hint else ""
        raise AccessError(
            f"the login program {login.command} can't be run: {problem.strerror or problem}{hint}"
        ) from None
    if ended.returncode:
        text = ended.stderr.decode(errors="replace").strip()[-500:]
        raise AccessError(f"the login program {login.command} failed with status {ended.returncode}: {text}")
    return _read(ended.stdout, login)


def logged_in(access: Access) -> Access:
    """The same access with the credentials of its login program, if it has one. Raises ``AccessError``."""
    if access.login is None:
        return access
    given = log_in(access.login, access)
    return replace(
        access,
        login=None,
        token=given.token or access.token,
        certificate=given.certificate or access.certificate,
        key=given.key or access.key,
    )


def _info(login: Login, access: Access) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": False}
    if login.cluster_info:
        cluster: dict[str, Any] = {"server": access.url}
        if access.authority:
            cluster["certificate-authority-data"] = b64encode(access.authority).decode()
        if access.server_name:
            cluster["tls-server-name"] = access.server_name
        if access.insecure:
            cluster["insecure-skip-tls-verify"] = True
        if access.proxy:
            cluster["proxy-url"] = access.proxy
        spec["cluster"] = cluster
    return {"apiVersion": login.api_version, "kind": "ExecCredential", "spec": spec}


def _read(output: bytes, login: Login) -> Credential:
    def wrong(what: str) -> AccessError:
        return AccessError(f"the login program {login.command} gave {what}")

    try:
        credential = json.loads(output)
    except ValueError:
        raise wrong("no JSON") from None
    if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
        raise wrong("no ExecCredential")
    if credential.get("apiVersion") != login.api_version:
        raise wrong(f"an ExecCredential of {credential.get('apiVersion')!r}: expected {login.api_version}")
    status = credential.get("status")
    if not isinstance(status, dict):
        raise wrong("an ExecCredential without status")
    certificate, key = status.get("clientCertificateData") or "", status.get("clientKeyData") or ""
    if bool(certificate) != bool(key):
        raise wrong("a certificate without its key, or a key without its certificate")
    if not certificate and not status.get("token"):
        raise wrong("neither a token nor a certificate")
    try:
        expires = parse_time(status["expirationTimestamp"]) if status.get("expirationTimestamp") else None
    except TimeError as problem:
        raise wrong(f"a bad status.expirationTimestamp: {problem}") from None
    return Credential(str(status.get("token") or ""), certificate.encode(), key.encode(), expires)
