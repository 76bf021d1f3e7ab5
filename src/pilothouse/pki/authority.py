"""A certificate authority and what it signs.

    authority = Authority.make("pilothouse", now)
    serving = authority.serving(["localhost", "127.0.0.1"], now)
    admin = authority.client("admin", ["system:masters"], now)

Keys are ECDSA on P-256. ``KeyPair`` is a certificate and its key as PEM.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
DAY = datetime.timedelta(days=1)
AUTHORITY_LIFETIME = 3650 * DAY
LEAF_LIFETIME = 365 * DAY
RENEW_BEFORE = 60 * DAY
"""A certificate with less than this left is made again."""
_LONGEST_KEY = 16384
_LARGEST_RSA = 4096
_SKEW = datetime.timedelta(minutes=5)
"""Clocks differ: a new certificate is valid from a little before it was made."""

CLIENT_KEY_FORMAT: Final = serialization.PrivateFormat.TraditionalOpenSSL
"""SEC1 (``EC PRIVATE KEY``): clients such as fabric8 can't read an elliptic curve key as PKCS#8."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class UnusableError(Exception):
    """Key material that can't be used; the message says why."""


class Authority:
    def __init__(self, credential: KeyPair) -> None:
        try:
            self._certificate = x509.load_pem_x509_certificate(credential.certificate)
            key = _load_key(credential.key)
        except (ValueError, TypeError) as problem:
            raise UnusableError(f"not a certificate with its key: {problem}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise UnusableError("the key is neither an ECDSA nor an RSA key")
        if key.public_key() != self._certificate.public_key():
            raise UnusableError("the key is not the certificate's")
        self._key = key
        self.credential = credential

    @classmethod
    def make(cls, name: str, now: datetime.datetime) -> Authority:
        """A new, self-signed one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _draft(subject, subject, key.public_key(), now, AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(_credential(certificate, key))

    @property
    def certificate(self) -> bytes:
        """The CA certificate, PEM."""
        return self.credential.certificate

    def serving(self, names: Sequence[str], now: datetime.datetime) -> KeyPair:
        """A server's certificate for these host names and addresses."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pilothouse-apiserver")])
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._sign(subject, now, ExtendedKeyUsageOID.SERVER_AUTH, alternatives=alternatives)

    def client(self, name: str, groups: Iterable[str], now: datetime.datetime) -> KeyPair:
        """A client certificate of this user with these groups."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._sign(subject, now, ExtendedKeyUsageOID.CLIENT_AUTH, key_format=CLIENT_KEY_FORMAT)

    def peer(self, name: str, names: Sequence[str], now: datetime.datetime) -> KeyPair:
        """A certificate to serve under these names and to connect as a client, for peers."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternatives = x509.SubjectAlternativeName([_general_name(each) for each in names])
        purposes = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._sign(subject, now, *purposes, alternatives=alternatives)

    def stands_behind(self, credential: KeyPair, now: datetime.datetime) -> bool:
        """Whether this authority signed the certificate, the key belongs to it, and it does not expire
        soon."""
        try:
            certificate = x509.load_pem_x509_certificate(credential.certificate)
            key = _load_key(credential.key)
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        started = certificate.not_valid_before_utc <= now
        # A short-lived certificate, as of an expiring authority, is renewed in the last third of its life.
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        lasting = now + min(RENEW_BEFORE, life / 3) < certificate.not_valid_after_utc
        return started and lasting and key.public_key() == certificate.public_key()

    @property
    def expires(self) -> datetime.datetime:
        return self._certificate.not_valid_after_utc

    def expiring(self, now: datetime.datetime) -> bool:
        """Whether the authority itself is past its dates."""
        return not self._certificate.not_valid_before_utc <= now < self._certificate.not_valid_after_utc

    def _sign(
        self,
        subject: x509.Name,
        now: datetime.datetime,
        *purposes: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None = None,
        key_format: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage(purposes), False),
        ]
        if alternatives is not None:
            extensions.append((alternatives, False))
        certificate = self.certify(subject, key.public_key(), extensions, now=now, lifetime=LEAF_LIFETIME)
        return _credential(certificate, key, key_format)

    def certify(
        self,
        subject: x509.Name,
        key: PublicKey,
        extensions: Iterable[tuple[x509.ExtensionType, bool]],
        *,
        now: datetime.datetime,
        lifetime: datetime.timedelta,
    ) -> x509.Certificate:
        """A certificate that is no CA; ``extensions`` each with whether it is critical.

        Raises ``UnusableError`` if the authority is out of its dates.
        """
        if self.expiring(now):
            raise UnusableError("the authority is out of its dates and can sign nothing")
        # What outlives its authority would only look good.
        lifetime = min(lifetime, self._certificate.not_valid_after_utc - now)
        draft = (
            _draft(subject, self._certificate.subject, key, now, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(self._identifier(), critical=False)
        )
        for extension, critical in extensions:
            draft = draft.add_extension(extension, critical=critical)
        return draft.sign(self._key, hashes.SHA256())

    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        """The authority key identifier: the CA's subject key identifier, if it has one."""
        try:
            own = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def split_chain(pem: bytes) -> tuple[bytes, bytes]:
    """The first certificate of a PEM file, and the others. Raises ``UnusableError`` if there is none."""
    try:
        first, *rest = x509.load_pem_x509_certificates(pem)
    except ValueError as problem:
        raise UnusableError(f"not a certificate: {problem}") from None
    encoding = serialization.Encoding.PEM
    return first.public_bytes(encoding), b"".join(other.public_bytes(encoding) for other in rest)


def names_of(credential: KeyPair) -> frozenset[str]:
    """The host names and addresses that a serving certificate is for."""
    return subject_names(x509.load_pem_x509_certificate(credential.certificate))


def common_name_of(credential: KeyPair) -> str:
    """The common name of a certificate."""
    subject = x509.load_pem_x509_certificate(credential.certificate).subject
    return "".join(str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def subject_names(certificate: x509.Certificate) -> frozenset[str]:
    """The host names and addresses in a certificate."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in found.get_values_for_type(x509.IPAddress))
    return frozenset([*found.get_values_for_type(x509.DNSName), *addresses])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _draft(
    subject: x509.Name,
    issuer: x509.Name,
    key: PublicKey,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + lifetime)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _load_key(pem: bytes) -> PrivateKeyTypes:
    """A private key of limited size. Raises ValueError, TypeError."""
    if len(pem) > _LONGEST_KEY:
        raise ValueError(f"the key has {len(pem)} bytes; at most {_LONGEST_KEY} are read")
    # Primality of an RSA key's factors is not checked: that takes minutes for a large key.
    key = serialization.load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size > _LARGEST_RSA:
        raise ValueError(f"the RSA key has {key.key_size} bits; at most {_LARGEST_RSA} are taken")
    return key


def _credential(
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    key_format: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, key_format, serialization.NoEncryption()),
    )
