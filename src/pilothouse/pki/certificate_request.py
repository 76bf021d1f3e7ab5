"""Certificate signing requests.

    request = new_request("system:node:a", ["system:nodes"])
    request.pem, request.key
    is_due(certificate, now)            # whether it is time to ask for the next one

Each has a new private key.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pilothouse.pki.authority import CLIENT_KEY_FORMAT, UnusableError


@dataclass(frozen=True)
class PendingRequest:
    """A request and the key that it is for, both PEM."""

    pem: bytes
    key: bytes


def new_request(name: str, groups: Sequence[str], alternatives: Sequence[str] = ()) -> PendingRequest:
    """A request for this common name, with these organizations and host names or addresses, on a new key."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    draft = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if alternatives:
        names = x509.SubjectAlternativeName([_general_name(each) for each in alternatives])
        draft = draft.add_extension(names, critical=False)
    return PendingRequest(
        draft.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, CLIENT_KEY_FORMAT, serialization.NoEncryption()),
    )


def is_due(pem: bytes, now: datetime.datetime) -> bool:
    """Whether a certificate is in the last third of its life. Raises ``UnusableError``."""
    certificate = _certificate(pem)
    ends = certificate.not_valid_after_utc
    return now >= ends - (ends - certificate.not_valid_before_utc) / 3


def is_signed_by(pem: bytes, authority: bytes) -> bool:
    """Whether the first authority of a file signed a certificate. Raises ``UnusableError``."""
    try:
        _certificate(pem).verify_directly_issued_by(_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as problem:
        raise UnusableError(f"not a certificate: {problem}") from None


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
