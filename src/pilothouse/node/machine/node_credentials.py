"""The credentials of a node for the API server: key, certificate and trusted authorities, in files.

    credentials = NodeCredentials(folder)
    credentials.write_credential(credential)
    credentials.write_kubeconfig(urls, name)

Certificate and key are in one file, which is replaced atomically, so they always match. The kubeconfig refers
to the files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilothouse.client.kubeconfig import SERVERS
from pilothouse.pki.authority import KeyPair
from pilothouse.pki.private_files import private_folder, write_private
from pilothouse.pki.signers import NODE


@dataclass(frozen=True)
class NodeCredentials:
    folder: Path
    """The machine's data directory."""

    @property
    def kubeconfig_file(self) -> Path:
        return self.folder / "node.kubeconfig"

    @property
    def credential_file(self) -> Path:
        return self.folder / "pki" / "node.pem"

    @property
    def authorities_file(self) -> Path:
        return self.folder / "pki" / "authorities.crt"

    @property
    def exists(self) -> bool:
        """Whether this machine has joined."""
        return self.kubeconfig_file.exists() and self.credential_file.exists()

    @property
    def name(self) -> str:
        """The node's name, from its kubeconfig."""
        user: str = json.loads(self.kubeconfig_file.read_bytes())["current-context"]
        return user.removeprefix(NODE)

    def write_authorities(self, pem: bytes) -> None:
        private_folder(self.authorities_file.parent)
        write_private(self.authorities_file, pem)

    def write_credential(self, credential: KeyPair) -> None:
        private_folder(self.credential_file.parent)
        write_private(self.credential_file, credential.certificate.rstrip() + b"\n" + credential.key)

    def write_kubeconfig(self, urls: Sequence[str], name: str) -> None:
        """Write the kubeconfig, the last file: with it the machine has joined."""
        credential = str(self.credential_file.relative_to(self.folder))
        authorities = str(self.authorities_file.relative_to(self.folder))
        user = f"{NODE}{name}"
        cluster: dict[str, Any] = {"server": urls[0], "certificate-authority": authorities}
        if len(urls) > 1:
            cluster["extensions"] = [{"name": SERVERS, "extension": {"servers": list(urls)}}]
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "pilothouse", "cluster": cluster}],
            "users": [{"name": user, "user": {"client-certificate": credential, "client-key": credential}}],
            "contexts": [{"name": user, "context": {"cluster": "pilothouse", "user": user}}],
            "current-context": user,
        }
        write_private(self.kubeconfig_file, json.dumps(content, indent=2).encode() + b"\n")
