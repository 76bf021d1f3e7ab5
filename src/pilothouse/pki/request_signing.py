"""Signs certificate requests. ``signers`` decides what is allowed.

    requested = read_request(pem)                                    # its signature checked
    sign_request(authority, requested, ["client auth"], seconds=3600, now=now)

Usages have Kubernetes' names.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from pilothouse.pki.authority import LEAF_LIFETIME, Authority

_SMALLEST_RSA = 2048
_KEY_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "data encipherment": "data_encipherment",
    "key agreement": "key_agreement",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
"""Those of certificate signing are left out: nothing that is signed here signs others."""
_PURPOSES = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
}


_READ_NAMES = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)


_READ_ATTRIBUTES = (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)


class RequestError(Exception):
    """A certificate request that can't be used; the message says why."""


@dataclass(frozen=True)
class RequestedCertificate:
    """What a request asks for."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    emails: tuple[str, ...]
    uris: tuple[str, ...]
    pem: bytes
    other_names: int = 0
    """How many alternative names of further types there are: directory names, registered ids and the like."""
    other_attributes: tuple[str, ...] = ()
    """What the subject has besides a common name and organizations, as dotted object identifiers."""


def read_request(pem: bytes) -> RequestedCertificate:
    """What is in a PEM certificate request whose signature is right. Raises ``RequestError``."""
    request = _load(pem)
    alternatives = _alternatives(request)
    names = _texts(request, NameOID.COMMON_NAME)
    if len(names) > 1:
        # Each reader would take another one for the name.
        raise RequestError("the subject has more than one common name")
    addresses = alternatives.get_values_for_type(x509.IPAddress) if alternatives else []
    for address in addresses:
        if isinstance(address, ipaddress.IPv4Network | ipaddress.IPv6Network):
            raise RequestError(f"the subject alternative name {address} is a network, not an address")
    return RequestedCertificate(
        common_name=names[0] if names else "",
        organizations=_texts(request, NameOID.ORGANIZATION_NAME),
        dns_names=tuple(alternatives.get_values_for_type(x509.DNSName)) if alternatives else (),
        addresses=tuple(map(str, addresses)),
        emails=tuple(alternatives.get_values_for_type(x509.RFC822Name)) if alternatives else (),
        uris=tuple(alternatives.get_values_for_type(x509.UniformResourceIdentifier)) if alternatives else (),
        pem=pem,
        other_names=sum(not isinstance(each, _READ_NAMES) for each in alternatives or ()),
        other_attributes=tuple(
            each.oid.dotted_string for each in request.subject if each.oid not in _READ_ATTRIBUTES
        ),
    )


def sign_request(
    authority: Authority,
    requested: RequestedCertificate,
    usages: Iterable[str],
    *,
    now: datetime.datetime,
    seconds: int | None = None,
) -> bytes:
    """The certificate, PEM. Raises ``UnusableError`` if the authority can't sign, ``RequestError`` for a bad
    key."""
    request = _load(requested.pem)
    key = request.public_key()
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < _SMALLEST_RSA:
            raise RequestError(f"an RSA key of {key.key_size} bits is too small; at least {_SMALLEST_RSA}")
    elif not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise RequestError("the key is neither RSA, ECDSA nor Ed25519")
    wanted = set(usages)
    extensions: list[tuple[x509.ExtensionType, bool]] = [(_key_usage(wanted), True)]
    if purposes := [_PURPOSES[each] for each in sorted(wanted) if each in _PURPOSES]:
        extensions.append((x509.ExtendedKeyUsage(dict.fromkeys(purposes)), False))
    if (alternatives := _alternatives(request)) is not None:
        extensions.append((alternatives, not list(request.subject)))
    lifetime = LEAF_LIFETIME if seconds is None else min(LEAF_LIFETIME, datetime.timedelta(seconds=seconds))
    certificate = authority.certify(request.subject, key, extensions, now=now, lifetime=lifetime)
    return certificate.public_bytes(serialization.Encoding.PEM)


def _load(pem: bytes) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(pem)
        sound = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as problem:
        raise RequestError(f"not a certificate request: {problem}") from None
    if not sound:
        raise RequestError("the request's signature is not that of its key")
    return request


def _texts(request: x509.CertificateSigningRequest, attribute: ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(each.value) for each in request.subject.get_attributes_for_oid(attribute))


def _alternatives(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as problem:
        raise RequestError(f"its extensions can't be read: {problem}") from None


def _key_usage(usages: set[str]) -> x509.KeyUsage:
    wanted = {_KEY_USAGES[each] for each in usages if each in _KEY_USAGES}
    agrees = "key_agreement" in wanted
    return x509.KeyUsage(
        digital_signature="digital_signature" in wanted,
        content_commitment="content_commitment" in wanted,
        key_encipherment="key_encipherment" in wanted,
        data_encipherment="data_encipherment" in wanted,
        key_agreement=agrees,
        key_cert_sign=False,
        crl_sign=False,
        # The two mean something beside key agreement only.
        encipher_only=agrees and "encipher_only" in wanted,
        decipher_only=agrees and "decipher_only" in wanted,
    )
