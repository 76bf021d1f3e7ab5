"""Certificates for a server under test: one authority, a server pair for the loopback address, client pairs.

authority = Authority.create(folder)
authority.server()                              # Pair(cert=…/server.crt, key=…/server.key)
authority.client("admin", group="system:masters")
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and of its private key."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    folder: Path
    issuer: trustme.CA

    @classmethod
    def create(cls, folder: Path) -> Authority:
        folder.mkdir(parents=True, exist_ok=True)
        issuer = trustme.CA(organization_name="pilothouse tests")
        issuer.cert_pem.write_to_path(str(folder / "ca.crt"))
        issuer.private_key_pem.write_to_path(str(folder / "ca.key"))
        return cls(folder, issuer)

    @property
    def cert(self) -> Path:
        return self.folder / "ca.crt"

    def server(self) -> Pair:
        return self._write("server", self.issuer.issue_cert("127.0.0.1", "localhost"))

    def client(self, user: str, *, group: str) -> Pair:
        # Without a name of its own the certificate gets an empty critical extension, which Go refuses.
        plain = user.replace(":", "-")
        leaf = self.issuer.issue_cert(f"{plain}.client.test", common_name=user, organization_name=group)
        return self._write(plain, leaf)

    def _write(self, name: str, leaf: trustme.LeafCert) -> Pair:
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        leaf.cert_chain_pems[0].write_to_path(str(pair.cert))
        leaf.private_key_pem.write_to_path(str(pair.key))
        return pair
