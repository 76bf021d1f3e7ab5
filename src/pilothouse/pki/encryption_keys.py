"""Encryption of stored values with AES-256-GCM.

    keys = EncryptionKeys.read(b"2031:9b2U…=\\n2030:Xm0s…=\\n", "keys.txt")
    sealed = keys.seal("/registry/secrets/t/a", b"...")       # with the first key, 2031
    keys.open("/registry/secrets/t/a", sealed)                # with the key that the value names

The key path is authenticated, so a value moved elsewhere does not open. A sealed value begins with a marker
that no JSON begins with, and its key's name. Nonces are 96 random bits: safe for some four billion values. A
key file has one ``name:base64 of 32 bytes`` per line and ``#`` comments; the first key seals.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MARK = b"pilothouse:sealed:v1:"
KEY_BYTES = 32
_NONCE = 12
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SEALED = re.compile(re.escape(MARK) + rb"([A-Za-z0-9._-]{1,63}):")


class KeyFileError(Exception):
    """A key file that can't be used; the message names file and line, and never a key."""


class Unopenable(Exception):
    """A sealed value that can't be opened; the message says why."""


class EncryptionKeys:
    """Keys by name, the first of which seals. Without any, values stay plain."""

    def __init__(self, keys: Mapping[str, bytes] | None = None) -> None:
        self._ciphers = {name: AESGCM(key) for name, key in (keys or {}).items()}
        self.names = tuple(self._ciphers)

    @classmethod
    def read(cls, content: bytes, source: str) -> EncryptionKeys:
        """The keys of a file, which has to hold one at least. ``source`` is what messages call it."""
        keys: dict[str, bytes] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(content.splitlines(), 1):
            text = line.strip()
            if not text or text.startswith(b"#"):
                continue
            where = f"{source}, line {number}"
            name, key = _parse(text, where)
            if name in keys:
                raise KeyFileError(f"{where}: the name {name!r} of line {lines[name]} again")
            if key in keys.values():
                raise KeyFileError(
                    f"{where}: the key of line {_line_of(key, keys, lines)} under another name"
                )
            keys[name], lines[name] = key, number
        if not keys:
            raise KeyFileError(f"{source} holds no key; a line is NAME:{_WANTED}")
        return cls(keys)

    def seal(self, place: str, value: bytes) -> bytes:
        """The value as it is kept at ``place``."""
        if not self.names:
            return value
        name = self.names[0]
        nonce = os.urandom(_NONCE)
        head = MARK + name.encode() + b":"
        return head + nonce + self._ciphers[name].encrypt(nonce, value, head + place.encode())

    def open(self, place: str, kept: bytes) -> bytes:
        """The value that is kept at ``place``; a plain one is returned as it is. Raises ``Unopenable``."""
        name = key_of(kept)
        if name is None:
            return kept
        cipher = self._ciphers.get(name)
        if cipher is None:
            known = ", ".join(self.names) or "none"
            raise Unopenable(
                f"it is sealed with the key {name!r}, which this server was not given (it has: {known})"
            )
        at = len(MARK) + len(name) + 1
        nonce, body = kept[at : at + _NONCE], kept[at + _NONCE :]
        try:
            return cipher.decrypt(nonce, body, kept[:at] + place.encode())
        except (InvalidTag, ValueError):
            raise Unopenable(
                f"it is sealed with a key named {name!r} and does not open with the one of that name here: "
                "the keys differ, or the value was altered or moved"
            ) from None

    def is_stale(self, kept: bytes) -> bool:
        """Whether sealing the value again would change which key it is sealed with."""
        return bool(self.names) and key_of(kept) != self.names[0]


def key_of(kept: bytes) -> str | None:
    """The name of the key that a value is sealed with; None for a plain one."""
    found = _SEALED.match(kept)
    return found[1].decode() if found else None


def new_key_line(name: str) -> str:
    """A line for a key file, with a key made now. Raises ``ValueError`` for a name that can't be one."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name for a key: {_NAMES_ARE}")
    return f"{name}:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


_WANTED = f"base64 of {KEY_BYTES} bytes"
_NAMES_ARE = "up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def _parse(text: bytes, where: str) -> tuple[str, bytes]:
    name, colon, encoded = text.decode("ascii", "replace").partition(":")
    if not colon:
        raise KeyFileError(f"{where}: no colon; a line is NAME:{_WANTED}")
    if not _NAME.fullmatch(name):
        raise KeyFileError(f"{where}: the name before the colon must be {_NAMES_ARE}")
    try:
        key = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise KeyFileError(f"{where}: what follows the colon is not base64") from None
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"{where}: the key has {len(key)} bytes and must have {KEY_BYTES}")
    return name, key


def _line_of(key: bytes, keys: Mapping[str, bytes], lines: Mapping[str, int]) -> int:
    return next(lines[name] for name, other in keys.items() if other == key)
