"""Requests for certificates, as whoever made a key asks for a signature.

key = new_key()
request(key, "system:node:a", "system:nodes")        # PEM, for the spec.request of a CertificateSigningRequest
"""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key of the kind that everything of ours has."""
    return ec.generate_private_key(ec.SECP256R1())


def request(key: ec.EllipticCurvePrivateKey, name: str, *organizations: str) -> bytes:
    """A request in PEM for this subject, signed with the key."""
    subject = [
        *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations),
        x509.NameAttribute(NameOID.COMMON_NAME, name),
    ]
    asking = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    return asking.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
