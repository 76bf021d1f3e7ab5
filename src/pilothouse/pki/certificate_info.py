"""What a certificate says, for people who look after it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from pilothouse.pki.authority import UnusableError, subject_names


@dataclass(frozen=True)
class CertificateInfo:
    subject: str
    issuer: str
    names: tuple[str, ...]
    """Host names and addresses that it is good for."""
    starts: datetime.datetime
    expires: datetime.datetime
    authority: bool

    def days_left(self, now: datetime.datetime) -> int:
        """Whole days; negative once it has expired."""
        return (self.expires - now) // datetime.timedelta(days=1)


def certificates_in(pem: bytes) -> list[CertificateInfo]:
    """The certificates of a PEM file, in its order. Raises ``UnusableError``."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError as problem:
        raise UnusableError(f"not a certificate: {problem}") from None
    return [_facts(certificate) for certificate in found]


def why_no_certificate(pem: bytes) -> str:
    """Why a file can't be used as a certificate; empty if it can."""
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        return "is not a PEM certificate"
    return ""


def why_no_key(pem: bytes) -> str:
    """Why a file can't be used as a private key; empty if it can."""
    try:
        serialization.load_pem_private_key(pem, None)
    except TypeError:
        return "is encrypted; the server needs a key without a password"
    except (ValueError, UnsupportedAlgorithm):
        return "is not a PEM key"
    return ""


def _facts(certificate: x509.Certificate) -> CertificateInfo:
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        authority = False
    else:
        authority = constraints.ca
    return CertificateInfo(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        tuple(sorted(subject_names(certificate))),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        authority,
    )
