"""JSON Web Tokens, ES256 only.

    token = key.sign({"sub": "system:serviceaccount:t:robot", "exp": 1700003600})
    key.verify(token)          # the claims, or ValueError that says what is wrong

Signatures are checked, claims are up to the caller.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

LONGEST = 16 * 1024
_WIDTH = 32


class SigningKey:
    """A private key on P-256, known to others by ``kid``, the digest of its public half."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private
        public = private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.kid = _encode(hashlib.sha256(public).digest())

    @classmethod
    def generate(cls) -> SigningKey:
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        """Raises ``ValueError`` for anything but a P-256 private key."""
        private = serialization.load_pem_private_key(pem, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(private.curve, ec.SECP256R1):
            raise ValueError("the key must be an elliptic curve key on P-256")
        return cls(private)

    def to_pem(self) -> bytes:
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, claims: dict[str, Any]) -> str:
        head = msgspec.json.encode({"alg": "ES256", "kid": self.kid, "typ": "JWT"})
        signed = f"{_encode(head)}.{_encode(msgspec.json.encode(claims))}"
        r, s = utils.decode_dss_signature(self._private.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(r.to_bytes(_WIDTH, 'big') + s.to_bytes(_WIDTH, 'big'))}"

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token that this key signed. Raises ``ValueError``."""
        if len(token) > LONGEST:
            raise ValueError(f"the token is longer than {LONGEST} bytes")
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        header = _object(_decode(head))
        if header.get("alg") != "ES256":
            raise ValueError(f"the token's algorithm is {header.get('alg')!r}; only ES256 is taken")
        if header.get("kid") != self.kid:
            raise ValueError("the token was signed with a key that is not known here")
        raw = _decode(signature)
        if len(raw) != 2 * _WIDTH:
            raise ValueError("the token's signature is malformed")
        der = utils.encode_dss_signature(
            int.from_bytes(raw[:_WIDTH], "big"), int.from_bytes(raw[_WIDTH:], "big")
        )
        try:
            self._private.public_key().verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise ValueError("the token's signature is wrong") from None
        return _object(_decode(body))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    if not text or not text.isascii():
        raise ValueError("the token is malformed")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _object(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("the token is malformed") from None
