"""Signatures of files in minisign's format (Ed25519).

    key = SecretKey.generate()
    text = sign_file(path, key, trusted_comment="version:v1.2.3\\tplatform:linux-amd64")
    verify_file(path, text, [PublicKey.parse(public_key_file)])     # the trusted comment, or SignatureError

Signing hashes the file with BLAKE2b first (``ED``), as minisign does, so a file of any size is read once and
never held in memory. Verifying also takes the older form (``Ed``), which signs the content itself and so
needs it whole; that form is read up to ``LEGACY_LIMIT`` bytes. A file of 64 bytes needs the hashed form: the
two letters are not signed, so it could be the hash of another file that was signed. The trusted comment is
signed together with the signature; it is returned only if both are good. Secret keys are written without a
password; keys that minisign wrote with a password are read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LEGACY_LIMIT: Final = 16 << 20
_HASH_BYTES: Final = 64
SUFFIX: Final = ".minisig"

_LEGACY, _HASHED = b"Ed", b"ED"
_CHECKSUM = b"B2"
_SCRYPT, _NO_PASSWORD = b"Sc", b"\0\0"
_UNTRUSTED, _TRUSTED = "untrusted comment: ", "trusted comment: "
_COMMENT_LIMIT = 8192
_SECRET_KEY_BYTES = 158


class SignatureError(ValueError):
    """A key that can't be read, or a signature that is missing, damaged, foreign or wrong; says which."""


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies. Its file is a comment line and a base64 line; the base64 line alone is enough."""

    number: bytes
    raw: bytes

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        content = _key_content(text, "public key")
        if len(content) != 42 or content[:2] != _LEGACY:
            raise SignatureError("not a public key of minisign: expected 42 bytes that begin with Ed")
        return cls(content[2:10], content[10:])

    @property
    def id(self) -> str:
        """The number of the key as minisign prints it."""
        return _key_id(self.number)

    def dump(self) -> str:
        """The public key file."""
        return f"{_UNTRUSTED}minisign public key {self.id}\n{_base64(_LEGACY + self.number + self.raw)}\n"

    def verifies(self, signature: bytes, content: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class SecretKey:
    """A key that signs. Only ``dump`` writes its secret half, without a password: keep the file private."""

    number: bytes
    seed: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> SecretKey:
        return cls(os.urandom(8), os.urandom(32))

    @classmethod
    def parse(cls, text: str, password: str | None = None) -> SecretKey:
        """A secret key file. ``password`` is needed for a key that was written with one."""
        content = _key_content(text, "secret key")
        if len(content) != _SECRET_KEY_BYTES or content[:2] != _LEGACY or content[4:6] != _CHECKSUM:
            raise SignatureError(
                f"not a secret key of minisign: expected {_SECRET_KEY_BYTES} bytes that begin with Ed"
            )
        derivation, body = content[2:4], content[54:]
        if derivation == _SCRYPT:
            if password is None:
                raise SignatureError("the secret key is encrypted: its password is needed")
            body = _decrypted(body, password, content[6:38], content[38:46], content[46:54])
            if not hmac.compare_digest(body[72:], _checksum(body[:72])):
                raise SignatureError("the password of the secret key is wrong, or the key is damaged")
        elif derivation != _NO_PASSWORD:
            raise SignatureError("the secret key is encrypted in a way that is not known here")
        # Without a password minisign leaves the checksum zero; damage shows in the halves of the key.
        key = cls(body[:8], body[8:40])
        if key.public().raw != body[40:72]:
            raise SignatureError("the secret key is damaged: its two halves don't belong together")
        return key

    def public(self) -> PublicKey:
        return PublicKey(self.number, self._key().public_key().public_bytes_raw())

    def dump(self) -> str:
        """The secret key file, not encrypted, as ``minisign -G -W`` writes it."""
        body = self.number + self.seed + self.public().raw
        content = _LEGACY + _NO_PASSWORD + _CHECKSUM + bytes(48) + body + bytes(32)
        return f"{_UNTRUSTED}minisign secret key\n{_base64(content)}\n"

    def sign(self, content: bytes) -> bytes:
        return self._key().sign(content)

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)


def sign_file(path: Path, key: SecretKey, *, trusted_comment: str) -> str:
    """The signature file of a file."""
    if not trusted_comment.isprintable() and not trusted_comment.replace("\t", "").isprintable():
        raise SignatureError("a trusted comment is one line of printable text")
    comment = trusted_comment.encode()
    if len(comment) > _COMMENT_LIMIT:
        raise SignatureError(f"a trusted comment has at most {_COMMENT_LIMIT} bytes, this one {len(comment)}")
    signature = key.sign(_hash_of(path))
    lines = (
        f"{_UNTRUSTED}signature from minisign secret key",
        _base64(_HASHED + key.number + signature),
        f"{_TRUSTED}{trusted_comment}",
        _base64(key.sign(signature + comment)),
    )
    return "".join(f"{line}\n" for line in lines)


def verify_file(path: Path, signature: str, keys: Sequence[PublicKey]) -> str:
    """The trusted comment of a file's signature, if one of ``keys`` made it. Raises SignatureError."""
    if not keys:
        raise SignatureError("there is no trusted key to verify the signature with")
    algorithm, number, content, comment, over_comment = _parse_signature(signature)
    candidates = [key for key in keys if key.number == number]
    if not candidates:
        trusted = ", ".join(sorted({key.id for key in keys}))
        raise SignatureError(
            f"it is signed with the key {_key_id(number)}, which is not trusted here (trusted: {trusted})"
        )
    signed = _hash_of(path) if algorithm == _HASHED else _whole(path)
    signers = [key for key in candidates if key.verifies(content, signed)]
    if not signers:
        raise SignatureError(
            f"the file is not the one that was signed: its signature by the key {_key_id(number)} is wrong"
        )
    if not any(key.verifies(over_comment, content + comment) for key in signers):
        raise SignatureError("the trusted comment was altered: the signature over it is wrong")
    return comment.decode()


def _parse_signature(text: str) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Algorithm, key number, signature, trusted comment, signature over both."""
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if len(lines) != 4 or not lines[0].startswith(_UNTRUSTED) or not lines[2].startswith(_TRUSTED):
        raise SignatureError(
            "not a signature of minisign: expected four lines, "
            "an untrusted comment, the signature, a trusted comment and its signature"
        )
    first, comment = _decoded(lines[1], "signature"), lines[2].removeprefix(_TRUSTED).encode()
    last = _decoded(lines[3], "signature of the trusted comment")
    if len(first) != 74 or len(last) != 64:
        raise SignatureError("the signature is cut off: expected 74 and 64 bytes")
    if first[:2] not in (_LEGACY, _HASHED):
        raise SignatureError("the signature is of a kind that is not known here: expected Ed or ED")
    if len(comment) > _COMMENT_LIMIT:
        raise SignatureError(f"the trusted comment is longer than {_COMMENT_LIMIT} bytes")
    return first[:2], first[2:10], first[10:], comment, last


def _key_content(text: str, noun: str) -> bytes:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) == 2 and lines[0].startswith(_UNTRUSTED.strip()):
        lines = lines[1:]
    if len(lines) != 1:
        raise SignatureError(f"not a {noun} of minisign: expected a comment line and a base64 line")
    return _decoded(lines[0], noun)


def _decoded(text: str, noun: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SignatureError(f"the {noun} is not base64") from None


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _key_id(number: bytes) -> str:
    return f"{int.from_bytes(number, 'little'):X}"


def _checksum(number_and_secret: bytes) -> bytes:
    return hashlib.blake2b(_LEGACY + number_and_secret, digest_size=32).digest()


def _hash_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, hashlib.blake2b).digest()


def _whole(path: Path) -> bytes:
    """The content of a file for the form that signs it unhashed."""
    with path.open("rb") as file:
        content = file.read(LEGACY_LIMIT + 1)
    if len(content) > LEGACY_LIMIT:
        raise SignatureError(
            f"the file has more than {LEGACY_LIMIT} bytes, too many for a signature of the legacy form; "
            "sign it with minisign -H"
        )
    if len(content) == _HASH_BYTES:
        raise SignatureError(
            f"a file of {_HASH_BYTES} bytes may be the hash of another one that was signed, so a signature "
            "of the legacy form is not accepted for it; sign it with minisign -H"
        )
    return content


def _decrypted(body: bytes, password: str, salt: bytes, operations: bytes, memory: bytes) -> bytes:
    """What minisign encrypted: XOR with scrypt of the password, its cost as libsodium derives it."""
    ops, limit = int.from_bytes(operations, "little"), int.from_bytes(memory, "little")
    if ops > 1 << 26 or limit > 1 << 31:
        raise SignatureError("the secret key asks for more than 2 GiB to be decrypted: it is damaged")
    n, p = _scrypt_cost(ops, limit)
    try:
        pad = hashlib.scrypt(
            password.encode(), salt=salt, n=n, r=8, p=p, maxmem=(1 << 31) - 2, dklen=len(body)
        )
    except (ValueError, MemoryError) as error:
        raise SignatureError(f"the secret key can't be decrypted: {error}") from None
    return bytes(a ^ b for a, b in zip(body, pad, strict=True))


def _scrypt_cost(operations: int, memory: int) -> tuple[int, int]:
    """N and p, with r = 8, of libsodium's limits of operations and memory."""
    operations = max(operations, 32768)
    if operations < memory // 32:
        most, p = operations // 32, 0
    else:
        most, p = memory // 1024, 1
    exponent = 1
    while exponent < 63 and 1 << exponent <= most // 2:
        exponent += 1
    n = 1 << exponent
    return n, 1 if p == 0 else max(1, min(operations // 4 // n, 0x3FFFFFFF) // 8)
