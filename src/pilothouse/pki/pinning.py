"""Verifies an authority by the hash of its public key.

    fingerprints(authorities)       # ("3f2c…",), for a token that is handed over
    pinned(found, ["3f2c…"])        # the certificates among untrusted ones that have such a hash

The hash is received another way, as in a join token.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pilothouse.pki.authority import UnusableError

PAGE = "/pilothouse/v1/authorities"
"""Where a server of ours publishes its authorities."""


def fingerprints(pem: bytes) -> tuple[str, ...]:
    """SHA-256 of each certificate's public key in hex, as kubeadm's. Raises ``UnusableError``."""
    return tuple(_fingerprint(each) for each in _certificates(pem))


def pinned(pem: bytes, pins: Collection[str]) -> bytes:
    """The certificates whose fingerprint is among these, or empty. Raises ``UnusableError``."""
    return b"".join(
        each.public_bytes(serialization.Encoding.PEM)
        for each in _certificates(pem)
        if _fingerprint(each) in pins
    )


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as problem:
        raise UnusableError(f"not a certificate: {problem}") from None


def _fingerprint(certificate: x509.Certificate) -> str:
    key = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return sha256(key).hexdigest()
