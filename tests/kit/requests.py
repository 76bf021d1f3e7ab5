"""Certificate requests, as whoever wants a certificate makes them.

request_for("system:node:a", "system:nodes", dns=["a"])     # PEM
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def request_for(
    name: str,
    *organizations: str,
    key: Key | None = None,
    dns: Sequence[str] = (),
    addresses: Sequence[str] = (),
    emails: Sequence[str] = (),
    uris: Sequence[str] = (),
) -> bytes:
    """A request in PEM, signed with the key or with one that is then forgotten."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([*groups, *names]))
    alternatives: list[x509.GeneralName] = [
        *map(x509.DNSName, dns),
        *(x509.IPAddress(ip_address(each)) for each in addresses),
        *map(x509.RFC822Name, emails),
        *map(x509.UniformResourceIdentifier, uris),
    ]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key or new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
