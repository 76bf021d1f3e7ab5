"""Private Ed25519 keys in PEM files."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key


def load_ed25519(pem: bytes) -> Ed25519PrivateKey:
    """The key in a PEM file without a password. Raises ``ValueError``."""
    try:
        key = load_pem_private_key(pem, None)
    except (TypeError, UnsupportedAlgorithm) as problem:
        raise ValueError(str(problem)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("it is not a key of Ed25519")
    return key
