"""What a certificate request asks for."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID


class UnreadableRequestError(Exception):
    """Not a certificate request in PEM."""


@dataclass(frozen=True)
class Subject:
    """Whom the certificate is to name."""

    common_name: str
    organizations: tuple[str, ...]


def subject_of(pem: bytes) -> Subject:
    """The subject of a request. Raises ``UnreadableRequestError``. The signature is for the signer to check."""
    try:
        subject = x509.load_pem_x509_csr(pem).subject
    except ValueError as problem:
        raise UnreadableRequestError(str(problem)) from None
    names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    # Two common names would be read by each reader as it likes: that is no name.
    return Subject(names[0] if len(names) == 1 else "", tuple(groups))
